"""Judge a changed kernel without a GPU: whether it does the same work as the one before, on inputs that it cannot know.

Both versions are executed at several sizes. Sizes and inputs follow from both cubins, so that the same two kernels get
the same verdict, and none can be written for what it gets.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, TimeLimit, UsageError
from ncu_swizzle.emulate.blocks import numbered
from ncu_swizzle.emulate.device_memory import UNTOUCHED
from ncu_swizzle.emulate.faults import Circling, MemoryFault, Stuck
from ncu_swizzle.engines import executed
from ncu_swizzle.engines.emulated_launch import ALIGNMENT
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings, emulate_target
from ncu_swizzle.engines.executed import ExecutedTarget, ReadyTarget
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Argument, Parameter, Target
from ncu_swizzle.reports.model import violations
from ncu_swizzle.smem.operations import Ints

CASES = 4
DRAWS = 20  # of sizes, until one has a block
ELEMENTWISE = 8  # an element may be off by so many times the tolerance, relative to itself or to its row
MOST_APART = 1 << 13  # steps of ALIGNMENT by which the second version's buffers are moved
LOUD = 100.0  # what random numbers of the second case are multiplied by
HUGE, APART = 2.0**40, 31  # and of the fourth, each so many-th, if it has 32 bits or more


class Judged(StrEnum):
    """The verdict."""

    SAME = "same"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One launch of both versions on the same inputs."""

    problem: Mapping[str, int]
    seed: int
    elements: int  # of outputs that were compared
    error: float  # the largest difference of an element, relative to itself or to its row


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a launch of each version takes: before, after; None if unknown."""

    wavefronts: tuple[int | None, int | None] = (None, None)
    sectors: tuple[int | None, int | None] = (None, None)
    cycles: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Whether the second version may take the place of the first, and why not."""

    before: str
    after: str
    outcome: Judged
    reasons: tuple[str, ...] = ()
    cases: tuple[ComparedRun, ...] = ()
    costs: Costs = field(default_factory=Costs)
    inexact: tuple[str, ...] = ()  # instructions that reach outputs and are not bit-exact

    def lines(self) -> Iterator[str]:
        """Yield what to print."""
        for case in self.cases:
            at = ", ".join(f"{name}={size}" for name, size in case.problem.items()) or "the described size"
            yield f"{at}: {case.elements:,} elements, largest difference {case.error:.2g} (seed {case.seed})"
        for name, (before, after) in asdict(self.costs).items():
            if before is not None and after is not None:
                yield f"{name}: {before:,} → {after:,}"
        if self.inexact:
            yield f"not bit-exact: {', '.join(self.inexact)}"
        yield f"{self.after}: {self.outcome}" + "".join(f", {reason}" for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


class _Refused(Exception):
    """The second version does not do what the first does."""


class _Unclear(Exception):
    """It cannot be told."""


def judge(before: Target, after: Target, settings: EmulationSettings) -> Judgement:
    """Return whether `after` does the same as `before`.

    Raises UsageError for kernels with other buffers or without outputs, and what compiling raises.
    """
    outputs = _refuse_unlike(before, after)
    versions = [(version, executed.compiled(version, settings)) for version in (before, after)]
    cubins = b"".join(ready.binary.cubin.data for _, ready in versions)
    rng = np.random.default_rng(list(hashlib.sha256(cubins).digest()))
    seeds = rng.integers(1 << 32, size=CASES)
    done: list[ComparedRun] = []
    inexact: dict[str, None] = {}
    outcome, reasons, costs = Judged.SAME, list[str](), Costs()
    try:
        distinct: dict[str, set[bytes]] = {}
        for number, (sizes, seed) in enumerate(zip(_sizes(before, rng), seeds.tolist(), strict=True)):
            old, new = (ready.resized(target.sized(sizes), settings) for target, ready in versions)
            inputs = _drawn(old.target, seed, number)
            # Results may depend neither on where buffers lie, each bit of addresses takes both values in the first two,
            # nor on the order of blocks.
            moved = int(seeds[0]) ^ (MOST_APART - 1) * (number == 1) ^ seed * (number > 1)
            apart = moved % MOST_APART * ALIGNMENT
            first = _reference(old, inputs)
            x, y, z = (*new.target.launch.grid, 1, 1)[:3]
            second = _attempt(new, inputs, apart, rng.permutation(numbered((x, y, z))) if number else None)
            done.append(_compare(first, second, outputs, seed))
            if number == 0:  # what a kernel keeps in variables of its own shows when it is launched on something else
                others = _drawn(old.target, seed + 1, number)
                _compare(first.relaunched(others), _attempt(second, others), outputs, seed + 1)
            for name in outputs:
                distinct.setdefault(name, set()).add(first.array(_argument(first.target, name)).tobytes()[:4096])
                inexact |= dict.fromkeys(second.execution.reasons(second.where(_argument(second.target, name))))
        if all(len(each) == 1 for each in distinct.values()):
            raise _Unclear(f"no output of {before.name} depends on its inputs: there is no work to compare")
        costs = _judge_launches(before, after, settings)
    except _Refused as error:
        outcome, reasons = Judged.REFUSED, [str(error)]
    except _Unclear as error:
        outcome, reasons = Judged.UNKNOWN, [str(error)]
    return Judgement(
        before=before.name,
        after=after.name,
        outcome=outcome,
        reasons=tuple(reasons),
        cases=tuple(done),
        costs=costs,
        inexact=tuple(inexact),
    )


def _argument(target: Target, name: str) -> Argument:
    return next(each for each in target.family.arguments if each.name == name)


def _refuse_unlike(before: Target, after: Target) -> tuple[str, ...]:
    """Return the names of outputs; raise UsageError if the two kernels do not take the same buffers."""
    buffers = [
        {each.name: (each.dtype, each.shape, each.output) for each in target.family.arguments if each.shape}
        for target in (before, after)
    ]
    if buffers[0] != buffers[1]:
        raise UsageError(f"{before.name} and {after.name} have different buffers", "describe both with the same --arg")
    outputs = tuple(name for name, (_, _, is_output) in buffers[0].items() if is_output)
    if not outputs:
        raise UsageError(f"{before.name} has no output to compare", "name one: --arg y=float32[n]:out")
    return outputs


def _sizes(target: Target, rng: np.random.Generator) -> Iterator[Mapping[str, int]]:
    """Yield the sizes of each case: one that takes seconds, one near it, perhaps larger, and two small ones."""
    first = executed.checked_size(target).problem
    parameters = {parameter.name: parameter for parameter in target.family.parameters}
    yield first
    for least, most in ((1 / 2, 9 / 8), (0, 1 / 2), (0, 1 / 2)):
        drawn = (
            {name: _between(parameters[name], least * size, most * size, rng) for name, size in first.items()}
            for _ in range(DRAWS)
        )
        # What is less than a block may leave no grid at all.
        yield next((sizes for sizes in drawn if min(target.sized(sizes).launch.grid) > 0), first)


def _between(parameter: Parameter, least: float, most: float, rng: np.random.Generator) -> int:
    """Return a value that the kernels support, in (`least`, `most`] if possible, and then no power of two."""
    step, low = parameter.multiple, max(parameter.smallest, 1)
    steps = max(int(least // step) + 1, low // step), max(int(most // step), low // step)
    chosen = int(rng.integers(steps[0], max(steps) + 1))
    power = (chosen * step).bit_count() == 1
    return step * (chosen + (power and chosen < steps[1]))


def _drawn(target: Target, seed: int, number: int) -> dict[str, np.ndarray]:
    """Return the inputs of a case: random; loud; with zeros and equal neighbours; huge. Described contents stay."""
    arguments = tuple(fills.varied(each) for each in target.family.arguments)
    drawn = fills.inputs(replace(target.family, arguments=arguments), target.problem, np.random.default_rng(seed))
    for argument in arguments:
        if argument.name in drawn and argument.fill in ("", fills.RANDOM) and fills.floating(argument):
            array = drawn[argument.name]
            flat = array.ravel()
            if number == 1 and array.dtype.itemsize > 1:
                flat = (flat.astype(np.float64) * LOUD).astype(array.dtype)
            elif number == 2:
                flat[::7], flat[1::5] = 0, flat[:1]
            elif number == 3 and array.dtype.itemsize >= 4:
                flat[::APART] *= array.dtype.type(HUGE)
            drawn[argument.name] = flat.reshape(array.shape)
    return drawn


def _reference(version: ReadyTarget, inputs: Mapping[str, np.ndarray]) -> ExecutedTarget:
    """Execute the first version, which must run and be known. Raises _Unclear."""
    target = version.target
    try:
        ran = executed.executed(version, inputs)
    except EnvironmentLacking:
        raise
    except NcuSwizzleError as error:
        raise _Unclear(f"{target.name} cannot be executed: {error}") from error
    for argument in ran.outputs:
        written = ran.execution.memory.by[ran.where(argument)] != UNTOUCHED
        if not ran.execution.memory.known[ran.where(argument)][written].all():
            raise _Unclear(f"{argument.name} of {target.name} is not all known: {executed.why_unknown(ran)}")
    return ran


def _attempt(
    version: ReadyTarget | ExecutedTarget, inputs: Mapping[str, np.ndarray], apart: int = 0, blocks: Ints | None = None
) -> ExecutedTarget:
    """Execute the second version, or launch it again; `blocks`, (B, 3), one after the other.

    Raises _Refused for a fault or a hang, _Unclear.
    """
    target = version.target
    try:
        if isinstance(version, ExecutedTarget):
            return version.relaunched(inputs)
        return executed.executed(version, inputs, apart=apart, blocks=blocks)
    except MemoryFault as error:
        raise _Refused(f"an access outside of the buffers: {error}") from error
    except (Stuck, Circling) as error:
        if blocks is not None:  # one may wait for another with a lower number: GPUs start these first
            return _attempt(version, inputs, apart)
        raise _Refused(f"it hangs: {error}") from error
    except TimeLimit as error:
        raise _Refused(f"it does not end within {executed.CHECK_S:g} s, and {target.name} should: {error}") from error
    except EnvironmentLacking:
        raise
    except NcuSwizzleError as error:
        raise _Unclear(f"{target.name} cannot be executed: {error}") from error


def _compare(first: ExecutedTarget, second: ExecutedTarget, outputs: Sequence[str], seed: int) -> ComparedRun:
    """Compare what both have left. Raises _Refused."""
    elements, worst = 0, 0.0
    for argument in first.target.family.arguments:
        if argument.shape and argument.name not in outputs:
            _refuse_changed(first, second, argument)
    for name in outputs:
        argument = _argument(first.target, name)
        right, found = first.array(argument), second.array(argument)
        wrote = [ran.written(argument) for ran in (first, second)]
        missing = wrote[0] & ~wrote[1]
        at = f"at {', '.join(f'{k}={v}' for k, v in first.target.problem.items()) or 'the described size'}"
        if missing.any():
            raise _Refused(f"{int(missing.sum()):,} elements of {name} are never written {at}")
        if not second.known(argument)[wrote[0]].all():
            raise _Refused(f"{name} is not all known {at}: {executed.why_unknown(second)}")
        if (wrote[1] & ~wrote[0]).any():
            raise _Refused(f"elements of {name} are written that {first.target.name} leaves alone, {at}")
        apart = _differences(found, right, wrote[0])
        worst = max(worst, float(apart.max(initial=0.0)))
        if not worst <= ELEMENTWISE * argument.tolerance:
            place = np.unravel_index(int(np.argmax(apart > ELEMENTWISE * argument.tolerance)), right.shape)
            by = second.writer(argument, int(np.ravel_multi_index(place, right.shape)))
            where = ", ".join(str(int(each)) for each in place)
            wrong = f"{name}[{where}] is {found[place]}, not {right[place]}"
            raise _Refused(", ".join(filter(None, (wrong, by, at, f"seed {seed}"))))
        elements += int(wrote[0].sum())
    return ComparedRun(problem=dict(first.target.problem), seed=seed, elements=elements, error=worst)


def _refuse_changed(first: ExecutedTarget, second: ExecutedTarget, argument: Argument) -> None:
    """Raise _Refused if the second version writes to an input that the first leaves alone."""
    wrote = [bool((ran.execution.memory.by[ran.where(argument)] != UNTOUCHED).any()) for ran in (first, second)]
    if wrote[1] and not wrote[0]:
        raise _Refused(f"it writes to {argument.name}, an input")


def _differences(found: np.ndarray, right: np.ndarray, compared: np.ndarray) -> np.ndarray:
    """Return how far each element is off, relative to itself or to the mean size of its row: inf for NaN."""
    same = found == right
    if right.dtype.kind in "iub":
        return np.where(same | ~compared, 0.0, np.inf)
    a, b = found.astype(np.float64), right.astype(np.float64)
    finite = np.where(np.isfinite(b), b, 0.0)
    usual = np.sqrt(np.mean(finite**2, axis=-1, keepdims=True)) if b.ndim else np.abs(finite)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b) / np.maximum(np.maximum(np.abs(b), usual), np.finfo(np.float64).tiny)
    both_nan = np.isnan(a) & np.isnan(b)
    apart = np.where(same | both_nan, 0.0, np.where(np.isfinite(apart), apart, np.inf))
    return np.where(compared, apart, 0.0)


# ---------------------------------------------------------------------------------------------- launches


def _judge_launches(before: Target, after: Target, settings: EmulationSettings) -> Costs:
    """Return what launches take; raise _Refused for a race, or another fault, that only the second version has, and
    _Unclear if it is not known whether it has one.
    """
    settings = replace(settings, races=True)
    try:
        old, new = (emulate_target(version, settings) for version in (before, after))
    except (MemoryFault, Stuck, Circling) as error:
        raise _Refused(f"the described launch fails: {error}") from error
    except TimeLimit as error:
        raise _Unclear(f"counting the described launch takes too long: {error}") from error
    known = Counter(each.code for each in violations(old.profile))
    for each in violations(new.profile):
        known[each.code] -= 1
        if known[each.code] < 0:
            where = f" at {each.line[0]}:{each.line[1]}" if each.line else ""
            raise _Refused(f"{each.code}{where}: {each.message}")
    doubts = {each.code for each in old.profile.unknowns}
    for doubt in new.profile.unknowns:
        if doubt.code in (codes.UNCHECKED_ORDER, codes.UNCHECKED_BOUNDS) and doubt.code not in doubts:
            raise _Unclear(f"it is not known, and is of {before.name}: {doubt.reason} ({doubt.code})")
    return Costs(
        wavefronts=(old.profile.total.wavefronts, new.profile.total.wavefronts),
        sectors=(_sectors(old), _sectors(new)),
        cycles=(_cycles(old), _cycles(new)),
    )


def _sectors(version: Emulated) -> int | None:
    """Return the sectors of global memory of a launch; None if some are unknown."""
    if any(row.traffic_unknown for row in version.counts.rows):
        return None
    return sum(row.traffic.sectors or 0 for row in version.counts.rows)


def _cycles(version: Emulated) -> int | None:
    simulated = version.profile.simulated
    return None if simulated is None or simulated.cycles is None else round(simulated.cycles.point)
