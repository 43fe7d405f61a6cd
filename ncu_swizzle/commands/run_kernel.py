"""Profile a kernel next to its baseline, or several; compare profiles, and apply the rules."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base import bounds, pool
from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import BadFile, ProgramFailed, interruption
from ncu_swizzle.base.files import exists, is_folder, slug, write_atomically
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin import names
from ncu_swizzle.engines.profiles import choose_engine, engine_for, outcomes_of, saved_profiles
from ncu_swizzle.engines.settings import Context, Done, Engine, Progress, Request, silent
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.reports import pack, pairing, run_folder
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import AUTO, NONE, Companions, Destination
from ncu_swizzle.reports.pack import LaunchFindings
from ncu_swizzle.reports.pairing import EVERYTHING, Choice, Forced, Row

# Load what is needed after ncu while ncu measures.

WARM_UP_AFTER_S = 0.5


@contextmanager
def meanwhile(sources: Callable[[], Mapping[str, str]], engine: Engine) -> Iterator[None]:
    """Prepare rendering while ncu measures, after a short delay in case it fails at once.

    `sources` returns the source texts that the page will show by path, as far as known. Other engines need the
    processor themselves.
    """
    if not engine.measures:
        yield
        return
    warming = threading.Timer(WARM_UP_AFTER_S, _warm_up, (sources,))
    warming.start()
    try:
        yield
    finally:
        warming.cancel()
        warming.join()  # a thread that imports must not outlive the interpreter


def _warm_up(sources: Callable[[], Mapping[str, str]]) -> None:
    """Load the report reader, pandas, Jinja and the templates, which takes most of a second."""
    with suppress(Exception):  # whatever needs it will raise the same error
        from ncu_swizzle.engines import reader  # noqa: F401
        from ncu_swizzle.render import page

        page.prepare(sources())


# A run: profiles collected into a folder, compared, with a page; whatever they are of.


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """What a run compares: rows of profiles, the baseline first, with the name of each column.

    Without columns there is one row: a kernel and its companions, called by their own names.
    """

    rows: Sequence[Row]
    columns: Sequence[str] = ()
    notes: Sequence[str] = ()


def make_run(
    name: str,
    engine: Engine,
    destination: Destination,
    collected: Callable[[Path], RunRows],
    jobs: int = 1,
    depends_on: str = "",
) -> JobResult:
    """Make the folder of a run: `collected` leaves the reports in it, and returns the profiles to compare.

    Nothing is left of a run that fails. Raises NotWritable, before anything is collected for a destination that is
    taken, and what `collected` raises.
    """
    run_folder.refuse_to_overwrite(destination)
    with run_folder.staging(destination.export or run_folder.DEFAULT / slug(name)) as staged:
        run = collected(staged)
        from ncu_swizzle.render import page  # pandas and Jinja: loaded while ncu measures, see `meanwhile`

        comparisons, notes = pairing.lay_out(run.rows, run.columns, run.notes)
        title = " → ".join(run.columns)
        if run.columns:
            files = save_rows(staged, run.rows, run.columns)
        else:
            files = run_folder.save_profiles(staged, comparisons[0].labels, comparisons[0].profiles)
        write_atomically(staged / run_folder.REPORT, page.render_all(comparisons, notes, title, jobs).encode())
        run_folder.finish(staged, name, files, run.columns, run.rows if run.columns else (), depends_on)
        folder = run_folder.publish(staged, slug(name), destination)
    return JobResult(
        comparisons=comparisons, engine=engine.name, reason=engine.reason, folder=folder, notes=notes, title=title
    )


def save_rows(staged: Path, rows: Sequence[Row], columns: Sequence[str], *, saved: bool = False) -> list[str]:
    """Save each launch under its number and name, a baseline's with the baseline's name in front.

    `saved`: those of the last column are there already.
    """
    files = []
    for row in rows:
        for column, launched in zip(columns, row, strict=True):
            if launched is not None:
                last = column == columns[-1]
                files.append(f"{'' if last else f'{slug(column)}.'}{launch_file(launched)}")
                if not (last and saved):
                    launched.save(staged / files[-1])
    return files


def launch_file(launched: Profile) -> str:
    """Return the name of the file that a program's launch is saved in."""
    kernel = names.function(launched.kernel.function) or launched.kernel.name
    return f"{launched.launch.index:03d}-{slug(kernel)}.json"


