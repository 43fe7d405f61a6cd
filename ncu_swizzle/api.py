"""What the commands do, as functions for notebooks, scripts and tests: `ncu_swizzle.profile`, `read`, `compare`, ….

An entry is what the commands take: a kernel of the catalogue, a .ncu-rep file, a saved profile or a run's folder;
or what these functions return. Further keywords are ncu's own options, `ncu.Options`: ``clock_control="base"``.
Every function raises errors of `errors.NcuSwizzleError`, with a `hint`.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, overload

import pandas as pd

from ncu_swizzle import catalog, experiment, ncu, page, profiling, runfolder
from ncu_swizzle.compare import Comparison
from ncu_swizzle.compare import compare as lay_out
from ncu_swizzle.errors import BadFile, UnknownKernel, UsageError
from ncu_swizzle.experiment import AUTO, Progress
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.frames import Kind
from ncu_swizzle.gate import baseline as baselines
from ncu_swizzle.gate import checking, policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.policy import LIMITS, Policy
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.profile import Profile
from ncu_swizzle.profiling import Request

ENGINES = ("auto", "ncu", "recorded", "emulated")
SILENT: Progress = lambda kernel, percent: None  # noqa: E731 - a typed name for what is passed on


class Profiles(Sequence[Profile]):
    """The profiles of a file or a run, by number or by the kernel's name."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._profiles = tuple(profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    @overload
    def __getitem__(self, which: int | str) -> Profile: ...

    @overload
    def __getitem__(self, which: slice) -> Profiles: ...

    def __getitem__(self, which: int | str | slice) -> Profile | Profiles:
        """Return a profile; raise UnknownKernel for a name that none has, UsageError for one that several have."""
        if isinstance(which, slice):
            return Profiles(self._profiles[which])
        return self._profiles[which] if isinstance(which, int) else self._named(which)

    def _named(self, name: str) -> Profile:
        found = [one for one in self._profiles if name in (one.kernel.name, one.kernel.function)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(dict.fromkeys(one.kernel.name for one in self._profiles))
        if found:
            raise UsageError(f"{len(found)} profiles are of {name!r}", "take one by its number")
        raise UnknownKernel(f"there is no profile of {name!r}", f"there are: {names}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profiles) and self._profiles == other._profiles

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"Profiles({', '.join(one.kernel.name for one in self._profiles)})"

    def _repr_html_(self) -> str:
        return page.render_card(self._profiles)

    def to_frame(self, kind: Kind = "accesses") -> pd.DataFrame:
        """Return a table of all profiles, one below the other; see `Comparison.to_frame`."""
        return lay_out(self._profiles).to_frame(kind)


@dataclass(frozen=True)
class Result:
    """What `profile` found: the kernel's profile, and its comparison with the baseline before and others after it.

    `engine` says where the figures come from, `reason` why not from ncu where "auto" was asked for, `folder` where
    the run was kept.
    """

    profile: Profile
    comparison: Comparison
    engine: str
    reason: str = ""
    folder: Path | None = None

    @property
    def profiles(self) -> Profiles:
        """All profiles, the one before first."""
        return Profiles(self.comparison.profiles)

    @property
    def verdict(self) -> str:
        """The comparison in one sentence."""
        return self.comparison.verdict

    def html(self) -> str:
        """Return the report, one HTML document."""
        return self.comparison.html()

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        self.comparison.to_html(path)

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()


Entry = str | Path | Profile | Result | Sequence[Profile]


def profile(
    kernel: str,
    *,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    baseline: str = AUTO,
    reference: str = AUTO,
    export: str | Path | None = None,
    overwrite: bool = False,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = SILENT,
    **options: Any,
) -> Result:
    """Profile a kernel of the catalogue beside its baseline and reference, as ``ncu-swizzle profile`` does.

    Nothing is kept unless `export` names a folder. `baseline` and `reference` are a kernel, a file, "none" or "auto".
    `timeout` is of each program run, in seconds.
    """
    request = _request(engine, problem, ncu, timeout, options)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(export) if export is not None else Path(scratch, slug(kernel))
        known = catalog.load()
        found = experiment.profile(known, kernel, request, baseline, reference, place, overwrite, on_progress)
    subject = next(one for one in found.comparison.profiles if one.kernel.name == kernel)
    kept = found.folder if export is not None else None
    return Result(subject, found.comparison, found.engine.name, found.engine.reason, kept)


def read(path: str | Path) -> Profiles:
    """Return what a .ncu-rep, a saved profile or a run's folder holds; raise BadFile or DamagedFile."""
    if not Path(path).exists():
        raise BadFile(f"{path} does not exist", "give a .ncu-rep file, a saved profile or the folder of a run")
    if Path(path).is_dir():
        return Profiles(runfolder.load(Path(path)).profiles)
    nothing = catalog.Catalog(())  # for names, which cannot come here
    return Profiles(experiment.gather(nothing, [str(Path(path))], Request(), profiling.Engine("recorded")))


def compare(
    *entries: Entry,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = SILENT,
    **options: Any,
) -> Comparison:
    """Lay profiles side by side, the one before first; raise NotComparable where there is none.

    A run stands for the kernel that it was made for; alone, for everything in it.
    """
    return lay_out(_gather(entries, _request(engine, problem, ncu, timeout, options), on_progress)[0])


def report(*entries: Entry, out: str | Path | None = None, **how: Any) -> str:
    """Return the HTML report of profiles, and write it to `out` where that is given; the keywords are `compare`'s."""
    text = compare(*entries, **how).html()
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text


Limit = float | str | Sequence[str]


def check(
    *entries: Entry,
    max_excessive: Limit = (),
    max_degree: Limit = (),
    max_regression: Limit = (),
    baseline: str | Path | None = None,
    allow_recorded: bool = False,
    kernel_name: str = "",
    raising: bool = True,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = SILENT,
    **options: Any,
) -> Verdict:
    """Hold profiles against limits as ``ncu-swizzle check`` does, but for its settings files, which are not read.

    A limit is a number or texts ``[KERNEL:][ACCESS=]NUMBER``. Without any, no wavefront may be excessive. Raises
    GateFailed, or NotComparable where something is inconclusive; with ``raising=False`` look at `Verdict.outcome`.
    """
    given = zip(LIMITS, (max_excessive, max_degree, max_regression), strict=True)
    typed = tuple(policy.parse(name, text) for name, limit in given for text in _texts(limit))
    only = policy.pattern(kernel_name, "kernel_name")
    rules = Policy(typed, Path(baseline) if baseline is not None else None, allow_recorded, only)
    policy.check_baseline(rules)
    known = baselines.load(rules.baseline) if rules.baseline else None  # before anything takes long
    profiles, reason = _gather(entries, _request(engine, problem, ncu, timeout, options), on_progress, alone=False)
    verdict = judge(profiles, rules, known, reason)
    if raising:
        checking.conclude(verdict)
    return verdict


def _texts(limit: Limit) -> list[str]:
    if isinstance(limit, str):
        return [limit]
    return [str(limit)] if isinstance(limit, int | float) else list(limit)


def _gather(
    entries: Sequence[Entry], request: Request, on_progress: Progress, alone: bool = True
) -> tuple[list[Profile], str]:
    """Return the profiles that the entries stand for, and why nothing is measured here.

    `alone` is whether a single run stands for all that is in it.
    """
    engine = profiling.Engine("")
    found: list[Profile] = []
    for entry in entries:
        if isinstance(entry, Profile):
            found.append(entry)
        elif isinstance(entry, Result):
            found += entry.profiles if alone and len(entries) == 1 else [entry.profile]
        elif isinstance(entry, str | Path):
            engine = engine if engine.name else profiling.choose_engine(request)
            if alone and len(entries) == 1 and Path(entry).is_dir():
                found += runfolder.load(Path(entry)).profiles
            else:
                found += experiment.gather(catalog.load(), [str(entry)], request, engine, on_progress)
        else:
            found += entry
    return found, engine.reason


def _request(
    engine: str,
    problem: Mapping[str, int] | None,
    program: str | Path | None,
    timeout: float,
    options: Mapping[str, Any],
) -> Request:
    """Return how profiles are to be had; raise UsageError for an engine or an option that there is not."""
    if engine not in ENGINES:
        raise UsageError(f"unknown engine {engine!r}{_near(engine, ENGINES)}", f"one of {', '.join(ENGINES)}")
    known = [field.name for field in dataclasses.fields(ncu.Options)]
    for name in options:
        if name not in known:
            raise UsageError(f"unknown option {name!r}{_near(name, known)}", f"ncu's options here: {', '.join(known)}")
    at = Path(program) if program is not None else None
    return Request(engine, dict(problem or {}), ncu.Options(**options), at, timeout)


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
