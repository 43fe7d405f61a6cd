"""What ``ncu-swizzle check`` and ``baseline save`` do: gather profiles, then judge or save them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelDescription
from ncu_swizzle.cubin.kernel_filter import KernelFilter
from ncu_swizzle.engines import choice
from ncu_swizzle.engines.context import Progress, Request
from ncu_swizzle.errors import NotComparable
from ncu_swizzle.files import exists, locked
from ncu_swizzle.gate import baseline, config, last_good, places, policy
from ncu_swizzle.gate.baseline import Baseline
from ncu_swizzle.gate.config import GateSettings
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.policy import LIMITS, Policy
from ncu_swizzle.gate.verdict import Check, Verdict
from ncu_swizzle.jobs import entries as entries_
from ncu_swizzle.profiles.model import Profile

NONE = "none"


@dataclass(frozen=True)
class CheckOptions:
    """The command line of ``ncu-swizzle check``, except how profiles are obtained and what is written."""

    profiles: tuple[str, ...]
    limits: tuple[tuple[str, ...], ...] = ((), (), ())  # for each of LIMITS, as typed
    baseline: str = ""  # a file, "none", or empty: the one in the settings, else the default file if it exists
    config: str = ""  # a file, "none", or empty: the nearest one
    allow_recorded: bool | None = None
    only: str = ""  # as in `KernelFilter`
    catalog: tuple[Path, ...] = ()
    trust: bool = False
    description: KernelDescription = KernelDescription()  # of the .cu, cubin and PTX files among the profiles
    history: Path | None = None  # the folder of one, whose last good runs are compared with

    @classmethod
    def naming(cls, profiles: Sequence[str], sources: CatalogOptions, description: KernelDescription) -> CheckOptions:
        """Return options that only say which profiles, and where their kernels are described."""
        return cls(
            tuple(profiles),
            config=sources.config,
            catalog=sources.catalog,
            trust=sources.trust,
            description=description,
        )


def check(options: CheckOptions, request: Request, on_progress: Progress) -> Verdict:
    """Return the verdict on the profiles; source paths are relative to the current folder if they exist there."""
    rules = _policy(options, Path.cwd())
    policy.check_baseline(rules)
    saved = baseline.load(rules.baseline) if rules.baseline else None  # fails before anything slow starts
    kept = last_good.load(rules.history) if rules.history else None
    profiles, reason = gathered(options, request, on_progress)
    verdict = judge(profiles, rules, saved, reason, places.files_in(Path.cwd()), kept)
    return replace(verdict, checks=tuple(_in_checkout(check, Path.cwd()) for check in verdict.checks))


def gathered(options: CheckOptions, request: Request, on_progress: Progress) -> tuple[list[Profile], str]:
    """Return the profiles that the options name, and why nothing was measured (empty if it was)."""
    catalog, names = checked_entries(options)
    return gather(names, request, on_progress, catalog)


def checked_entries(options: CheckOptions) -> tuple[Catalog, list[str]]:
    """Return the catalogue and the entries, with each file replaced by its kernels, of before and after the latter."""
    catalog, names = user_kernels.with_files(
        options.profiles, options.description, options.catalog, options.config, options.trust
    )
    pair = options.description.before or options.description.after
    return catalog, [name for kernels in names for name in (kernels[-1:] if pair else kernels)]


def _in_checkout(check: Check, root: Path) -> Check:
    if check.place is None:
        return check
    return replace(check, place=places.moved(check.place, root))


def _policy(options: CheckOptions, folder: Path) -> Policy:
    """Return the settings and the command line combined; the command line comes last and so overrides them."""
    settings = _settings(options.config, folder, options.trust)
    typed = [
        policy.parse_rule(name, text) for name, texts in zip(LIMITS, options.limits, strict=True) for text in texts
    ]
    allow = settings.allow_recorded if options.allow_recorded is None else options.allow_recorded
    only = KernelFilter(options.only).checked()
    return Policy((*settings.rules, *typed), _baseline(options.baseline, settings), allow, only, options.history)


def _settings(file: str, folder: Path, trust: bool) -> GateSettings:
    if file == NONE:
        return GateSettings()
    return config.read(Path(file), trust) if file else config.find(folder, trust)


def _baseline(file: str, settings: GateSettings) -> Path | None:
    if file:
        return None if file == NONE else Path(file)
    return settings.baseline or (paths.BASELINE if paths.BASELINE.exists() else None)


def gather(
    entries: Sequence[str], request: Request, on_progress: Progress, catalog: Catalog | None = None
) -> tuple[list[Profile], str]:
    """Return the profiles that the entries name, and why nothing was measured (empty if it was).

    A run folder stands for the kernel that it was made for.
    """
    engine = replace(choice.choose_engine(request), beside=False)  # a gate takes no values from another engine
    return entries_.gather(catalog or user_kernels.everything(), entries, request, engine, on_progress), engine.reason


def save(profiles: Sequence[Profile], file: Path, fresh: bool) -> Baseline:
    """Add the profiles to the baseline in the file, or replace it if `fresh`; return its new content."""
    uncounted = [profile.kernel.name for profile in profiles if profile.accesses and profile.total.excessive is None]
    if uncounted:
        raise NotComparable(f"{uncounted[0]} has no counts to save", "profile it with ncu-swizzle profile")
    with locked(file.parent):  # two saves at once keep both
        before = Baseline((), file) if fresh or not exists(file) else baseline.load(file)
        merged = before.with_(baseline.entry_of(launches) for launches in baseline.grouped_launches(profiles))
        merged.save()
    return merged
