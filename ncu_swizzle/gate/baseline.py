"""A saved baseline: the counts and durations of each kernel, in one small JSON file to commit with the sources.

Every entry carries its own digest, so git can merge the file. The digest is an unkeyed SHA-256: it detects damage,
careless edits and bad merges, not deliberate forgery.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from ncu_swizzle.base import paths, validate
from ncu_swizzle.base.bounds import NamePattern
from ncu_swizzle.base.cache import sha256_of_json
from ncu_swizzle.base.errors import BadFile, DamagedFile, UsageError, did_you_mean
from ncu_swizzle.base.files import brief, exists, is_folder, parse_json, read_bytes, write_json
from ncu_swizzle.base.texts import in_crosses, in_json, in_words
from ncu_swizzle.base.validate import Amount, Count, parse_integer
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.gate.verdict import (
    MAX_DEGREE,
    MAX_EXCESSIVE,
    MAX_REGRESSION,
    MAX_SECTORS,
    Suppression,
)
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.counts import TRANSFERS, Ratios, known_sum
from ncu_swizzle.reports.model import MachineInfo, Profile
from ncu_swizzle.reports.options import Origin, origin_of

# The rules that profiles must meet: each is one limit for some kernels and some accesses.


LIMITS = (MAX_EXCESSIVE, MAX_DEGREE, MAX_SECTORS, MAX_REGRESSION)
LEAST = {MAX_EXCESSIVE: 0, MAX_DEGREE: 1, MAX_SECTORS: 1, MAX_REGRESSION: 0}
EACH = "*"  # as an access: each kind separately
FORM = "write [KERNEL:][ACCESS=]NUMBER, for example 0, LDSM=0, 'gemm.*:1000' or 'gemm.*:STS=1000'"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A limit: in wavefronts (max-excessive), a ratio (max-degree, max-sectors), or percent (max-regression)."""

    criterion: str
    limit: float
    kernel: str = ""  # regular expression that matches the whole name; empty: every kernel
    access: str = ""  # an access kind, EACH, or empty: all accesses together
    origin: str = "the default"

    def applies_to(self, names: Iterable[str]) -> bool:
        """Return whether the rule applies to a kernel with these names."""
        return not self.kernel or kernel_pattern(self.kernel, self.origin).is_one_of(names)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """All rules; later ones override earlier ones. Without rules and baseline, no excess is allowed."""

    rules: tuple[Rule, ...] = ()
    baseline: Path | None = None
    allow_recorded: bool = False
    only: KernelFilter = KernelFilter()  # the kernels to judge
    ignored: tuple[Suppression, ...] = ()  # of the settings

    def limits(self, names: Sequence[str], accesses: Iterable[str]) -> dict[tuple[str, str], Rule]:
        """Return the rule in effect for each criterion and access kind of a kernel ("": all accesses together)."""
        chosen: dict[tuple[str, str], Rule] = {}
        for rule in self.effective:
            if rule.applies_to(names):
                for access in accesses if rule.access == EACH else (rule.access,):
                    chosen[rule.criterion, access] = rule
        return chosen

    @property
    def effective(self) -> tuple[Rule, ...]:
        return self.rules if self.rules or self.baseline else (Rule(criterion=MAX_EXCESSIVE, limit=0),)


def parse_rule(criterion: str, text: str) -> Rule:
    """Return the rule of an option: ``[KERNEL:][ACCESS=]NUMBER``; raise UsageError."""
    kernel, _, rest = text.rpartition(":")
    access, _, number = rest.rpartition("=")
    digits = number.strip().removesuffix("%") if criterion == MAX_REGRESSION else number.strip()
    try:
        limit = parse_integer(digits) if digits.isdecimal() else float(digits)
    except ValueError as error:
        why = "has more than 64 bits" if digits.isdecimal() else "is not a number"
        raise UsageError(f"--{criterion} {text}: {number!r} {why}", FORM) from error
    return rule(criterion, limit, kernel, access, f"--{criterion}")


def typed_rules(limits: Iterable[Sequence[str]]) -> tuple[Rule, ...]:
    """Return the rules that were typed, those of each of LIMITS together. Raises UsageError."""
    return tuple(parse_rule(name, text) for name, texts in zip(LIMITS, limits, strict=True) for text in texts)


