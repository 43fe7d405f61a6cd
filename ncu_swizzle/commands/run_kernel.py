"""Build, check and time kernels without ncu."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, NcuSwizzleError
from ncu_swizzle.base.files import exists, is_folder, slug, write_atomically
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.measured import time_together, without_cache
from ncu_swizzle.engines.profiles import Entry, choose_engine, engine_for, find, profiles_of, saved_profiles
from ncu_swizzle.engines.settings import Context, Progress, Request, silent
from ncu_swizzle.kernels.catalog import Catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports import many_launches, pack, pairing, run_folder
from ncu_swizzle.reports.comparison import JobResult, TimedFamily
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import AUTO, EMULATED, NCU, NONE, RECORDED, Companions, Destination, Engine
from ncu_swizzle.reports.pack import LaunchFindings
from ncu_swizzle.reports.pairing import EVERYTHING, Choice, Forced, Row

# The profiles shown next to that of a kernel or program.


# Load what is needed after ncu while ncu measures.


WARM_UP_AFTER_S = 0.5


@contextlib.contextmanager
def meanwhile(sources: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Prepare rendering while ncu measures, after a short delay in case it fails at once.

    `sources` returns the source texts that the page will show by path, as far as known.
    """
    warming = threading.Timer(WARM_UP_AFTER_S, _warm_up, (sources,))
    warming.start()
    try:
        yield
    finally:
        warming.cancel()
        warming.join()  # a thread that imports must not outlive the interpreter


def _warm_up(sources: Callable[[], Mapping[str, str]]) -> None:
    """Load the report reader, pandas, Jinja and the templates, which takes most of a second."""
    with contextlib.suppress(Exception):  # whatever needs it will raise the same error
        from ncu_swizzle.render import page
        from ncu_swizzle.reports import reader  # noqa: F401

        page.prepare(sources())


# The main job: profile a kernel with its baseline and its reference, compare them, and save everything.


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
        profiles, notes = _profiles(lineup, Context(request=request, engine=engine, folder=staged, progress=progress))
        from ncu_swizzle.render import page
        from ncu_swizzle.reports.comparison import compare  # pandas and Jinja: loaded while ncu measures

        comparison = compare(profiles, [*_unchecked(lineup, engine), *notes])
        files = run_folder.save_profiles(staged, comparison.labels, profiles)
        write_atomically(staged / run_folder.REPORT, page.render(comparison).encode())
        run_folder.finish(staged, target.name, files)
        folder = run_folder.publish(staged, name, destination)
    return JobResult(comparisons=(comparison,), engine=engine, folder=folder)


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


# Compare kernels, reports, saved profiles and runs with each other.


def compare_all(
    catalog: Catalog,
    texts: Sequence[str],
    request: Request,
    progress: Progress = silent,
    choice: Choice = EVERYTHING,
) -> JobResult:
    """Compare kernels, reports, saved profiles and runs, the baseline first; nothing is saved.

    If entries have several launches, matching ones are compared, see `pairing`.
    """
    engine = choose_engine(request)
    if _is_one_run(texts):
        return _of_run(Path(texts[0]), engine, choice)
    entries = [find(catalog, text, request) for text in texts]
    with scratch() as folder:
        context = Context(request=request, engine=engine, folder=folder, progress=progress)
        reports = [profiles_of(entry, context) for entry in entries]
    return _result(reports, texts, engine, choice)


def reopen(texts: Sequence[str], choice: Choice = EVERYTHING) -> JobResult:
    """Compare saved runs, profiles and reports, the baseline first. Raises BadFile for a name that is not a file."""
    for text in texts:
        if not exists(Path(text)):
            raise BadFile(f"{text} does not exist", "ls swizzle-out shows what was saved; ncu-swizzle profile saves")
    if _is_one_run(texts):
        result = _of_run(Path(texts[0]), Engine(""), choice)
    else:
        result = _result([saved_profiles(Path(text)) for text in texts], texts, Engine(""), choice)
    engines = sorted({profile.engine for comparison in result.comparisons for profile in comparison.profiles})
    return replace(result, engine=Engine(" and ".join(engines)))


def page_of(texts: Sequence[str]) -> Path:
    """Return the default path for a page of saved entries: in the folder of a single run, else in swizzle-out."""
    return (Path(texts[0]) if _is_one_run(texts) else run_folder.DEFAULT) / run_folder.REPORT


def arrange(
    reports: Sequence[Sequence[Profile]], texts: Sequence[str], pairs: Sequence[Forced] = ()
) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Return rows of matching launches, and the reports' names, empty if each report has just one launch."""
    if all(len(report) == 1 for report in reports):
        return [tuple(profile for report in reports for profile in report)], ()
    return pairing.rows(reports, pairs), many_launches.columns(texts)


def _is_one_run(texts: Sequence[str]) -> bool:
    return len(texts) == 1 and is_folder(Path(texts[0]))


def _result(reports: Sequence[Sequence[Profile]], texts: Sequence[str], engine: Engine, choice: Choice) -> JobResult:
    rows, columns = arrange([choice.chosen(report) for report in reports], texts, choice.pairs)
    return _laid_out(rows, columns, columns or many_launches.columns(texts), engine)


def _of_run(folder: Path, engine: Engine, choice: Choice) -> JobResult:
    """Return everything in a run: a kernel's profiles side by side, or a program's launches."""
    run = run_folder.load(folder)
    if not run.rows:
        return _laid_out([tuple(choice.chosen(run.profiles))], (), many_launches.columns([str(folder)]), engine)
    launches = [profile for row in run.rows for profile in row if profile is not None]
    chosen = {id(profile) for profile in choice.chosen(launches)}
    rows = [row for row in run.rows if any(id(profile) in chosen for profile in row)]
    return _laid_out(rows, run.columns, run.columns, engine)


def _laid_out(rows: Sequence[Row], columns: Sequence[str], title: Sequence[str], engine: Engine) -> JobResult:
    comparisons, notes = many_launches.lay_out(rows, columns)
    return JobResult(comparisons=comparisons, engine=engine, notes=notes, title=" → ".join(title))


# Apply the rule pack to finished reports.


def apply(entries: Sequence[str]) -> tuple[LaunchFindings, ...]:
    """Return the findings of saved reports, profiles and runs; raise BadFile or DamagedFile."""
    return tuple(launch for comparison in reopen(entries).comparisons for launch in pack.launch_findings(comparison))


def time_kernels(
    catalog: Catalog, names: Sequence[str], request: Request, reference: bool, more: Sequence[str] = ()
) -> TimedFamily:
    """Time kernels of one family in turn, and the library's if PyTorch is installed.

    `more` are options of the launching program. Raises UsageError if the kernels are not of one family.
    """
    family, kernels = catalog.find_together(names)
    library = family.library()
    if reference and library and library not in kernels and has_torch():
        kernels.append(library)
    problem = family.problem(request.problem)
    with scratch() as folder:
        facts = time_together(
            family,
            kernels,
            problem=problem,
            folder=folder,
            timeout_s=request.timeout_s,
            more=[*more, *without_cache(request)],
        )
    return TimedFamily(family, tuple(kernels), facts)
