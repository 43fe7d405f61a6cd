"""The main job: profile a kernel beside its baseline and its reference, compare, and keep all of it.

Everything that the commands `profile` and `compare` do beyond printing is here.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle import paths, profiling, repfile, report, runfolder
from ncu_swizzle.catalog import Catalog, Family, Kernel
from ncu_swizzle.compare import Comparison, compare
from ncu_swizzle.errors import BadFile, NcuSwizzleError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.profile import EMULATED, Profile
from ncu_swizzle.profiling import Engine, Request

REPORT = "report.html"
NONE, AUTO = "none", "auto"

Progress = Callable[[str, float], None]  # the kernel's name, percent of ncu's replay passes


@dataclass(frozen=True)
class Result:
    """What came out, where it lies, and where its figures come from."""

    comparison: Comparison
    engine: Engine
    folder: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.iterdir())) if self.folder else ()


def profile(
    catalog: Catalog,
    name: str,
    request: Request,
    baseline: str = AUTO,
    reference: str = AUTO,
    export: Path | None = None,
    overwrite: bool = False,
    on_progress: Progress = lambda kernel, percent: None,
) -> Result:
    """Profile a kernel, its baseline before it and its reference after it, into one run's folder.

    `baseline` and `reference` are a kernel, a file (.ncu-rep or saved profile), "none", or "auto": what the
    catalogue names, the reference only where it can be had.
    """
    family, kernel = catalog.find(name)
    family.problem(request.problem)
    runfolder.refuse_to_overwrite(export, overwrite)
    engine = profiling.choose_engine(request)
    library = _library(family, kernel, engine)
    names = [*_companion(baseline, kernel.baseline), name, *_companion(reference, library)]
    with runfolder.staging(export or runfolder.DEFAULT / name) as staged:
        profiles: list[Profile] = []
        notes: list[str] = []
        for entry in names:
            try:
                profiles += resolve(catalog, entry, request, engine, staged, on_progress)
            except NcuSwizzleError as error:
                if entry != library or reference != AUTO:
                    raise
                notes.append(f"Without {library}: {error}.")  # nobody asked for it by name
        comparison = compare(profiles, notes)
        files = [f"{slug(label)}.json" for label in comparison.labels]
        for file, one in zip(files, profiles, strict=True):
            one.save(staged / file)
        write_atomically(staged / REPORT, report.render(comparison).encode())
        runfolder.finish(staged, name, files)
        folder = runfolder.publish(staged, name, export, overwrite)
    return Result(comparison, engine, folder)


def _companion(asked: str, usual: str) -> list[str]:
    chosen = usual if asked == AUTO else asked
    return [] if chosen in ("", NONE) else [chosen]


def _library(family: Family, kernel: Kernel, engine: Engine) -> str:
    library = family.library()
    if library is None or library is kernel:
        return ""
    if engine.name in ("recorded", EMULATED):
        recalls = engine.name == "recorded" or engine.beside
        return library.name if recalls and paths.recording(family.name, library.name) else ""
    return library.name if _has_torch() else ""


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def compare_all(
    catalog: Catalog,
    entries: Sequence[str],
    request: Request,
    on_progress: Progress = lambda kernel, percent: None,
) -> Result:
    """Compare kernels, reports, saved profiles and runs, the one before first; nothing is kept."""
    engine = profiling.choose_engine(request)
    return Result(compare(gather(catalog, entries, request, engine, on_progress, len(entries) == 1)), engine)


def gather(
    catalog: Catalog,
    entries: Sequence[str],
    request: Request,
    engine: Engine,
    on_progress: Progress = lambda kernel, percent: None,
    whole_run: bool = False,
) -> list[Profile]:
    """Return the profiles that all entries stand for; see `resolve`."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            one
            for entry in entries
            for one in resolve(catalog, entry, request, engine, Path(folder), on_progress, whole_run)
        ]


def reopen(entries: Sequence[str]) -> Result:
    """Lay out what was saved: runs, profiles, reports, the one before first. Raises BadFile for a mere name."""
    for entry in entries:
        if not Path(entry).exists():
            raise BadFile(f"{entry} does not exist", "ls swizzle-out shows what was saved; ncu-swizzle profile saves")
    nothing = Catalog(())  # for names, which cannot come here
    profiles = gather(nothing, entries, Request(), Engine("recorded"), whole_run=len(entries) == 1)
    engines = sorted({one.engine for one in profiles})
    return Result(compare(profiles), Engine(" and ".join(engines)))


def page_of(entries: Sequence[str]) -> Path:
    """Return where the page of saved entries belongs: in the one run's folder, else in swizzle-out."""
    first = Path(entries[0])
    return (first if len(entries) == 1 and first.is_dir() else runfolder.DEFAULT) / REPORT


def resolve(
    catalog: Catalog,
    entry: str,
    request: Request,
    engine: Engine,
    folder: Path,
    on_progress: Progress,
    whole_run: bool = False,
) -> Sequence[Profile]:
    """Return the profiles that an entry stands for: a run's folder, a file, or else a kernel's name.

    A run stands for the kernel that it was made for, or for all its profiles if `whole_run`.
    """
    path = Path(entry)
    if path.is_dir():
        run = runfolder.load(path)
        return run.profiles if whole_run else (run.subject,)
    if path.is_file():
        return (runfolder.load_profile(path),) if path.suffix == ".json" else repfile.read(path)
    if path.suffix in (".json", ".ncu-rep") or path.parent != Path():
        raise BadFile(f"{entry} does not exist", "ls swizzle-out shows what was saved")
    return (profiling.obtain(catalog, entry, request, engine, folder, lambda percent: on_progress(entry, percent)),)


@dataclass(frozen=True)
class Timing:
    """Kernels of one family, timed in turn in one process; `facts` is what `launch` wrote down."""

    family: Family
    kernels: tuple[Kernel, ...]
    facts: dict[str, Any]


def time_kernels(
    catalog: Catalog, names: Sequence[str], request: Request, reference: bool, more: Sequence[str] = ()
) -> Timing:
    """Build, check and time kernels without ncu, the library's beside them where PyTorch is installed.

    `more` are options of `launch`. Raises UsageError where the kernels are not of one family.
    """
    family, kernels = catalog.find_together(names)
    library = family.library()
    if reference and library and library not in kernels and _has_torch():
        kernels.append(library)
    problem = family.problem(request.problem)
    with tempfile.TemporaryDirectory() as folder:
        facts = profiling.time(family, kernels, problem, Path(folder), request.timeout_s, more)
    return Timing(family, tuple(kernels), facts)
