"""Choose the engine, and obtain profiles: of kernels, recorded or emulated, and of saved files and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.base import paths, pool
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, Typed
from ncu_swizzle.base.files import is_folder, read_bytes, write_atomically
from ncu_swizzle.base.pool import ItemOutcome
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import EMULATOR, Context, Engine, Progress, Request, silent
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import is_launches
from ncu_swizzle.kernels.toolchain import INSTALL, Toolchain
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import EXECUTED, IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.reports.options import AUTO, EMULATED, NCU, RECORDED

if TYPE_CHECKING:
    from ncu_swizzle.engines.replay import ReplaySettings


# The recorded engine: profiles of shipped kernels, measured on another machine.


class RecordedEngine(Engine):
    """Reads the recordings that come with the package."""

    name = RECORDED
    compiles = False
    loads = ("ncu_swizzle.engines.reader",)

    @classmethod
    def lacking(cls, request: Request) -> str:  # noqa: ARG003 - whatever is asked for
        return ""

    def profile(self, target: Target, context: Context) -> Profile:
        """Return the recorded profile, and copy its files. Raises EnvironmentLacking if none matches."""
        self.refuse_compiled(target)
        return recall(target, context.folder)

    def has_library(self, target: Target) -> bool:
        return recording(target) is not None


def recall(target: Target, folder: Path) -> Profile:
    """Return the recorded profile and copy its files to the folder; raise EnvironmentLacking if none matches."""
    from ncu_swizzle.engines import reader  # only the process that reads needs these
    from ncu_swizzle.reports import container

    report = recording(target)
    if report is None:
        raise EnvironmentLacking(
            f"{target.name} was not recorded, and cannot be measured here",
            Hint(Typed("ncu-swizzle list"), " shows what was recorded"),
        )
    profile = reader.read(report)[0]
    if dict(profile.problem) != target.problem:
        raise EnvironmentLacking(
            f"{target.name} was recorded at {in_words(profile.problem)}, not at {in_words(target.problem)}",
            "leave out --problem, or measure on a machine with a GPU and ncu",
        )
    for file in (report, container.facts_path(report)):
        write_atomically(folder / file.name, read_bytes(file))
    return profile


def is_recorded(target: Target) -> bool:
    """Return whether there is a recording of this kernel at this size."""
    from ncu_swizzle.reports import container

    report = recording(target)
    return report is not None and dict(container.Facts.beside(report).content.get("problem", {})) == target.problem


def recording(target: Target) -> Path | None:
    """Return the recorded report of a shipped kernel; None for a user's, and for an architecture that was asked for."""
    recordable = target.family.shipped and not target.family.arch
    return paths.recording(target.family.name, target.name) if recordable else None


# The emulated engine: a launch's counts computed, optionally with the times and stalls of a recording.


@dataclass(frozen=True)
class EmulatedEngine(Engine):
    """Compiles a kernel, emulates a launch and leaves the cubin in the folder.

    With `beside`, metrics that are not computed come from a recording, and so do kernels that cannot be emulated.
    """

    name = EMULATED
    checks = False
    loads = EMULATOR

    beside: bool = False

    @classmethod
    def lacking(cls, request: Request) -> str:
        missing = Toolchain(request.nvcc).lacking()
        return f"to compute wavefronts, {missing}: {INSTALL}" if missing else ""

    def profile(self, target: Target, context: Context) -> Profile:
        from ncu_swizzle.engines import emulation  # recordings do without

        if self.beside and target.kernel.library:
            return recall(target, context.folder)
        settings = emulation.EmulationSettings.of(context.request, simulating=True)
        try:
            emulated = emulation.emulate_target(target, settings, context.on_done(target.name))
        except NcuSwizzleError as error:
            if not (self.beside and is_recorded(target)):
                raise
            profile = recall(target, context.folder)
            return replace(profile, notes=(*profile.notes, f"{target.name} is recorded, not computed: {error}."))
        if _checks(target, context.request):
            from ncu_swizzle.engines.executed import with_check  # what cached counts do without

            emulated = replace(emulated, profile=with_check(emulated.profile, target, settings))
        emulation.save_cubin(emulated, context.folder)
        if self.beside and is_recorded(target):
            return with_recording(emulated.profile, recall(target, context.folder))
        return emulated.profile

    def has_library(self, target: Target) -> bool:
        return self.beside and recording(target) is not None

    def with_recordings(self) -> Engine:
        return replace(self, beside=True)


def _checks(target: Target, request: Request) -> bool:
    """Return whether outputs are compared: a project's reference is code, which runs only if that is asked for."""
    if request.check is not None:
        return request.check
    from ncu_swizzle.kernels import fills

    return target.family.shipped and bool(target.family.reference) and fills.is_small(target)


