"""The main job: profile a kernel with its baseline and its reference, compare them, and save everything."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle import paths
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.choice import engine_for
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.jobs.companions import AUTO, NONE, Companions
from ncu_swizzle.jobs.entries import Entry, find, profiles_of
from ncu_swizzle.jobs.warm_up import meanwhile
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.engine import EMULATED, NCU, RECORDED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.result import JobResult


@dataclass(frozen=True)
class Lineup:
    """The entries to compare, the baseline first; `optional` is one added automatically, which may fail."""

    entries: tuple[Entry, ...]
    optional: Entry | None = None


def profile(
    catalog: Catalog,
    target: Target,
    request: Request,
    companions: Companions = Companions(),
    destination: Destination = Destination(),
    progress: Progress = silent,
) -> JobResult:
    """Profile a baseline, a kernel and a reference, in this order, into the folder of one run.

    A companion is a kernel, a file (.ncu-rep or saved profile), "none", or "auto": the catalogue's baseline, and the
    library's kernel if it is available.
    """
    run_folder.refuse_to_overwrite(destination)
    engine = engine_for(target, request)
    lineup = _lineup(catalog, target, request, engine, companions)
    name = slug(target.name)
    with _warm(target, engine), run_folder.staging(destination.export or run_folder.DEFAULT / name) as staged:
        profiles, notes = _profiles(lineup, Context(request, engine, staged, progress))
        from ncu_swizzle.profiles.comparison import compare  # pandas and Jinja: loaded while ncu measures
        from ncu_swizzle.render import page

        comparison = compare(profiles, [*_unchecked(lineup, engine), *notes])
        files = run_folder.save_profiles(staged, comparison.labels, profiles)
        write_atomically(staged / run_folder.REPORT, page.render(comparison).encode())
        run_folder.finish(staged, target.name, files)
        folder = run_folder.publish(staged, name, destination)
    return JobResult((comparison,), engine, folder)


def _lineup(catalog: Catalog, target: Target, request: Request, engine: Engine, companions: Companions) -> Lineup:
    usual = _library(target, engine) if companions.reference == AUTO else None
    before = _companion(catalog, companions.baseline, target.kernel.baseline, request)
    after = [usual] if usual else _companion(catalog, companions.reference, "", request)
    return Lineup((*before, target, *after), usual)


def _companion(catalog: Catalog, given: str, usual: str, request: Request) -> list[Entry]:
    chosen = usual if given == AUTO else given
    return [] if chosen in ("", NONE) else [find(catalog, chosen, request)]


def _library(target: Target, engine: Engine) -> Target | None:
    """Return the library's kernel for the same problem, if there is one and it is available here."""
    kernel = target.family.library()
    if kernel is None or kernel is target.kernel:
        return None
    if engine.name in (RECORDED, EMULATED):
        recalls = engine.name == RECORDED or engine.beside
        available = recalls and paths.recording(target.family.name, kernel.name) is not None
    else:
        available = has_torch()
    return Target(target.family, kernel, target.problem) if available else None


def has_torch() -> bool:
    """Return whether PyTorch, which calls the libraries' kernels, is installed."""
    return importlib.util.find_spec("torch") is not None


def _warm(target: Target, engine: Engine) -> contextlib.AbstractContextManager[None]:
    if engine.name != NCU:
        return contextlib.nullcontext()
    return meanwhile(dict if target.kernel.library else target.family.source_texts)


def _profiles(lineup: Lineup, context: Context) -> tuple[list[Profile], list[str]]:
    """Return the profiles of a lineup, and a note if the optional one failed."""
    profiles: list[Profile] = []
    notes: list[str] = []
    for entry in lineup.entries:
        try:
            profiles += profiles_of(entry, context)
        except NcuSwizzleError as error:
            if entry is not lineup.optional:
                raise
            notes.append(f"Without {entry.name}: {error}.")
    return profiles, notes


def _unchecked(lineup: Lineup, engine: Engine) -> Sequence[str]:
    """Return a note that names the kernels without a reference, whose output was not checked.

    Of emulated profiles, none of which is checked, the comparison says so.
    """
    if engine.name == EMULATED:
        return []
    kernels = [entry for entry in lineup.entries if isinstance(entry, Target)]
    names = [target.name for target in kernels if not target.family.reference]
    return [f"{', '.join(names)}: output not checked, as there is no reference."] if names else []
