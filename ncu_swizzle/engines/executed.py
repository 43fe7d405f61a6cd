"""A target executed without a GPU on concrete inputs: what every output holds afterwards, compared with a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import KEPT, THREAD_BITS, DeviceMemory
from ncu_swizzle.emulate.execution import Execution, execute
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.machine import coordinates
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.engines import emulated_launch, emulation
from ncu_swizzle.engines.emulated_launch import GAP, Binary
from ncu_swizzle.engines.emulation import EmulationSettings, code_of, line_of
from ncu_swizzle.kernels import fills, references
from ncu_swizzle.kernels.family import Argument, Target
from ncu_swizzle.kernels.limits import along_axes
from ncu_swizzle.reports.model import OUTPUT_RULE, CheckedOutput, Profile, violation
from ncu_swizzle.smem.operations import Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class ExecutedLaunch:
    """A launch that has been executed."""

    binary: Binary
    code: Code
    launch: Launch
    execution: Execution

    def writer_at(self, place: int) -> str:
        """Say who wrote a byte of the memory last: thread, block, and the source line if known; "" if nobody has."""
        memory = self.execution.memory
        if memory.by[place] <= 0:
            return ""
        who, instruction = int(memory.who[place]), self.execution.program.instructions[int(memory.by[place]) - 1]
        thread = coordinates(who & (1 << THREAD_BITS) - 1, self.launch.block)
        block = coordinates(who >> THREAD_BITS, self.launch.grid)
        line = line_of(self.binary, instruction.offset)
        return f"written by thread {thread} of block {block}{f' at {line[0]}:{line[1]}' if line else ''}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ExecutedTarget(ExecutedLaunch):
    """A launch of a target that has been executed."""

    target: Target

    @property
    def reads_kept(self) -> bool:
        """Whether a launch has read what one before has left in variables of the module."""
        return any(KEPT in writers for writers in self.execution.memory.read.values())

    def relaunched(self, inputs: Mapping[str, np.ndarray]) -> ExecutedTarget:
        """Launch again on the same memory, with the buffers as they were before the first launch.

        Variables of the module keep what they hold. Raises one of `emulate.faults`.
        """
        memory = self.execution.memory
        self.execution.settle(self.launch.memory)
        for argument in self.target.family.arguments:
            if argument.shape:
                where = self.where(argument)
                memory.known[where], memory.by[where] = argument.name in inputs, 0
                if argument.name in inputs:
                    memory.content[where] = np.ascontiguousarray(inputs[argument.name]).view(np.uint8).ravel()
        return replace(self, execution=execute(self.code, self.launch, memory, Clock(timeout_s=CHECK_S)))

    def where(self, argument: Argument) -> slice:
        """Return where a buffer lies in the memory's bytes."""
        buffer = next(each for each in self.launch.buffers if each.name == argument.name)
        return self.execution.memory.span(buffer.address, buffer.size)

    def _of_elements(self, of_bytes: np.ndarray, argument: Argument) -> np.ndarray:
        """Return what an array of the memory says of a buffer's bytes, (…, bytes of an element)."""
        shape = fills.shape(argument, self.target.problem)
        return of_bytes[self.where(argument)].reshape(*shape, -1)

    def array(self, argument: Argument) -> np.ndarray:
        """Return what a buffer holds, in its dtype and shape."""
        content = self._of_elements(self.execution.memory.content, argument)
        return content.view(fills.numpy_dtype(argument.dtype))[..., 0]

    def known(self, argument: Argument) -> np.ndarray:
        """Return which elements of a buffer are known, in its shape."""
        return np.asarray(self._of_elements(self.execution.memory.known, argument).all(axis=-1))

    def written(self, argument: Argument) -> np.ndarray:
        """Return which elements of a buffer the launch has written, in its shape."""
        return np.asarray(self._of_elements(self.execution.memory.by, argument).all(axis=-1))

    def touched(self, argument: Argument) -> np.ndarray:
        """Return of which elements of a buffer the launch has written a byte, in its shape."""
        return np.asarray(self._of_elements(self.execution.memory.by, argument).any(axis=-1))

    def writer(self, argument: Argument, at: int) -> str:
        """Say who wrote an element last, as `writer_at`."""
        return self.writer_at(self.where(argument).start + at * fills.numpy_dtype(argument.dtype).itemsize)

    @cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """The kernel's outputs."""
        return tuple(argument for argument in self.target.family.arguments if argument.output)


