"""Choose the engine, and obtain profiles: of kernels, and of saved files and runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ncu_swizzle.base import pool
from ncu_swizzle.base.files import is_folder
from ncu_swizzle.base.pool import ItemOutcome
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import EMULATOR, Context, Engine, Progress, Request, silent
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import LAUNCHES
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import AUTO
from ncu_swizzle.reports.origins import EMULATED, NCU, RECORDED

if TYPE_CHECKING:
    from ncu_swizzle.engines.replay import ReplaySettings

# Where engines are loaded, by name: each brings its own machinery, which the others do without.
ENGINES = {NCU: "measured.MeasuredEngine", EMULATED: "emulated.EmulatedEngine", RECORDED: "recorded.RecordedEngine"}


def engine_called(name: str) -> type[Engine]:
    """Return the engine of a name in ENGINES."""
    module, _, called = ENGINES[name].partition(".")
    return cast(type[Engine], getattr(importlib.import_module(f"ncu_swizzle.engines.{module}"), called))


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


def is_launches(path: Path | str) -> bool:
    """Return whether a file holds captured launches, which are emulated."""
    return str(path).endswith(LAUNCHES)


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