def rule(criterion: str, limit: Any, kernel: Any, access: Any, origin: str) -> Rule:
    """Return a rule with valid values, or raise UsageError."""
    integral = criterion == MAX_EXCESSIVE
    least = LEAST[criterion]
    if isinstance(limit, bool) or not isinstance(limit, int if integral else int | float) or not math.isfinite(limit):
        raise UsageError(f"{origin}: {criterion} is {limit!r}", f"give a {'whole ' if integral else ''}number")
    if limit < least:
        raise UsageError(f"{origin}: {criterion} is {limit:g}", f"the minimum is {least}")
    if not isinstance(kernel, str) or not isinstance(access, str):
        raise UsageError(
            f"{origin}: kernel and access must be strings", 'for example kernel = "gemm-.*" and access = "LDSM"'
        )
    if criterion == MAX_REGRESSION and access:
        raise UsageError(
            f"{origin}: max-regression for {access} accesses", "a duration is that of the whole kernel: omit the access"
        )
    return Rule(criterion=criterion, limit=limit, kernel=pattern(kernel, origin), access=access, origin=origin)


def pattern(text: str, origin: str) -> str:
    """Return a regular expression that compiles, or raise UsageError."""
    return kernel_pattern(text, origin).compiled.pattern


@cache
def kernel_pattern(text: str, origin: str) -> NamePattern:
    """Return the expression of a rule's kernels, which matches whole names."""
    return NamePattern(text, origin, "for example gemm-.*")


def check_baseline(policy: Policy) -> None:
    """Raise UsageError for a limit on regressions without a baseline."""
    regression = next((rule for rule in policy.rules if rule.criterion == MAX_REGRESSION), None)
    if regression and policy.baseline is None:
        raise UsageError(f"{regression.origin}: max-regression needs a baseline", SAVE)


def check_accesses(rules: Iterable[Rule], profiled: Iterable[str]) -> None:
    """Raise UsageError for an unknown access kind that no profile has either: its limit would never apply."""
    shared = {*TRANSFERS, *profiled}
    for rule in rules:
        kinds = sorted(memory.OPCODES if rule.criterion == MAX_SECTORS else shared)
        if rule.access not in ("", EACH, *kinds):
            meant = did_you_mean(rule.access, kinds)
            raise UsageError(f"{rule.origin}: unknown access kind {rule.access!r}{meant}", FORM)


SCHEMA = 1
SAVE = "ncu-swizzle check --save-baseline PROFILE…"
AGAIN = f"rewrite it: {SAVE}"
RESTORE = f"{AGAIN}, or restore it from version control"
SINGLE_SPREAD = 2.0  # percent; the assumed noise of a duration that was measured once