def concrete_launch(
    target: Target, cubin: Cubin, symbol: str, inputs: Mapping[str, np.ndarray], apart: int = 0
) -> Launch:
    """Return the launch of a target with these contents of its buffers; outputs without any hold nothing.

    `apart`: bytes by which all buffers are moved. Raises what `emulated_launch.launch_with` raises.
    """
    launch = emulated_launch.launch_with(target, cubin, symbol, inputs, apart)
    buffers = tuple(buffer for buffer in launch.buffers if buffer.name != GAP)
    # The loader fills variables without an initial value with zeros.
    zeroed, size = emulated_launch.zeroed(cubin)
    return replace(launch, buffers=buffers, memory={**launch.memory, **({zeroed: bytes(size)} if size else {})})


# ---------------------------------------------------------------------------------------------- execution


NO_REFERENCE = 'name a NumPy function in ncu-swizzle.toml: reference = "reference.py:FUNCTION"'
CHECK_S = 20.0  # of CPU, for the execution that an output is checked with


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadyTarget:
    """A target as its front end has it, and its code."""

    target: Target
    binary: Binary
    code: Code

    def resized(self, target: Target, settings: EmulationSettings) -> ReadyTarget:
        """Return the same kernel at the size of this target, for which only one written in Python is compiled again."""
        return compiled(target, settings) if target.python else replace(self, target=target)


def compiled(target: Target, settings: EmulationSettings) -> ReadyTarget:
    """Compile a target; raise what that raises."""
    version = emulation.compiled(target, settings)
    return ReadyTarget(target=version.target, binary=version.binary, code=code_of(version.binary, settings))


@dataclass(frozen=True, eq=False, kw_only=True)
class Manner:
    """How a launch is executed, on which nothing that a right kernel computes depends."""

    blocks: Ints | None = None  # (B, 3), one after the other; all by default
    apart: int = 0  # bytes by which all buffers are moved
    backwards: bool = False  # whether lanes take turns at a word the other way round
    timeout_s: float = CHECK_S


def executed(version: ReadyTarget, inputs: Mapping[str, np.ndarray], how: Manner | None = None) -> ExecutedTarget:
    """Execute a target on these inputs. Raises one of `emulate.faults`, with the source line, and UsageError."""
    how, binary = how or Manner(), version.binary
    launch = concrete_launch(version.target, binary.cubin, binary.symbol, inputs, how.apart)
    return ExecutedTarget(target=version.target, **vars(executed_launch(binary, version.code, launch, how)))


def executed_launch(binary: Binary, code: Code, launch: Launch, how: Manner) -> ExecutedLaunch:
    """Execute a launch on what it says of memory. Raises one of `emulate.faults`, with the source line."""
    memory = DeviceMemory.holding(launch.buffers, launch.memory)
    memory.backwards = how.backwards
    try:
        execution = execute(code, launch, memory, Clock(timeout_s=how.timeout_s), how.blocks)
    except ProgramFailed as error:
        emulation.name_line(error, binary)
        raise
    return ExecutedLaunch(binary=binary, code=code, launch=launch, execution=execution)


