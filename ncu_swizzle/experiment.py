"""The main job: profile a kernel beside its baseline and its reference, compare, and keep all of it.

Everything that the commands `profile` and `compare` do beyond printing is here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle import pairing, paths, profiling, runfolder
from ncu_swizzle.catalog import Catalog, Family, Kernel
from ncu_swizzle.errors import BadFile, NcuSwizzleError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.pairing import EVERYTHING, Choice, Forced, Row
from ncu_swizzle.profile import EMULATED, Profile
from ncu_swizzle.profiling import Engine, Request

if TYPE_CHECKING:  # pandas, which takes half a second to import: see `_warm_up`
    from ncu_swizzle.compare import Comparison

REPORT = "report.html"
NONE, AUTO = "none", "auto"
WARM_UP_AFTER_S = 0.5

Progress = Callable[[str, float], None]  # the kernel's name, percent of ncu's replay passes


@dataclass(frozen=True)
class Result:
    """What came out, where it lies, and where its figures come from.

    There is a comparison for each kernel, or pair of kernels; `notes` are about all of them together.
    """

    comparisons: tuple[Comparison, ...]
    engine: Engine
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    title: str = ""  # of the page, where there are several comparisons

    @property
    def comparison(self) -> Comparison:
        """The first comparison, mostly the only one."""
        return self.comparisons[0]

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
    engine = profiling.engine_for(family, kernel, request)
    library = _library(family, kernel, engine)
    names = [*_companion(baseline, kernel.baseline), name, *_companion(reference, library)]
    sources = dict if kernel.library else family.source_texts
    waiting = meanwhile(sources) if engine.name == "ncu" else contextlib.nullcontext()
    with waiting, runfolder.staging(export or runfolder.DEFAULT / slug(name)) as staged:
        profiles: list[Profile] = []
        notes = _unchecked(catalog, names)
        for entry in names:
            try:
                profiles += resolve(catalog, entry, request, engine, staged, on_progress)
            except NcuSwizzleError as error:
                if entry != library or reference != AUTO:
                    raise
                notes.append(f"Without {library}: {error}.")  # nobody asked for it by name
        from ncu_swizzle import page
        from ncu_swizzle.compare import compare

        comparison = compare(profiles, notes)
        files = [f"{slug(label)}.json" for label in comparison.labels]
        for file, one in zip(files, profiles, strict=True):
            one.save(staged / file)
        write_atomically(staged / REPORT, page.render(comparison).encode())
        runfolder.finish(staged, name, files)
        folder = runfolder.publish(staged, slug(name), export, overwrite)
    return Result((comparison,), engine, folder)


@contextlib.contextmanager
def meanwhile(sources: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Prepare for what comes after measuring while ncu measures; not where it fails at once.

    `sources` returns the texts that the page will show, by path, as far as they are known.
    """
    warming = threading.Timer(WARM_UP_AFTER_S, _warm_up, (sources,))
    warming.start()
    try:
        yield
    finally:
        warming.cancel()
        warming.join()  # a thread that imports must not outlive the interpreter


def _warm_up(sources: Callable[[], Mapping[str, str]]) -> None:
    """Load what reads a report, pandas, Jinja and the templates, which takes the better part of a second."""
    with contextlib.suppress(Exception):  # whoever needs it will run into the same
        from ncu_swizzle import page, repfile, terminal  # noqa: F401

        page.prepare(sources())


def _unchecked(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """Say which of the kernels have no reference, so that nobody knows whether they compute the right thing."""
    unchecked = [kernel.name for family, kernel in catalog if kernel.name in names and not family.reference]
    found = [name for name in names if name in unchecked]
    return [f"{', '.join(found)}: output not checked, there is no reference."] if found else []


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
    choice: Choice = EVERYTHING,
) -> Result:
    """Compare kernels, reports, saved profiles and runs, the one before first; nothing is kept.

    Where an entry has several launches, those that belong together are compared, see `pairing`.
    """
    engine = profiling.choose_engine(request)
    return _result(catalog, entries, request, engine, on_progress, choice)


def _result(
    catalog: Catalog, entries: Sequence[str], request: Request, engine: Engine, on_progress: Progress, choice: Choice
) -> Result:
    from ncu_swizzle import several

    if len(entries) == 1 and Path(entries[0]).is_dir():
        rows, columns = _whole(runfolder.load(Path(entries[0])), choice)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = [resolve(catalog, one, request, engine, Path(folder), on_progress) for one in entries]
        rows, columns = arrange([choice.of(report) for report in found], entries, choice.pairs)
    comparisons, notes = several.lay_out(rows, columns)
    title = " → ".join(columns or several.columns(entries))
    return Result(comparisons, engine, notes=notes, title=title)


def _whole(run: runfolder.Run, choice: Choice) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Return everything in a run: a catalogue kernel's profiles side by side, or a program's launches."""
    if not run.rows:
        return [tuple(choice.of(run.profiles))], ()
    chosen = {id(one) for one in choice.of([one for row in run.rows for one in row if one is not None])}
    return [row for row in run.rows if any(id(one) in chosen for one in row)], run.columns


def arrange(
    reports: Sequence[Sequence[Profile]], entries: Sequence[str], pairs: Sequence[Forced] = ()
) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Return which launches belong together, and what to call the reports: nothing where each has one launch."""
    from ncu_swizzle import several

    if all(len(report) == 1 for report in reports):
        return [tuple(one for report in reports for one in report)], ()
    return pairing.rows(reports, pairs), several.columns(entries)


def gather(
    catalog: Catalog,
    entries: Sequence[str],
    request: Request,
    engine: Engine,
    on_progress: Progress = lambda kernel, percent: None,
) -> list[Profile]:
    """Return the profiles that all entries stand for; see `resolve`."""
    with tempfile.TemporaryDirectory() as folder:
        return [one for entry in entries for one in resolve(catalog, entry, request, engine, Path(folder), on_progress)]


def reopen(entries: Sequence[str], choice: Choice = EVERYTHING) -> Result:
    """Lay out what was saved: runs, profiles, reports, the one before first. Raises BadFile for a mere name."""
    for entry in entries:
        if not Path(entry).exists():
            raise BadFile(f"{entry} does not exist", "ls swizzle-out shows what was saved; ncu-swizzle profile saves")
    nothing = Catalog(())  # for names, which cannot come here
    result = _result(nothing, entries, Request(), Engine("recorded"), lambda kernel, percent: None, choice)
    engines = sorted({one.engine for comparison in result.comparisons for one in comparison.profiles})
    return replace(result, engine=Engine(" and ".join(engines)))


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
) -> Sequence[Profile]:
    """Return the profiles that an entry stands for: a run's folder, a file, or else a kernel's name.

    A run stands for the kernel that it was made for, or for the launches of its program. A user's own kernel goes
    before a folder of its name, which ``./name`` means.
    """
    path = Path(entry)
    if any(kernel.name == entry and not family.shipped for family, kernel in catalog):
        return (profiling.obtain(catalog, entry, request, engine, folder, lambda percent: on_progress(entry, percent)),)
    if path.is_dir():
        return runfolder.load(path).subjects
    if path.is_file():
        if path.suffix == ".cu":
            raise BadFile(
                f"{entry} is a source, not a profile", f"ncu-swizzle profile {entry} --grid … --block … --arg …"
            )
        if path.suffix == ".json":
            return (runfolder.load_profile(path),)
        from ncu_swizzle import repfile

        return repfile.read(path)
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