# The main job: profile a kernel with its baseline and its reference.


@dataclass(frozen=True, kw_only=True)
class Lineup:
    """A kernel, the baseline before it and the reference after it.

    `library`: with the library's kernel for the same problem as reference, if it is available.
    """

    target: Target
    before: TargetOrFile | None = None
    after: TargetOrFile | None = None
    library: bool = False


def lineup_of(word: str, description: KernelDescription, companions: Companions = Companions()) -> Lineup:
    """Return a kernel, or the last of a file's, with its companions.

    A companion is a kernel, a file (.ncu-rep or saved profile), "none", or "auto": the catalogue's baseline, and the
    library's kernel if it is available.
    """
    typed = [name for name in (companions.baseline, companions.reference) if name not in ("", AUTO, NONE)]
    (named, *others) = naming.resolve([word], description, beside=typed)
    target = named.targets[-1]
    beside = {name: other.entries[0] for name, other in zip(typed, others, strict=True)}
    baseline = next((kernel for kernel in target.family.kernels if kernel.name == target.kernel.baseline), None)
    usual = replace(target, kernel=baseline) if baseline else None
    return Lineup(
        target=target,
        before=usual if companions.baseline == AUTO else beside.get(companions.baseline),
        after=beside.get(companions.reference),
        library=companions.reference == AUTO,
    )


def profile(
    lineup: Lineup,
    request: Request,
    destination: Destination = Destination(),
    progress: Progress = silent,
    depends_on: str = "",
) -> JobResult:
    """Profile a baseline, a kernel and a reference, in this order, into the folder of one run."""
    target = lineup.target
    engine = engine_for(target, request)
    library = _library(target, engine) if lineup.library else None
    entries = _entries(lineup, library)

    def collected(staged: Path) -> RunRows:
        context = Context(request=_request(request, entries), folder=staged, progress=progress)
        profiles: list[Profile] = []
        notes = _unchecked_notes(entries, engine)
        for entry, outcome in zip(entries, outcomes_of(entries, engine, context), strict=True):
            if outcome.error and library is not None and entry is library:  # which was not requested
                notes.append(f"Without {library.name}: {outcome.error}.")
            else:
                profiles += outcome.result()
        return RunRows(rows=[tuple(profiles)], notes=notes)

    with meanwhile(dict if target.kernel.library else target.family.source_texts, engine):
        return make_run(target.name, engine, destination, collected, pool.jobs_for(request.jobs), depends_on)


def _entries(lineup: Lineup, library: Target | None) -> list[TargetOrFile]:
    """Return what is profiled, in order."""
    return [entry for entry in (lineup.before, lineup.target, library or lineup.after) if entry is not None]


def _request(request: Request, entries: Sequence[TargetOrFile]) -> Request:
    """Return the request for entries; several are compared."""
    return request.comparing if len(entries) > 1 else request


def _library(target: Target, engine: Engine) -> Target | None:
    """Return the library's kernel for the same problem, if there is one and it is available here."""
    kernel = target.family.library()
    if kernel is None or kernel is target.kernel:
        return None
    library = Target(target.family, kernel, target.problem)
    return library if engine.has_library(library) else None


def _unchecked_notes(entries: Sequence[TargetOrFile], engine: Engine) -> list[str]:
    """Return a note that names the kernels without a reference, whose output was not checked.

    Of emulated profiles, none of which is checked, the comparison says so.
    """
    if not engine.checks:
        return []
    names = [entry.name for entry in entries if isinstance(entry, Target) and not entry.family.reference]
    return [f"{', '.join(names)}: output not checked, as there is no reference."] if names else []


# Compare kernels, reports, saved profiles and runs with each other.


def compare_all(
    entries: Sequence[TargetOrFile], request: Request, progress: Progress = silent, choice: Choice = EVERYTHING
) -> JobResult:
    """Compare kernels, reports, saved profiles and runs, the baseline first; nothing is saved.

    If entries have several launches, matching ones are compared, see `pairing`.
    """
    engine = choose_engine(request)
    texts = [entry.name if isinstance(entry, Target) else str(entry) for entry in entries]
    if len(entries) == 1 and isinstance(entries[0], Path) and is_folder(entries[0]):
        return replace(_of_run(entries[0], choice), engine=engine.name, reason=engine.reason)
    with scratch() as folder:
        context = Context(request=_request(request, entries), folder=folder, progress=progress)
        reports = [outcome.result() for outcome in outcomes_of(entries, engine, context)]
    return replace(_result(reports, texts, choice), engine=engine.name, reason=engine.reason)