def run(
    target: Target,
    inputs: Mapping[str, np.ndarray] | None = None,
    settings: EmulationSettings | None = None,
    seed: int = 0,
) -> ExecutedTarget:
    """Execute all blocks of a target; buffers that `inputs` lack hold what describes them, random numbers by `seed`.

    Raises UsageError for an input of another shape, and what `executed` raises.
    """
    settings = settings or EmulationSettings()
    held = fills.inputs(target.family, target.problem, np.random.default_rng(seed))
    buffers = {each.name: each for each in target.family.arguments if each.shape}
    for name, array in (inputs or {}).items():
        if name not in buffers:
            raise UsageError(f"{target.name} has no buffer {name!r}", f"its buffers: {', '.join(buffers) or 'none'}")
        wanted = fills.shape(buffers[name], target.problem)
        if array.shape != wanted:
            raise UsageError(f"{name} has shape {list(array.shape)}, not {list(wanted)}", f"reshape {name}")
        held[name] = array.astype(fills.numpy_dtype(buffers[name].dtype))
    return executed(compiled(target, settings), held, Manner(timeout_s=settings.limit_s))


def outputs_of(ran: ExecutedTarget) -> dict[str, np.ndarray]:
    """Return the outputs by name; raise ProgramFailed if one that was written is not known."""
    for argument in ran.outputs:
        unknown = ran.written(argument) & ~ran.known(argument)
        if unknown.any():
            what = f"{int(unknown.sum()):,} elements of {argument.name} are not known: {why_unknown(ran)}"
            raise ProgramFailed(what, "docs/results.md says what is not computed")
    return {argument.name: ran.array(argument).copy() for argument in ran.outputs}


def why_unknown(ran: ExecutedLaunch) -> str:
    """Return why something that a launch has left is unknown."""
    return (
        ran.execution.memory.lost
        or ", ".join(ran.execution.unknown)
        or ("it depends on what only the hardware knows, such as a clock, or on memory that nothing wrote")
    )


# ---------------------------------------------------------------------------------------------- comparison


def checked_size(target: Target) -> Target:
    """Return the target at a size that takes some seconds: the largest sizes halved, as far as its kernels allow."""
    while not fills.is_small(target):
        halved = {one.name: one.halved(target.problem[one.name]) for one in target.family.parameters}
        smaller = [name for name, size in halved.items() if size < target.problem[name]]
        if not smaller:
            break
        largest = max(smaller, key=target.problem.__getitem__)
        target = target.sized({**target.problem, largest: halved[largest]})
    return target


