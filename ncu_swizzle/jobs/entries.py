"""Resolve command-line entries: kernels, reports, saved profiles, runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build.build_option import LAUNCHES
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.choice import engine_for
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.obtain import obtain
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import exists, is_file, is_folder
from ncu_swizzle.jobs.replays import ReplaySettings, is_launches, opened
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.engine import Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.unfinished.folders import scratch

Entry = Target | Path


def find(catalog: Catalog, text: str, request: Request) -> Entry:
    """Return what an entry refers to: a user's kernel, a run's folder, a file, or else a kernel by name.

    A user's kernel wins over a folder of the same name; ``./name`` is the folder. Raises BadFile, UnknownKernel,
    BadProblem.
    """
    path = Path(text)
    if any(kernel.name == text and not family.shipped for family, kernel in catalog):
        return catalog.target(text, request.problem)
    if path.suffix == ".cu" and is_file(path):
        raise BadFile(f"{text} is a source, not a profile", f"ncu-swizzle profile {text}")
    if exists(path):
        return path
    if path.suffix in (".json", ".ncu-rep", LAUNCHES) or path.parent != Path():
        raise BadFile(f"{text} does not exist", "ls swizzle-out shows what was saved")
    return catalog.target(text, request.problem)


def profiles_of(entry: Entry, context: Context) -> Sequence[Profile]:
    """Return an entry's profiles; a run gives those of the kernel it was made for, or of its program's launches."""
    if isinstance(entry, Target):
        engine = engine_for(entry, context.request) if entry.compiled else context.engine
        return (obtain(entry, replace(context, engine=engine)),)
    settings = EmulationSettings.of(context.request)
    return saved_profiles(entry, ReplaySettings(settings, build=context.request.build), context.progress)


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
            return [emulated.profile for emulated in launches.emulated()]
    from ncu_swizzle.ncurep import reader

    return reader.read(path)


def gather(
    catalog: Catalog, texts: Sequence[str], request: Request, engine: Engine, progress: Progress = silent
) -> list[Profile]:
    """Return the profiles of all entries; reports made on the way are not kept."""
    entries = [find(catalog, text, request) for text in texts]
    with scratch() as folder:
        context = Context(request, engine, folder, progress)
        return [profile for entry in entries for profile in profiles_of(entry, context)]
