"""Find the commit that brought a conflict: the first with more excessive wavefronts than the good one.

Counts are exact, so that one look at a commit is enough, and any growth counts. A commit whose kernel does not compile,
or whose counts are unknown, tells nothing; its neighbours are asked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.build import git
from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.kernel_options import KernelDescription
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, NotComparable, UsageError
from ncu_swizzle.fleet.crew import Crew, crew
from ncu_swizzle.fleet.options import ALONE, FleetOptions
from ncu_swizzle.fleet.tasks import FleetJob, FleetResult, FleetTask
from ncu_swizzle.history import commits
from ncu_swizzle.history.commits import Commit
from ncu_swizzle.unfinished.folders import scratch


@dataclass(frozen=True)
class BisectQuery:
    """What is looked for: a kernel, described as for `profile`, between two commits of the repository of a folder."""

    good: str
    bad: str
    kernel: str
    folder: Path
    request: Request
    description: KernelDescription = KernelDescription()
    catalog: tuple[Path, ...] = ()
    config: str = ""
    trust: bool = False


@dataclass(frozen=True)
class Counted:
    """A commit's excessive wavefronts; None with the reason if they are unknown."""

    commit: Commit
    excessive: int | None
    why: str = ""


@dataclass(frozen=True)
class Culprit:
    """The commit that brought the conflict, the count before it, and all that were looked at, in that order."""

    first: Counted
    before: Counted
    looked_at: tuple[Counted, ...] = ()
    commits: int = 0


OnCounted = Callable[[Counted], None]


def bisect(
    query: BisectQuery,
    fleet: FleetOptions = ALONE,
    progress: Progress = silent,
    on_counted: OnCounted = lambda counted: None,
) -> Culprit:
    """Return the commit that brought the conflict.

    Raises UsageError if there is none: the bad commit has no more excessive wavefronts than the good one. Raises
    NotComparable if commits whose counts are unknown leave several.
    """
    if fleet.given and not fleet.count:
        raise UsageError("bisect runs in processes of this machine, which has the repository", "--workers 2")
    root = commits.root_of(query.folder)
    good, bad = commits.find(root, query.good), commits.find(root, query.bad)
    candidates = commits.between(root, good, bad)
    with crew(FleetJob(counted, (query, root), _nothing), fleet, progress) as workers:
        search = _Search(workers, on_counted)
        ends = search.counts([good, bad])
        before, after = ends[good.name], ends[bad.name]
        for end in (before, after):
            if end.excessive is None:
                raise NotComparable(f"the counts of {end.commit.short} are unknown: {end.why}", "name another commit")
        assert before.excessive is not None
        assert after.excessive is not None
        if after.excessive <= before.excessive:
            raise UsageError(
                f"{query.kernel} has {after.excessive:,} excessive wavefronts at {bad.short}, {before.excessive:,} at "
                f"{good.short}: no commit brought a conflict",
                "name a commit that has one",
            )
        first, last_good = search.first_above(candidates, before, after)
    return Culprit(first, last_good, tuple(search.seen.values()), len(candidates))


def _nothing(_common: object) -> None:
    """Say that all processes of a machine are alike."""


class _Search:
    """Looks at commits, as many at a time as there are workers."""

    def __init__(self, workers: Crew, on_counted: OnCounted) -> None:
        self._workers, self._on_counted = workers, on_counted
        self.seen: dict[str, Counted] = {}

    def counts(self, wanted: Sequence[Commit]) -> Mapping[str, Counted]:
        """Return the counts of commits by their names."""
        fresh = [commit for commit in dict.fromkeys(wanted) if commit.name not in self.seen]

        def take(number: int, result: FleetResult, _folder: Path) -> None:
            if result.error:
                raise result.error
            self.seen[fresh[number].name] = result.value
            self._on_counted(result.value)

        tasks = [FleetTask(commit.short, commit) for commit in fresh]
        self._workers.run(tasks, lambda _task: scratch(), take)
        return self.seen

    def first_above(self, candidates: Sequence[Commit], before: Counted, after: Counted) -> tuple[Counted, Counted]:
        """Return the first of the candidates that has more than `before`, and the one before it; the last one has more.

        Raises NotComparable if unknown counts leave several.
        """
        low, high, good, bad = -1, len(candidates) - 1, before, after
        limit = before.excessive or 0
        unknown: set[int] = set()
        while open_ := [at for at in range(low + 1, high) if at not in unknown]:
            found = self.counts([candidates[at] for at in self._chosen(open_)])
            for at in open_:
                known = found.get(candidates[at].name)
                if known is None or not low < at < high:
                    continue
                if known.excessive is None:
                    unknown.add(at)
                elif known.excessive > limit:
                    high, bad = at, known
                else:
                    low, good = at, known
        if high - low > 1:
            between = [candidates[at] for at in range(low + 1, high)]
            reasons = "; ".join(f"{commit.short}: {self.seen[commit.name].why}" for commit in between)
            raise NotComparable(
                f"it was one of {high - low} commits, {between[0].short} to {candidates[high].short}: some counts are "
                f"unknown ({reasons})",
                "git log shows what they changed",
            )
        return bad, good

    def _chosen(self, candidates: Sequence[int]) -> list[int]:
        """Return as many of the numbers as there are workers, in equal distances: of one worker the middle."""
        number = min(len(self._workers.members), len(candidates))
        return sorted({candidates[len(candidates) * (part + 1) // (number + 1)] for part in range(number)})


def counted(common: tuple[BisectQuery, Path], commit: Commit, folder: Path, progress: Progress) -> Counted:
    """Emulate the kernel of a commit; a kernel that is not there or does not compile has unknown counts."""
    query, root = common
    git.unpack(root, commit.name, folder)
    here = folder / query.folder.resolve().relative_to(root)
    try:
        target = _target(query, here)
        settings = EmulationSettings.of(query.request)
        done = emulation.emulate_target(target, settings, lambda percent: progress(commit.short, percent))
    except EnvironmentLacking:
        raise
    except NcuSwizzleError as error:
        return Counted(commit, None, str(error).partition("\n")[0].rstrip(":").replace(f"{here}/", ""))
    profile = done.profile
    total = profile.total
    if not profile.accesses:
        return Counted(commit, 0)
    why = next((note for note in profile.notes if "unknown" in note), "its counts are unknown")
    return Counted(commit, total.excessive, "" if total.excessive is not None else why)


def _target(query: BisectQuery, here: Path) -> Target:
    """Return the kernel as the commit describes it."""
    folders = [here / folder for folder in query.catalog]
    config = query.config if query.config in ("", "none") else str(here / query.config)
    if kernel_files.is_kernel_file(query.kernel):
        file = str(here / query.kernel)
        catalog, names = user_kernels.chosen(file, query.description, folders, config, query.trust)
        return catalog.target(names[-1], query.request.problem)
    user_kernels.refuse_description(query.description, query.kernel)
    catalog = user_kernels.everything(folders, config, here, query.trust)
    return catalog.target(query.kernel, query.request.problem)