def sampled_blocks(target: Target) -> Ints | None:
    """Return evenly spaced blocks, (B, 3), of a launch that is too large to execute; None for all of a small one."""
    launch = target.launch
    total, threads = math.prod(launch.grid), math.prod(launch.block)
    if target.threads <= fills.MOST_LANES or launch.cluster:
        return None
    chosen = np.unique(np.linspace(0, total - 1, max(1, fills.MOST_LANES // threads)).astype(np.int64))
    return np.stack(coordinates(chosen, along_axes(launch.grid)), axis=1)


def check_outputs(target: Target, settings: EmulationSettings, seed: int = 0) -> tuple[CheckedOutput, ...]:
    """Execute a target on random inputs, at a smaller size if it is large, and compare its outputs with the reference.

    Raises UsageError without a reference, and what `executed` and the reference raise.
    """
    if not target.family.reference:
        raise UsageError(f"{target.name} has no reference to compare with", NO_REFERENCE)
    target = checked_size(target)
    rng = np.random.default_rng(seed)
    inputs = fills.inputs(target.family, target.problem, rng)
    expected = references.expected_outputs(target.family, target.problem, inputs, rng)
    ran = executed(compiled(target, settings), inputs, Manner(blocks=sampled_blocks(target)))
    return tuple(_compared(ran, argument, *expected[argument.name]) for argument in ran.outputs)


def _compared(ran: ExecutedTarget, argument: Argument, index: Any, values: np.ndarray) -> CheckedOutput:
    """Compare one output with its reference, as far as it is known."""
    shape = fills.shape(argument, ran.target.problem)
    blocks = math.prod(ran.launch.grid)
    written = ran.written(argument)
    known = ran.known(argument) | ~written
    # What blocks that did not run would have written is not missing.
    compared = known if ran.execution.ran == blocks else known & written
    out = np.where(written, ran.array(argument).astype(np.float64), np.nan)
    right = np.where(compared[index], values, 0)
    found = np.where(compared[index], out[index], 0)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = references.row_errors(found, right)
    errors = np.where(np.isnan(errors), np.inf, errors)
    lost = int(np.count_nonzero(~known))
    return CheckedOutput(
        name=argument.name,
        problem=ran.target.problem,
        checked=int(np.count_nonzero(compared[index])),
        elements=math.prod(shape),
        blocks=ran.execution.ran,
        all_blocks=blocks,
        error=worst if math.isfinite(worst := float(errors.max(initial=0.0))) else None,
        tolerance=argument.tolerance,
        wrong=_first_wrong(ran, argument, index, found, right, errors) if errors.max() > argument.tolerance else "",
        inexact=ran.execution.reasons(ran.where(argument)),
        unknown=f"{lost:,} elements: {why_unknown(ran)}" if lost else "",
    )


def _first_wrong(
    ran: ExecutedTarget, argument: Argument, index: Any, found: np.ndarray, right: np.ndarray, errors: np.ndarray
) -> str:
    """Describe the first wrong element of the first row that is wrong: what it should be, and who wrote it, where."""
    shape = fills.shape(argument, ran.target.problem)
    number = np.arange(math.prod(shape)).reshape(shape)[index].ravel()  # of each compared element, in memory order
    row, columns = int((errors.ravel() > argument.tolerance).argmax()), found.size // errors.size
    apart = np.abs(found - right).ravel()[row * columns :][:columns]
    apart = np.where(np.isnan(apart), np.inf, apart)
    # More than rounding, which is all of the tolerance in none of a row's elements: 8 times their mean share of it.
    usual = np.sqrt(np.mean(right.ravel()[row * columns :][:columns] ** 2))
    at = row * columns + int((apart >= min(apart.max() / 2, max(8 * argument.tolerance * usual, 1e-300))).argmax())
    place = ", ".join(str(int(each)) for each in np.unravel_index(number[at], shape))
    named, wanted = f"{argument.name}[{place}]", f"{right.ravel()[at]:.6g}"
    writer = ran.writer(argument, int(number[at]))
    if not writer:
        return f"{named} was never written; it should be {wanted}"
    return f"{named} is {found.ravel()[at]:.6g}, not {wanted}, {writer}"


def with_check(profile: Profile, target: Target, settings: EmulationSettings) -> Profile:
    """Return a profile with its outputs checked. Raises what `check_outputs` raises if the settings ask for it."""
    return with_outputs(profile, lambda: check_outputs(target, settings), asked=settings.check)


def with_outputs(
    profile: Profile, check: Callable[[], Iterable[CheckedOutput]], *, asked: bool | None = None
) -> Profile:
    """Return a profile with checked outputs: their errors, notes, and a finding for each that is wrong.

    What cannot be checked is noted, or raised if it was `asked` for. Of a launch that was described, so that it is
    known whether, a fault is a finding; one that was captured may access what was not. An output that differs is noted
    alone if what is not bit-exact reaches it: the reference has to be the GPU's, and no tolerance.
    """
    outputs: tuple[CheckedOutput, ...] = ()
    notes, wrongs = [], []
    try:
        outputs = tuple(check())
    except NcuSwizzleError as error:
        if isinstance(error, MemoryFault) and asked is not None:
            wrongs.append(f"no output is right: {error}")
        elif asked and not isinstance(error, TimeLimit):
            raise
        else:
            notes.append(f"outputs were not checked: {error}")
    for each in outputs:
        if each.wrong:
            (notes if each.inexact and not each.tolerance else wrongs).append(str(each))
    return replace(
        profile,
        checked=outputs,
        errors={each.name: each.error for each in outputs if each.error is not None},
        notes=(*profile.notes, *(f"{profile.kernel.name}: {note}." for note in notes)),
        findings=(*profile.findings, *(violation(wrong, None, OUTPUT_RULE, codes.WRONG_OUTPUT) for wrong in wrongs)),
    )