def reopen(texts: Sequence[str], choice: Choice = EVERYTHING) -> JobResult:
    """Compare saved runs, profiles and reports, the baseline first. Raises BadFile for a name that is not a file."""
    for text in texts:
        if not exists(Path(text)):
            raise BadFile(f"{text} does not exist", "ls swizzle-out shows what was saved; ncu-swizzle profile saves")
    if _is_one_run(texts):
        result = _of_run(Path(texts[0]), choice)
    else:
        result = _result([saved_profiles(Path(text)) for text in texts], texts, choice)
    engines = sorted({profile.engine for comparison in result.comparisons for profile in comparison.profiles})
    return replace(result, engine=" and ".join(engines))


def page_of(texts: Sequence[str]) -> Path:
    """Return the default path for a page of saved entries: in the folder of a single run, else in swizzle-out."""
    return (Path(texts[0]) if _is_one_run(texts) else run_folder.DEFAULT) / run_folder.REPORT


def arrange(
    reports: Sequence[Sequence[Profile]], texts: Sequence[str], pairs: Sequence[Forced] = ()
) -> tuple[Sequence[Row], tuple[str, ...]]:
    """Return rows of matching launches, and the reports' names, empty if each report has just one launch."""
    if all(len(report) == 1 for report in reports):
        return [tuple(profile for report in reports for profile in report)], ()
    return pairing.rows(reports, pairs), pairing.columns(texts)


def _is_one_run(texts: Sequence[str]) -> bool:
    return len(texts) == 1 and is_folder(Path(texts[0]))


def _result(reports: Sequence[Sequence[Profile]], texts: Sequence[str], choice: Choice) -> JobResult:
    rows, columns = arrange([choice.chosen(report) for report in reports], texts, choice.pairs)
    return _laid_out(rows, columns, columns or pairing.columns(texts))


def _of_run(folder: Path, choice: Choice) -> JobResult:
    """Return everything in a run: a kernel's profiles side by side, or a program's launches."""
    run = run_folder.load(folder)
    if not run.rows:
        return _laid_out([tuple(choice.chosen(run.profiles))], (), pairing.columns([str(folder)]))
    launches = [profile for row in run.rows for profile in row if profile is not None]
    chosen = {id(profile) for profile in choice.chosen(launches)}
    rows = [row for row in run.rows if any(id(profile) in chosen for profile in row)]
    return _laid_out(rows, run.columns, run.columns, run.notes)


def _laid_out(
    rows: Sequence[Row], columns: Sequence[str], title: Sequence[str], notes: Sequence[str] = ()
) -> JobResult:
    comparisons, notes = pairing.lay_out(rows, columns, notes)
    return JobResult(comparisons=comparisons, notes=notes, title=" → ".join(title))


# Apply the rule pack to finished reports.


def apply(entries: Sequence[str]) -> tuple[LaunchFindings, ...]:
    """Return the findings of saved reports, profiles and runs; raise BadFile or DamagedFile."""
    return tuple(launch for comparison in reopen(entries).comparisons for launch in pack.launch_findings(comparison))


# Several kernels in turn, each into its own folder.

Outcomes = list[tuple[str, pool.ItemOutcome]]  # what became of each kernel: its result, or the error that it ended with


