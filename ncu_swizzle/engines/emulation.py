"""A target emulated once, with its code and launch to execute it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed, UsageError
from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin, open_cubin
from ncu_swizzle.cubin.lines import Location, is_library
from ncu_swizzle.cubin.names import demangle
from ncu_swizzle.cubin.shared_arrays import SharedArray, embedded, entry_in, shared_arrays
from ncu_swizzle.cycles.simulated import Simulated
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.engines import emulated_launch, emulated_profile
from ncu_swizzle.engines.emulated_launch import GLOBALS, HEAP, MOST_SHARED, Binary
from ncu_swizzle.engines.emulated_profile import profile_of_counts, source_stack, unknown_notes
from ncu_swizzle.engines.settings import NEVER, Done, OnDone, Request, unheard
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.kernels import fills, kernels_only, toolchain
from ncu_swizzle.kernels.check import code_in
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.git import commit_of_family
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain, disassembly
from ncu_swizzle.reports.model import KernelId, Profile
from ncu_swizzle.smem import access, operations
from ncu_swizzle.smem.operations import LINE

if TYPE_CHECKING:
    from ncu_swizzle.frontends.contract import Built

# What to launch a kernel with that accesses shared memory beyond what its block has.

MOST_S = 30.0  # for a hint
OWN = f"{access.RESERVED_BYTES:,} of a block's bytes are CUDA's own"


def shared_hint(code: Code, launch: Launch, cubin: Cubin, left_s: float) -> Hint:
    """Return what to try after an access beyond the block's shared memory: how much it needs, if that can be had.

    The launch is emulated with as much as there is, in the remaining time.
    """
    static = cubin.attributes(code.name).static_shared
    entry = entry_in(embedded(cubin), code.name)
    if static and not (entry and entry.dynamic_shared):
        return Hint(f"its arrays have {static:,} bytes and {OWN}: fix the index, or use a smaller --block")
    try:
        needed = _needed(code, launch, MOST_SHARED - static, min(left_s, MOST_S))
    except TimeLimit:
        return Hint("give it more, up to ", Typed(f"--shared {MOST_SHARED - static}"), ", or fix the index")
    if needed is None:
        return Hint(
            "fix the index: no block has as much shared memory, ",
            Typed(f"--shared {MOST_SHARED - static}"),
            " is the most",
        )
    return Hint(Typed(f"--shared {needed}"), f": as far as it reaches; {OWN}, and not counted there")


def _needed(code: Code, launch: Launch, most: int, timeout_s: float) -> int | None:
    """Return the bytes of dynamic shared memory that all accesses stay within; None if `most` do not suffice.

    Raises TimeLimit.
    """
    from ncu_swizzle.emulate.run import emulate  # the emulator, loaded by now

    try:
        counts = emulate(code, replace(launch, shared_dynamic=most), counts_traffic=False, timeout_s=timeout_s)
    except TimeLimit:
        raise
    except NcuSwizzleError:
        return None
    ends = [
        int(requests.addresses[requests.active].max()) + max(operations.find(requests.op).width_bytes, 1)
        for requests in counts.requests.values()
        if requests.active.any()
    ]
    start = -(-code.shared_bytes // LINE) * LINE  # dynamic shared memory follows the static one, aligned to a line
    # More than now in any case, or the hint would repeat what failed.
    return min(max(max(ends, default=start) - start, launch.shared_dynamic + 1), most)


# The emulated engine: compile a kernel, execute its SASS in NumPy, and return a Profile.
#
# Every count is what ncu would report for that cubin on its architecture, or unknown, with the reason in the profile's
# notes. There are no times and no stalls.


@dataclass(frozen=True)
class EmulationSettings:
    """How to compile and emulate kernels; the toolchain's time limit holds for each tool."""

    toolchain: Toolchain = field(default_factory=Toolchain)
    exhaustive: bool = False  # run every block, not just one of each distinct class
    cached: bool = True  # use cached cubins and emulations, and keep those made
    races: bool = False  # look for races and deadlocks, too
    cycles: str = NEVER  # whether to simulate what launches would take on an H100
    check: bool = False  # compare what captured launches leave in memory with what they left on the GPU
    budget_s: float | None = None  # of CPU, for each launch; by default as long as a tool

    @property
    def limit_s(self) -> float:
        """The CPU time that emulating a launch may take."""
        return self.budget_s or self.toolchain.timeout_s

    @classmethod
    def of(cls, request: Request, *, simulating: bool = False) -> EmulationSettings:
        """Return the settings of a request; launches are simulated, as it says, for those who show what that gives."""
        toolchain = Toolchain(request.nvcc, request.timeout_s)
        cycles = request.cycles if simulating else NEVER
        return cls(
            toolchain, request.exhaustive, cached=not request.no_cache, races=request.races, cycles=cycles,
            check=bool(request.check), budget_s=request.budget_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Emulated:
    """A profile, and what it was made from: the emulator's counts and the cubin."""

    profile: Profile
    counts: Counts
    binary: Binary
    on_unknown: tuple[str, ...] = ()  # the profile's notes that say why counts are unknown

    @property
    def other_notes(self) -> tuple[str, ...]:
        """The notes without those that say why counts are unknown, for outputs that say it elsewhere."""
        return tuple(note for note in self.profile.notes if note not in self.on_unknown)


@dataclass(frozen=True, kw_only=True)
class CompiledTarget:
    """A target as its front end has it, its cubin, the compiler with its version if known, and how it was compiled."""

    target: Target
    binary: Binary
    compiler: str = ""
    notes: tuple[str, ...] = ()
    built: Built | None = None  # of a function in Python


def compiled(target: Target, settings: EmulationSettings) -> CompiledTarget:
    """Compile a target. Raises EnvironmentLacking without a compiler, UsageError for a library's kernel."""
    family, kernel, tools = target.family, target.kernel, settings.toolchain
    if kernel.library:
        raise UsageError(f"{target.name} is a library kernel, with no source to emulate", "--engine recorded shows it")
    if target.python:
        from ncu_swizzle.frontends.contract import built  # what starts the frameworks' compilers

        made = built(target, ARCH, tools.timeout_s)
        return CompiledTarget(
            target=made.target, binary=binary_of(made.target, made.code), compiler=made.compiler, notes=made.notes,
            built=made,
        )  # fmt: skip
    if target.compiled:
        code = code_in(target.source, tools, settings.cached, family.arch)
        return CompiledTarget(target=target, binary=binary_of(target, code))
    arch, version = family.architecture(kernel, ARCH), tools.version()
    whole = kernels_only.compiled(family, kernel, arch, tools, settings.cached)
    notes = tuple(f"{note}." for note in whole.notes)
    return CompiledTarget(target=target, binary=binary_of(target, whole.code), compiler=version, notes=notes)


def binary_of(target: Target, code: bytes) -> Binary:
    """Return a target's cubin with its sources."""
    cubin = open_cubin(code, target.source.name)
    roots = tuple(map(str, toolchain.source_roots(target.family)))
    sources = {} if target.compiled else target.family.source_texts()
    return Binary(cubin=cubin, symbol=names.find(cubin, target.kernel.entry), roots=roots, sources=sources)


def code_of(binary: Binary, settings: EmulationSettings) -> Code:
    """Return the instructions of a kernel."""
    text = disassembly(binary.cubin, settings.toolchain, settings.cached, binary.symbol)
    return emulated_launch.code(binary.cubin, binary.symbol, text)


def emulate_target(
    target: Target,
    settings: EmulationSettings | None = None,
    on_progress: OnDone = unheard,
) -> Emulated:
    """Compile a kernel and emulate one launch of it. Raises what `compiled` raises, and whatever `emulate` does."""
    settings = settings or EmulationSettings()
    version = compiled(target, settings)
    emulated = _emulated_launch(version.target, version.binary, version.compiler, settings, on_progress)
    profile = replace(emulated.profile, notes=(*emulated.profile.notes, *version.notes))
    return replace(emulated, profile=version.built.explained(profile) if version.built else profile)


def emulate_cubin(
    target: Target,
    code: bytes,
    compiler: str = "",
    settings: EmulationSettings | None = None,
    on_progress: OnDone = unheard,
) -> Emulated:
    """Emulate one launch of a target from its cubin; `compiler` is nvcc's version, if known."""
    return _emulated_launch(target, binary_of(target, code), compiler, settings or EmulationSettings(), on_progress)


def _emulated_launch(
    target: Target, binary: Binary, compiler: str, settings: EmulationSettings, on_progress: OnDone
) -> Emulated:
    family, kernel = target.family, target.kernel
    launches = partial(emulated_launch.launch_of, target, binary.cubin, binary.symbol)
    launch, counts, sample = _counted(binary, launches, family.sample, settings, on_progress)
    named = KernelId(name=kernel.name, function=demangle(binary.symbol), family=family.name, title=kernel.title)
    profile = profile_of_counts(named, target.problem, binary=binary, launch=launch, counts=counts, compiler=compiler)
    why: list[str] = []
    # The general remedy for counts that depend on data, made specific to this kernel.
    if option := fills.options(family.arguments, counts.decisive) if counts.on_data else "":
        remedy = f"{option}, or a .npy file{fills.or_random(family.arguments, counts.decisive)}"
        why = [f"{target.name}: what is unknown depends on data: give it with {remedy}."]
        unknowns = (replace(each, remedy=remedy) if each.code == codes.DATA else each for each in profile.unknowns)
        profile = replace(profile, unknowns=tuple(unknowns))
    profile = replace(profile, simulated=_simulated(target, binary, launch, counts, settings))
    return emulated_of(replace(profile, commit=commit_of_family(family)), counts, binary, why, sample)


def _simulated(
    target: Target, binary: Binary, launch: Launch, counts: Counts, settings: EmulationSettings
) -> Simulated | None:
    return emulated_profile.simulated(
        target, binary, launch, counts, wanted=settings.cycles, toolchain=settings.toolchain, cached=settings.cached
    )


def emulated_of(
    profile: Profile, counts: Counts, binary: Binary, why: Sequence[str] = (), sample: int | None = None
) -> Emulated:
    """Return the emulated profile, with notes.

    `why` says how to resolve unknown counts; `sample` is the seed of random inputs in place of the data.
    """
    name, notes = profile.kernel.name, (*profile.notes, *why)
    if sample is not None:
        notes += (
            f"{name}: counts depend on data, for which random inputs stand: they are those of one sample, with seed "
            f"{sample}, and other data give others.",
        )
    profile = replace(profile, notes=notes, sample=sample)
    return Emulated(profile, counts, binary, (*unknown_notes(name, counts), *why))


def _counted(
    binary: Binary,
    launches: Callable[[int | None], Launch],
    sample: int | None,
    settings: EmulationSettings,
    on_progress: OnDone,
) -> tuple[Launch, Counts, int | None]:
    """Return a launch, its counts, and the seed if they are those of a sample: only if data decide, and one is wanted.

    `launches` makes the launch, given the seed of random inputs or None for unknown ones.
    """
    launch = launches(None)
    counts = counts_of(binary, launch, settings, on_progress)
    if sample is None or not (counts.unknown or any(row.traffic_unknown for row in counts.rows)):
        return launch, counts, None
    drawn = launches(sample)
    if drawn.memory == launch.memory:  # nothing was drawn
        return launch, counts, None
    # What any of the lanes may request holds for other data, too.
    return drawn, replace(counts_of(binary, drawn, settings, on_progress), supposed=counts.supposed), sample


def counts_of(binary: Binary, launch: Launch, settings: EmulationSettings, on_progress: OnDone) -> Counts:
    """Return the counts, emulated unless cached; errors in the program name the source line too."""
    checked = settings.exhaustive, settings.races
    entry = emulated_profile.key(binary, launch, checked, settings.toolchain) if settings.cached else ""
    if entry and (cached := emulated_profile.load(entry)):
        on_progress(Done(1))
        return cached
    start = time.thread_time()
    counts = _emulated(binary, launch, settings, start, on_progress)
    if entry and time.thread_time() - start <= settings.limit_s:  # else part of it may have been cut off
        emulated_profile.save(entry, counts)
    return counts


def _emulated(binary: Binary, launch: Launch, settings: EmulationSettings, start: float, on_progress: OnDone) -> Counts:
    from ncu_swizzle.emulate.run import emulate  # the emulator, which cached counts do not need

    code, timeout_s = code_of(binary, settings), settings.limit_s
    try:
        return emulate(
            code,
            launch,
            exhaustive=settings.exhaustive,
            races=settings.races,
            timeout_s=timeout_s,
            on_progress=lambda *done: on_progress(Done.of_blocks(*done)),
        )
    except ProgramFailed as error:
        if isinstance(error, MemoryFault) and error.beyond:
            error.hint = shared_hint(code, launch, binary.cubin, start + timeout_s - time.thread_time())
        name_line(error, binary)
        raise


def name_line(error: ProgramFailed, binary: Binary) -> None:
    """Name the kernel, and the source line of the instruction that an error is about, if it is known."""
    line = line_of(binary, getattr(error, "offset", -1))
    error.args = (f"{binary.symbol}{f', {line[0]}:{line[1]}' if line else ''}: {error}",)


def line_of(binary: Binary, offset: int) -> Location | None:
    """Return the source line of an instruction, outside of the toolkit's headers; None if it is not known."""
    stack = [*source_stack(binary, python_kernels.lines(binary.cubin.data, binary.symbol), offset)]
    return next((each for each in stack if not is_library(each[0])), stack[0] if stack else None)


def save_cubin(emulated: Emulated, folder: Path) -> None:
    """Write the emulated cubin to the folder, under the name in the profile."""
    write_atomically(folder / emulated.profile.report, emulated.binary.cubin.data)


@dataclass(frozen=True)
class Executable:
    """A target, its counts, and its code."""

    target: Target
    emulated: Emulated
    code: Code

    def launch(self, sample: int | None, *, varied: bool = False) -> Launch:
        """Return the launch with random inputs of this seed; without one, nothing that buffers hold is known.

        `varied`: buffers that are described as one number everywhere hold different ones, too.
        """
        binary, target = self.emulated.binary, self.target
        if varied:
            arguments = tuple(fills.varied(argument) for argument in target.family.arguments)
            target = replace(target, family=replace(target.family, arguments=arguments))
        launch = emulated_launch.launch_of(target, binary.cubin, binary.symbol, sample)
        if sample is not None:
            return launch
        # Buffers lie from HEAP on and below GLOBALS: without a seed, what they hold is unknown. The module's own
        # variables lie outside, and stay known.
        module = {at: content for at, content in launch.memory.items() if at >= GLOBALS or at < HEAP}
        return replace(launch, memory=module)

    @cached_property
    def stacks(self) -> Mapping[int, tuple[Location, ...]]:
        """The source lines of each instruction by its offset, innermost first."""
        return {each.pc: tuple(each.stack) for each in self.emulated.profile.instructions}

    @cached_property
    def arrays(self) -> tuple[SharedArray, ...]:
        """Its known shared arrays."""
        binary = self.emulated.binary
        return shared_arrays(binary.cubin, binary.symbol, self.launch(None).shared_dynamic)


def executable(target: Target, settings: EmulationSettings) -> Executable:
    """Compile and emulate a target. Raises what `emulate_target` raises."""
    emulated = emulate_target(target, settings)
    return Executable(target, emulated, code_of(emulated.binary, settings))


def simulated(version: Executable, settings: EmulationSettings) -> Profile:
    """Return the profile of an emulation, with its launch's simulated cycles."""
    target, binary, emulated = version.target, version.emulated.binary, version.emulated
    launch = emulated_launch.launch_of(target, binary.cubin, binary.symbol, emulated.profile.sample)
    told = _simulated(target, binary, launch, emulated.counts, settings)
    return replace(emulated.profile, simulated=told)