@dataclass(frozen=True)
class SavedCounts(Ratios):
    """Counts of one access kind; None if ncu reported none."""

    executed: Count | None
    wavefronts: Count | None
    ideal: Count | None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One kernel under one set of conditions: the counts of its worst launch, the durations of all."""

    kernel: str
    function: str
    engine: str
    when: str
    machine: MachineInfo
    problem: Mapping[str, Count]
    grid: str  # 64x16x4
    block: str
    accesses: Mapping[str, SavedCounts]
    durations_ns: tuple[Amount, ...]  # without the unknown ones

    @property
    def names(self) -> tuple[str, str]:
        return self.kernel, self.function

    @property
    def origin(self) -> Origin:
        return origin_of(self.engine)

    @property
    def excessive(self) -> int | None:
        """All excessive wavefronts; None if any are unknown."""
        return known_sum(counts.excessive for counts in self.accesses.values())

    def excessive_of(self, access: str) -> int | None:
        return self.accesses[access].excessive if access in self.accesses else 0

    @property
    def conditions(self) -> dict[str, str]:
        """What has to match before two entries can be compared; empty if unknown."""
        computed = f"none: computed for compute capability {self.machine.compute_capability}"
        conditions = {
            "GPU": computed if self.origin.computed else self.machine.gpu,
            "clock control": self.machine.clock_control,
            "ncu": "none: computed" if self.origin.computed else self.machine.ncu,
            "problem": in_words(self.problem),
        }
        # A kernel from outside the catalogue has no problem: its grid tells one size from another.
        return conditions if self.problem else {**conditions, "grid": self.grid}

    @property
    def duration_ns(self) -> float | None:
        """The median duration of its launches."""
        return median(self.durations_ns) if self.durations_ns else None

    @property
    def spread(self) -> float:
        """Half the range of its durations, in percent of the median; SINGLE_SPREAD for a single launch."""
        if len(self.durations_ns) < 2:
            return SINGLE_SPREAD
        return 50 * (max(self.durations_ns) - min(self.durations_ns)) / median(self.durations_ns)


def entry_of(profiles: Sequence[Profile]) -> Entry:
    """Return the entry for launches of one kernel under the same conditions."""

    def excess(profile: Profile) -> float:
        known = profile.total.excessive
        return math.inf if known is None else known  # an unknown one may be the worst: the entry keeps it unknown

    worst = max(profiles, key=excess)
    durations = [profile.duration_ns for profile in profiles]
    return Entry(
        kernel=worst.kernel.name,
        function=worst.kernel.function,
        engine=worst.engine,
        when=worst.when,
        machine=worst.machine,
        problem=dict(worst.problem),
        grid=in_crosses(worst.grid),
        block=in_crosses(worst.block),
        accesses={
            access: SavedCounts(total.executed, total.wavefronts, total.ideal)
            for access, total in worst.accesses.items()
        },
        durations_ns=tuple(ns for ns in durations if ns and ns > 0 and math.isfinite(ns)),
    )


def grouped_launches(profiles: Iterable[Profile]) -> list[tuple[Profile, ...]]:
    """Return the launches of each kernel under the same conditions, in the order given.

    A launch counts once, even if both its report and its saved profile were given.
    """
    groups: dict[tuple[str, ...], list[Profile]] = {}
    for profile in profiles:
        entry = entry_of([profile])
        key = (entry.kernel, entry.function, entry.engine, entry.grid, entry.block, *entry.conditions.values())
        launches = groups.setdefault(key, [])
        if not any(dataclasses.replace(launch, report=profile.report) == profile for launch in launches):
            launches.append(profile)
    return [tuple(launches) for launches in groups.values()]


@dataclass(frozen=True)
class Baseline:
    """The entries of a file."""

    entries: tuple[Entry, ...]
    file: Path = paths.BASELINE

    def nearest(self, now: Entry) -> Entry | None:
        """Return the entry of the same kernel with the fewest differing conditions, or None."""
        candidates = [entry for entry in self.entries if entry.kernel == now.kernel]
        return min(candidates, key=lambda entry: len(differences(entry, now)), default=None)

    def with_(self, entries: Iterable[Entry]) -> Baseline:
        """Return the baseline with these entries added; they replace those of the same kernels and conditions."""
        merged = {(entry.kernel, *entry.conditions.values()): entry for entry in (*self.entries, *entries)}
        return dataclasses.replace(self, entries=tuple(merged[key] for key in sorted(merged)))

    def save(self) -> None:
        """Write the file atomically; raise NotWritable."""
        write_json(self.file, self._content())

    def to_json(self) -> str:
        """Return the file's content on one line."""
        return in_json(self._content()).rstrip()

    def _content(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "kernels": [_to_data(entry) for entry in self.entries]}


def differences(then: Entry, now: Entry) -> list[str]:
    """Return the conditions of two entries that differ or are unknown, a phrase each."""
    phrases = []
    before, after = then.conditions, now.conditions
    for name in dict.fromkeys((*before, *after)):
        was, is_ = before.get(name, ""), after.get(name, "")
        if was != is_:
            phrases.append(f"{name} {is_ or 'unknown'}, in the baseline {was or 'unknown'}")
        elif not is_ and name not in ("problem", "clock control"):
            phrases.append(f"{name} unknown")
    return phrases


def load(file: Path) -> Baseline:
    """Load a baseline; raise BadFile or DamagedFile."""
    if is_folder(file):
        raise BadFile(f"{file} is a folder, not a baseline", AGAIN)
    if not exists(file):
        raise BadFile(
            f"{file} does not exist", f"write it: ncu-swizzle check --save-baseline --baseline {file} PROFILE…"
        )
    content = parse_json(read_bytes(file), str(file), RESTORE)
    if not isinstance(content, dict) or "kernels" not in content or "schema" not in content:
        raise BadFile(f"{file} is not a baseline", AGAIN)
    if content["schema"] != SCHEMA:
        raise BadFile(f"{file} has schema {content['schema']}; this ncu-swizzle reads schema {SCHEMA}", AGAIN)
    try:
        return Baseline(tuple(_from_data(entry, file) for entry in content["kernels"]), file)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{file} is damaged: {brief(error)}", RESTORE) from error


def _to_data(entry: Entry) -> dict[str, Any]:
    content = dataclasses.asdict(entry)
    content["durations_ns"] = list(entry.durations_ns)
    return {**content, "digest": sha256_of_json(content)}


def _from_data(data: dict[str, Any], file: Path) -> Entry:
    content = dict(data)
    if content.pop("digest") != sha256_of_json(content):
        raise DamagedFile(
            f"the entry of {content.get('kernel')} in {file} was changed after it was written: wrong digest",
            RESTORE,
        )
    entry = validate.from_plain(Entry, content)
    if mismatch := validate.mismatch(entry):
        raise ValueError(mismatch)
    return entry