@dataclass(frozen=True)
class KernelsJob:
    """Kernels to be profiled: one into a run's folder, or each into its own (`apart`), in the destination if named."""

    lineups: Sequence[Lineup]
    request: Request
    destination: Destination
    apart: bool

    def profile(self, progress: Progress = silent) -> JobResult | Outcomes:
        """Return the result of one kernel, or what became of each: one that fails does not stop the others.

        What the same command finished before it was ended, or one kernel failed, is not made again. Before any of
        several runs, raises what `refuse_to_overwrite` raises; Interrupted, after Ctrl-C or a signal.
        """
        if not self.apart:
            return profile(self.lineups[0], self.request, self.destination, progress)
        runs = list(self._planned())
        # A GPU measures one kernel after the other.
        jobs = 1 if any(run.engine.measures for run in runs) else pool.jobs_for(self.request.jobs)
        try:
            return self._outcomes(runs, jobs, progress)
        except (KeyboardInterrupt, SystemExit) as stop:
            error = interruption(stop)
            if error is None or not (saved := [str(folder) for run in runs if (folder := run.folder)]):
                raise
            raise error(
                f"the run was {error.word}: {len(saved)} of {len(runs)} kernels are saved: {bounds.some(saved)}",
                "the same command goes on with the others",
            ) from stop

    def _planned(self) -> Iterator[_PlannedRun]:
        from ncu_swizzle.sweep.plan import tools_fingerprint

        tools: dict[str, Mapping[str, str]] = {}
        for lineup in self.lineups:
            engine, export = engine_for(lineup.target, self.request), self.destination.export
            if engine.name not in tools:
                tools[engine.name] = tools_fingerprint(engine, self.request)
            yield _PlannedRun(
                lineup=lineup,
                engine=engine,
                destination=replace(self.destination, export=export and export / slug(lineup.target.name)),
                depends_on=_depends_on(lineup, engine, self.request, tools[engine.name]),
            )

    def _outcomes(self, runs: Sequence[_PlannedRun], jobs: int, progress: Progress) -> Outcomes:
        folders = {number: folder for number, run in enumerate(runs) if (folder := run.folder)}
        found = {number: pool.ItemOutcome(runs[number].result(folder)) for number, folder in folders.items()}
        left = [number for number in range(len(runs)) if number not in found]
        for number in left:
            run_folder.refuse_to_overwrite(runs[number].destination)
        request = replace(self.request, jobs=1) if jobs > 1 and len(left) > 1 else self.request
        for at, outcome in pool.outcomes(_profiled, request, [runs[number] for number in left], jobs, progress):
            found[left[at]] = outcome
            row = f"{runs[left[at]].name}: {outcome.error or f'saved in {outcome.value.folder}'}"
            progress(EVERY_KERNEL, Done(len(found) / len(runs), f"{len(found)} of {len(runs)}", row))
        if not any(outcome.error for outcome in found.values()):
            run_folder.all_made([outcome.value.folder for outcome in found.values()])
        return [(run.name, found[number]) for number, run in enumerate(runs)]


@dataclass(frozen=True, kw_only=True)
class _PlannedRun:
    """A kernel of several on its way into the folder of a run, which says what it depends on."""

    lineup: Lineup
    engine: Engine
    destination: Destination
    depends_on: str

    @property
    def name(self) -> str:
        return self.lineup.target.name

    @property
    def folder(self) -> Path | None:
        """The folder of a run that is there already."""
        return run_folder.made_before(slug(self.name), self.destination, self.depends_on)

    def result(self, folder: Path) -> JobResult:
        """Return the result of a run that is there."""
        lineup, engine = self.lineup, self.engine
        library = _library(lineup.target, engine) if lineup.library else None
        unchecked = _unchecked_notes(_entries(lineup, library), engine)
        comparisons, notes = pairing.lay_out([run_folder.load(folder).profiles], (), unchecked)
        return JobResult(comparisons=comparisons, engine=engine.name, reason=engine.reason, folder=folder, notes=notes)


EVERY_KERNEL = "all kernels"


def _depends_on(lineup: Lineup, engine: Engine, request: Request, tools: Mapping[str, str]) -> str:
    """Return a digest of what decides a kernel's run, as points of sweeps have it."""
    from ncu_swizzle.sweep.plan import shared_fingerprint

    entries = [entry for entry in (lineup.before, lineup.target, lineup.after) if entry is not None]
    said = [repr((sorted(tools.items()), replace(request, jobs=None), lineup.library))]
    for entry in entries:
        if isinstance(entry, Target):
            depends_on = shared_fingerprint(entry.family, engine.name, request)
            said.append(repr((entry.kernel, entry.problem, sorted(depends_on.items()))))
        else:
            said.append(f"{entry} {entry.stat().st_mtime_ns if exists(entry) else ''}")
    return sha256_of_texts(*said)


def _profiled(request: Request, run: _PlannedRun, progress: Progress) -> JobResult:
    return profile(run.lineup, request, run.destination, progress, run.depends_on)


def refuse_failed(outcomes: Outcomes) -> None:
    """Raise ProgramFailed if a kernel failed."""
    failed = [(name, outcome.error) for name, outcome in outcomes if outcome.error]
    for name, error in failed[:1]:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise ProgramFailed(f"{len(failed)} of {len(outcomes)} kernels failed; {name}: {error}{more}", error.hint)
