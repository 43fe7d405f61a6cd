"""Compare kernels, reports, saved profiles and runs with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.engines.choice import choose_engine
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import exists, is_folder
from ncu_swizzle.jobs.entries import find, profiles_of, saved_profiles
from ncu_swizzle.profiles import many_launches, pairing, run_folder
from ncu_swizzle.profiles.engine import Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.pairing import EVERYTHING, Choice, Forced, Row
from ncu_swizzle.profiles.result import JobResult
from ncu_swizzle.unfinished.folders import scratch


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
        context = Context(request, engine, folder, progress)
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
    return JobResult(comparisons, engine, notes=notes, title=" → ".join(title))
