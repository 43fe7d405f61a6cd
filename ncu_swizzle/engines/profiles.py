"""Choose the engine, and obtain profiles: measured, emulated, recorded, or read from saved files and runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.base import paths, pool
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, Typed, UsageError
from ncu_swizzle.base.files import is_folder, read_bytes, write_atomically
from ncu_swizzle.base.pool import Outcome
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines import emulation, machine
from ncu_swizzle.engines.replay import ReplaySettings, is_launches, opened
from ncu_swizzle.engines.settings import Context, Progress, Request, silent
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.reports import container, run_folder
from ncu_swizzle.reports.model import EXECUTED, IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.reports.options import EMULATED, NCU, RECORDED, Engine

# Recorded: the profile of a shipped kernel from another machine.


def recall(target: Target, folder: Path) -> Profile:
    """Return the recorded profile and copy its files to the folder; raise EnvironmentLacking if none matches."""
    from ncu_swizzle.engines import reader

    report = _recording(target)
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
    report = _recording(target)
    return report is not None and dict(container.Facts.beside(report).content.get("problem", {})) == target.problem


def _recording(target: Target) -> Path | None:
    """Return the recorded report of a shipped kernel; None for a user's, and for an architecture that was asked for."""
    recordable = target.family.shipped and not target.family.arch
    return paths.recording(target.family.name, target.name) if recordable else None


# Combine an emulated profile with a recording: computed counts, recorded times and stalls.


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


# Computed: one launch emulated, optionally with the times and stalls of a recording.


def compute(target: Target, context: Context) -> Profile:
    """Emulate one launch and leave the cubin in the folder; with `engine.beside`, add the recorded metrics.

    With `engine.beside`, a kernel that cannot be emulated is read from its recording, and a note says why.
    """
    beside, request = context.engine.beside, context.request
    if beside and target.kernel.library:
        return recall(target, context.folder)
    settings = emulation.EmulationSettings.of(request, simulating=True)
    try:
        emulated = emulation.emulate_target(target, settings, context.on_done(target.name))
    except NcuSwizzleError as error:
        if not (beside and is_recorded(target)):
            raise
        profile = recall(target, context.folder)
        return replace(profile, notes=(*profile.notes, f"{target.name} is recorded, not computed: {error}."))
    emulation.save_cubin(emulated, context.folder)
    if beside and is_recorded(target):
        return with_recording(emulated.profile, recall(target, context.folder))
    return emulated.profile


# From a target to its Profile, by the context's engine.


def obtain(target: Target, context: Context) -> Profile:
    """Return the kernel's profile and leave its report and facts, or its cubin, in the folder."""
    if context.engine.name == EMULATED:
        return compute(target, context)
    if target.compiled:
        raise UsageError(f"{target.kernel.file} is already compiled: it can only be emulated", "--engine emulated")
    if context.engine.name == RECORDED:
        return recall(target, context.folder)
    from ncu_swizzle.engines.measured import measure

    return measure(target, context)


# Choose the engine for a request.


def choose_engine(request: Request) -> Engine:
    """Return the requested engine, or for `auto` the best one available.

    That is ncu if there are a GPU, PyCUDA and ncu; else, if there is a compiler, the emulated engine with the
    recordings; else the recordings alone.
    """
    if request.engine != "auto":
        return Engine(request.engine)
    reason = _lacking(request)
    if not reason:
        return Engine(NCU)
    from ncu_swizzle.kernels.toolchain import INSTALL, Toolchain

    if missing := Toolchain(request.nvcc).lacking():
        return Engine(RECORDED, f"{reason}; to compute wavefronts, {missing}: {INSTALL}")
    return Engine(EMULATED, reason, beside=True)


def engine_for(target: Target, request: Request) -> Engine:
    """Return the engine for one kernel: a cubin or PTX file can only be emulated, and a function has no recording."""
    if request.engine == "auto" and target.compiled:
        return Engine(EMULATED, f"{target.kernel.file} is already compiled; only sources can be built and launched")
    if request.engine == "auto" and target.python and (reason := _lacking(request)):
        return Engine(EMULATED, reason)  # its own compiler does without nvcc
    return choose_engine(request)


def _lacking(request: Request) -> str:
    """Return why ncu cannot measure here; empty if it can."""
    if reason := device.absent():
        return reason
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed: pip install 'ncu-swizzle[gpu]'"
    try:
        machine.find(request.ncu)
    except EnvironmentLacking as error:
        return str(error)
    return ""


def profiles_of(entry: TargetOrFile, context: Context) -> Sequence[Profile]:
    """Return an entry's profiles; a run gives those of the kernel it was made for, or of its program's launches."""
    if isinstance(entry, Target):
        engine = engine_for(entry, context.request) if entry.compiled else context.engine
        return (obtain(entry, replace(context, engine=engine)),)
    return saved_profiles(entry, ReplaySettings.of(context.request), context.progress)


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
        with opened(path, settings or ReplaySettings(), progress) as launches:
            return launches.profiles()
    from ncu_swizzle.engines import reader

    return reader.read(path)


def outcomes_of(entries: Sequence[TargetOrFile], context: Context) -> Iterator[Outcome]:
    """Yield the profiles of each entry, or its error, in order: on several cores, unless they are measured."""
    request = context.request
    # One launches file alone, or a GPU: whatever comes of it does so in this process.
    side_by_side = len(entries) > 1 and context.engine.name != NCU
    jobs = pool.jobs_for(request.jobs) if side_by_side else 1
    given = replace(context, progress=silent, request=replace(request, jobs=1) if jobs > 1 else request)
    yield from pool.in_order(pool.outcomes(_profiles_of, given, entries, jobs, context.progress, emulation.EMULATOR))


def _profiles_of(context: Context, entry: TargetOrFile, progress: Progress) -> Sequence[Profile]:
    return profiles_of(entry, replace(context, progress=progress))


def gather(
    entries: Sequence[TargetOrFile], request: Request, engine: Engine, progress: Progress = silent
) -> list[Profile]:
    """Return the profiles of all entries; reports made on the way are not kept."""
    with scratch() as folder:
        context = Context(request=request, engine=engine, folder=folder, progress=progress)
        return [profile for outcome in outcomes_of(entries, context) for profile in outcome.result()]