def with_recording(emulated: Profile, recorded: Profile) -> Profile:
    """Return the emulated profile with the recording's times, stalls and other metrics; `beside` names the recording.

    Counts stay the computed ones. Instructions get the recorded stall samples if both have the same code.
    """
    borrowed = {name: metric for name, metric in recorded.metrics.items() if name not in emulated.metrics}
    own = {EXECUTED, WAVEFRONTS, IDEAL}
    lent = {name: metric for name, metric in borrowed.items() if name not in own}
    metrics = {**lent, **emulated.metrics}
    origin = f"recorded on {recorded.machine.gpu}, {recorded.when[:10]}"
    instructions, notes = emulated.instructions, list(emulated.notes)
    # Both have the same code if each recorded instruction is at its offset; ncu omits what was never reached.
    first = recorded.instructions[0].pc if recorded.instructions else 0
    measured = {instruction.pc - first: instruction for instruction in recorded.instructions}
    opcodes = {instruction.pc: instruction.opcode for instruction in instructions}
    if all(opcodes.get(offset) == instruction.opcode for offset, instruction in measured.items()):
        samples = {offset: instruction.samples for offset, instruction in measured.items()}
        instructions = tuple(
            replace(instruction, samples=samples.get(instruction.pc, {})) for instruction in instructions
        )
    else:
        notes.append(f"{emulated.kernel.name}: the code differs from the recording's: no stalls per instruction.")
    if recorded.machine.cuda and recorded.machine.cuda != emulated.machine.cuda:
        notes.append(
            f"{emulated.kernel.name}: compiled with CUDA {emulated.machine.cuda}, "
            f"recorded with {recorded.machine.cuda}."
        )
    return replace(
        emulated,
        metrics=metrics,
        instructions=instructions,
        notes=tuple(notes),
        beside=origin,
        recorded_metrics=tuple(lent),
    )


# Choose the engine, and obtain profiles: of kernels, and of saved files and runs.


def engine_called(name: str) -> type[Engine]:
    """Return the engine of a name."""
    if name == NCU:  # it brings machinery that the others do without
        from ncu_swizzle.engines.measured import MeasuredEngine

        return MeasuredEngine
    return EmulatedEngine if name == EMULATED else RecordedEngine


def choose_engine(request: Request, *, recordings: bool = True) -> Engine:
    """Return the requested engine, or for `auto` the best one available.

    That is ncu if there are a GPU, PyCUDA and ncu; else, if there is a compiler, the emulated engine, with times from
    the `recordings` unless they are not wanted; else the recordings alone.
    """
    if request.engine != AUTO:
        return engine_called(request.engine)()
    measured, emulated, recorded = map(engine_called, (NCU, EMULATED, RECORDED))
    if not (reason := measured.lacking(request)):
        return measured()
    if missing := emulated.lacking(request):
        return recorded(f"{reason}; {missing}")
    return emulated(reason).with_recordings() if recordings else emulated(reason)


def engine_for(target: Target, request: Request) -> Engine:
    """Return the engine for one kernel: a cubin or PTX file can only be emulated, and a function has no recording."""
    if request.engine == AUTO and target.compiled:
        reason = f"{target.kernel.file} is already compiled; only sources can be built and launched"
        return engine_called(EMULATED)(reason)
    if request.engine == AUTO and target.python and (reason := engine_called(NCU).lacking(request)):
        return engine_called(EMULATED)(reason)  # its own compiler does without nvcc
    return choose_engine(request)


def profiles_of(entry: TargetOrFile, engine: Engine, context: Context) -> Sequence[Profile]:
    """Return an entry's profiles; a run gives those of the kernel it was made for, or of its program's launches."""
    if isinstance(entry, Target):
        chosen = engine_for(entry, context.request) if entry.compiled else engine
        return (chosen.profile(entry, context),)
    if is_launches(entry):
        from ncu_swizzle.engines.replay import ReplaySettings

        return saved_profiles(entry, ReplaySettings.of(context.request), context.progress)
    return saved_profiles(entry)


def saved_profiles(
    path: Path, settings: ReplaySettings | None = None, progress: Progress = silent
) -> Sequence[Profile]:
    """Return the profiles in a run's folder, a saved profile or a report, or of launches that are emulated.

    Raises BadFile or DamagedFile, and for launches what emulating them raises.
    """
    if is_folder(path):
        return run_folder.load(path).subjects
    if path.suffix == ".json":
        return (run_folder.load_profile(path),)
    if is_launches(path):
        from ncu_swizzle.engines import replay  # with the emulator

        with replay.opened(path, settings or replay.ReplaySettings(), progress) as launches:
            return launches.profiles()
    from ncu_swizzle.engines import reader

    return reader.read(path)


def outcomes_of(entries: Sequence[TargetOrFile], engine: Engine, context: Context) -> Iterator[ItemOutcome]:
    """Yield the profiles of each entry, or its error, in order: on several cores, unless they are measured."""
    request = context.request
    # One launches file alone, or a GPU: whatever comes of it does so in this process.
    side_by_side = len(entries) > 1 and not engine.measures
    jobs = pool.jobs_for(request.jobs) if side_by_side else 1
    given = replace(context, progress=silent, request=replace(request, jobs=1) if jobs > 1 else request)
    emulates = any(isinstance(entry, Path) and is_launches(entry) for entry in entries)
    loads = EMULATOR if emulates else engine.loads
    yield from pool.in_order(pool.outcomes(_profiles_of, (engine, given), entries, jobs, context.progress, loads))


def _profiles_of(common: tuple[Engine, Context], entry: TargetOrFile, progress: Progress) -> Sequence[Profile]:
    engine, context = common
    return profiles_of(entry, engine, replace(context, progress=progress))


def gather(
    entries: Sequence[TargetOrFile], request: Request, engine: Engine, progress: Progress = silent
) -> list[Profile]:
    """Return the profiles of all entries; reports made on the way are not kept."""
    with scratch() as folder:
        context = Context(request=request, folder=folder, progress=progress)
        return [profile for outcome in outcomes_of(entries, engine, context) for profile in outcome.result()]
