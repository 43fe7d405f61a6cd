"""The gate's settings; profiles gathered, and judged or saved (``ncu-swizzle check``, with ``--save-baseline``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.base.files import exists, locked
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.engines import profiles
from ncu_swizzle.engines.settings import NEVER, Engine, Progress, Request
from ncu_swizzle.gate import baseline
from ncu_swizzle.gate.baseline import LIMITS, Baseline, Policy, Rule
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.linting import KernelLint, verdict_of
from ncu_swizzle.gate.suppressions import Coverage, Suppressions, in_settings
from ncu_swizzle.gate.verdict import Suppression, Verdict, files_in, moved
from ncu_swizzle.kernels.naming import Named, TargetOrFile
from ncu_swizzle.kernels.nvcc_options import readable
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.project import Project, project_file, refuse_others
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import NONE, Judging

# The gate's settings: ``[check]`` of ncu-swizzle.toml, or ``[tool.ncu-swizzle.check]`` of pyproject.toml.

HELP = "docs/ci.md describes the settings"


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """The settings of one file; `file` is None if there is none."""

    rules: tuple[Rule, ...] = ()
    baseline: Path | None = None
    allow_recorded: bool = False
    file: Path | None = None
    ignored: tuple[Suppression, ...] = ()


def settings(name: str, start: Path, trust: bool = False) -> GateSettings:
    """Return the settings of the file that --config names, or of the nearest one; empty settings if there is none."""
    project = project_file(name, start, trust)
    return _settings_of(project) if project else GateSettings()


def _settings_of(project: Project) -> GateSettings:
    table, origin = project.table("check"), f"{project.file.name} [{project.outer}check]"
    refuse_others(table, (*LIMITS, "baseline", "allow-recorded", "rule"), origin)
    baseline, allow, tables = table.get("baseline"), table.get("allow-recorded", False), table.get("rule", [])
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{origin}: baseline is {baseline!r}", 'give a file, for example "ncu-swizzle-baseline.json"')
    if not isinstance(allow, bool):
        raise UsageError(f"{origin}: allow-recorded is {allow!r}", "write true or false")
    if not isinstance(tables, list):
        raise UsageError(f"{origin}: rule is not an array of tables", f"write [[{origin.partition('[')[2][:-1]}.rule]]")
    rules = _limits(table, "", "", origin)
    for number, entry in enumerate(tables, 1):
        where = f"{origin} rule {number}"
        if not isinstance(entry, dict):
            raise UsageError(f"{where} is not a table", HELP)
        refuse_others(entry, ("kernel", "access", *LIMITS), where)
        limits = _limits(entry, entry.get("kernel", ""), entry.get("access", ""), where)
        if not limits:
            raise UsageError(f"{where} sets no limit", f"add one of {', '.join(LIMITS)}")
        rules += limits
    return GateSettings(
        rules=tuple(rules),
        baseline=project.checkout.path(baseline, f"{origin}: baseline") if baseline else None,
        allow_recorded=allow,
        file=project.file,
        ignored=in_settings(project),
    )


def _limits(table: Mapping[str, Any], kernel: Any, access: Any, origin: str) -> list[Rule]:
    return [baseline.rule(name, table[name], kernel, access, origin) for name in LIMITS if name in table]


Gather = Callable[[Request, Engine], Sequence[Profile]]  # obtains the requested profiles


def entries_of(named: Sequence[Named], description: KernelDescription) -> list[TargetOrFile]:
    """Return what is judged of the words: of a file compiled before and after, the latter."""
    return [entry for word in named for entry in (word.entries[-1:] if description.pair else word.entries)]


def gathering(entries: Sequence[TargetOrFile], on_progress: Progress) -> Gather:
    """Return a function that gathers the entries' profiles; a run's folder means the kernel that it was made for."""
    return lambda request, engine: profiles.gather(entries, request, engine, on_progress)


def with_degrees(verdict: Verdict | None, kernels: Sequence[KernelLint]) -> Verdict:
    """Combine a verdict on profiles with one on kernels in every launch."""
    degrees = verdict_of(kernels)
    if verdict is None:
        return degrees
    return replace(verdict, checks=(*verdict.checks, *degrees.checks), notes=(*verdict.notes, *degrees.notes))


def gate_engine(request: Request) -> Engine:
    """Return the engine for a gate: a single one, without values from another."""
    return profiles.choose_engine(request, recordings=False)


def judge_profiles(gather: Gather, rules: Policy, request: Request) -> Verdict:
    """Return the verdict on profiles; their source paths are relative to the current folder if they exist there."""
    baseline.check_baseline(rules)
    saved = baseline.load(rules.baseline) if rules.baseline else None  # fails before anything slow starts
    engine = gate_engine(request)
    profiles = gather(replace(request, races=True, cycles=NEVER), engine)
    verdict = judge(profiles, rules, baseline=saved, note=engine.reason, here=files_in(Path.cwd()))
    checks = (replace(check, place=check.place and moved(check.place, Path.cwd())) for check in verdict.checks)
    hiding = Suppressions(rules.ignored, readable(), request.timeout_s)
    marked = tuple(hiding.marked(checks))
    names = frozenset(profile.kernel.name for profile in profiles)
    return replace(verdict, checks=(*marked, *hiding.leftover("check", Coverage(kernels=names))))


def policy(judging: Judging, sources: CatalogOptions, folder: Path) -> Policy:
    """Return the settings and the command line combined; the command line comes last and so overrides them."""
    from_file = settings(sources.config, folder, sources.trust)
    usual = from_file.baseline or (paths.BASELINE if paths.BASELINE.exists() else None)
    named = None if judging.baseline == NONE else Path(judging.baseline)
    return Policy(
        rules=(*from_file.rules, *baseline.typed_rules(judging.limits)),
        baseline=named if judging.baseline else usual,
        allow_recorded=from_file.allow_recorded if judging.allow_recorded is None else judging.allow_recorded,
        only=KernelFilter(judging.kernel_name).checked(),
        ignored=from_file.ignored,
    )


def save(profiles: Sequence[Profile], file: Path) -> Baseline:
    """Add the profiles to the baseline in the file; return its new content."""
    uncounted = [profile.kernel.name for profile in profiles if profile.accesses and profile.total.excessive is None]
    if uncounted:
        raise NotComparable(f"{uncounted[0]} has no counts to save", "profile it with ncu-swizzle profile")
    with locked(file.parent):  # two saves at once keep both
        before = baseline.load(file) if exists(file) else Baseline((), file)
        merged = before.with_(baseline.entry_of(launches) for launches in baseline.grouped_launches(profiles))
        merged.save()
    return merged
