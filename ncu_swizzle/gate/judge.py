"""Profiles held against a policy and a baseline: pure, nothing is read or written.

Counts are exact and every launch has to hold, so the worst counts; durations are noisy, so their median does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.gate import places, policy
from ncu_swizzle.gate.baseline import Baseline, Entry, differences, entry, group
from ncu_swizzle.gate.policy import Policy, Rule
from ncu_swizzle.gate.verdict import (
    BASELINE,
    MAX_EXCESSIVE,
    MAX_REGRESSION,
    MEASURED,
    PRESENT,
    Check,
    Outcome,
    Place,
    Verdict,
)
from ncu_swizzle.profiles import sanity
from ncu_swizzle.profiles.counts import Instruction, Total
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.texts import in_words

NOTHING = Total(0, 0, 0)
SAVE = "ncu-swizzle baseline save PROFILE…"


@dataclass(frozen=True)
class _Subject:
    """Launches of one kernel under the same conditions, and how they are called here."""

    label: str
    profiles: tuple[Profile, ...]
    now: Entry

    def check(self, outcome: Outcome, criterion: str, message: str, access: str = "", hint: str = "") -> Check:
        """Return a check of it: a failure points at its worst line, what is inconclusive at the report."""
        worst = max(self.profiles, key=lambda one: _total(one, access).excessive or 0)
        place = None
        if outcome is Outcome.failed:
            place = places.worst(worst, access)
        elif outcome is Outcome.inconclusive:
            place = Place(worst.report)
        return Check(outcome, self.label, criterion, message, access, place, hint=hint)


def judge(profiles: Sequence[Profile], rules: Policy, baseline: Baseline | None = None, note: str = "") -> Verdict:
    """Return the verdict; `note` says why figures were not measured. Raises UsageError for an unknown access kind."""
    policy.check_accesses(rules.effective, (access for one in profiles for access in one.accesses))
    subjects = _subjects([one for one in profiles if rules.concerns((one.kernel.name, one.kernel.function))])
    checks = [check for one in subjects for check in _of_kernel(one, rules, baseline, note)]
    judged = {check.kernel for check in checks}
    notes = tuple(f"Nothing limits {one.label}." for one in subjects if one.label not in judged)
    return Verdict((*checks, *_absent(subjects, rules, baseline)), notes)


def _subjects(profiles: Sequence[Profile]) -> list[_Subject]:
    groups = [(launches, entry(launches)) for launches in group(profiles)]
    names = [one.kernel for _, one in groups]
    found = []
    for index, (launches, one) in enumerate(groups):
        number = names[: index + 1].count(one.kernel)
        label = one.kernel if names.count(one.kernel) == 1 else f"{one.kernel} #{number}"
        found.append(_Subject(label, launches, one))
    return found


def _of_kernel(one: _Subject, rules: Policy, baseline: Baseline | None, note: str) -> Iterator[Check]:
    engine = one.now.engine
    if engine not in ("ncu", EMULATED) and not (engine == "recorded" and rules.allow_recorded):
        said = f"its figures are {engine}, not measured" + (f": {note}" if note else "")
        hint = "measure on a machine with a GPU and ncu" + (", or --allow-recorded" if engine == "recorded" else "")
        yield one.check(Outcome.inconclusive, MEASURED, said, hint=hint)
        return
    kinds = list(dict.fromkeys(access for profile in one.profiles for access in profile.accesses))
    limits = rules.limits(one.now.names, kinds)
    for (criterion, access), limit in limits.items():
        if criterion != MAX_REGRESSION:
            yield _against_limit(one, criterion, access, limit)
    if baseline:
        yield from _against_baseline(one, baseline, limits.get((MAX_REGRESSION, "")), rules.allow_recorded)


# ---------------------------------------------------------------------------------------------- limits


def _against_limit(one: _Subject, criterion: str, access: str, rule: Rule) -> Check:
    measure = _excessive if criterion == MAX_EXCESSIVE else _degree
    unknown = next(filter(None, (_unknown(profile, access) for profile in one.profiles)), "")
    if not unknown:
        values = [measure(_total(profile, access)) for profile in one.profiles]
        actual = max((value for value in values if value is not None), default=None)
        if None in values or actual is None:
            unknown = "there are wavefronts, but none would be ideal"
    if unknown:
        hint = "profile it again with ncu-swizzle profile, or with the section that ncu-swizzle compare names"
        check = one.check(Outcome.inconclusive, criterion, unknown, access, hint)
        return replace(check, origin=rule.origin, limit=rule.limit)
    assert actual is not None
    if criterion == MAX_EXCESSIVE:
        said = f"{_wavefronts(actual)}, at most {rule.limit:,} allowed"
    else:
        digits = 4 if abs(actual - rule.limit) > rule.limit / 1000 else 12  # never "1, at most 1" for a failure
        said = f"degree {actual:.{digits}g}, at most {rule.limit:.12g} allowed"
    outcome = Outcome.passed if actual <= rule.limit else Outcome.failed
    return replace(one.check(outcome, criterion, said, access), origin=rule.origin, actual=actual, limit=rule.limit)


def _excessive(total: Total) -> float | None:
    return total.excessive


def _degree(total: Total) -> float | None:
    return 1.0 if total.wavefronts == total.ideal == 0 else total.degree


def _wavefronts(count: float) -> str:
    return f"{int(count):,} excessive wavefronts"


def _total(profile: Profile, access: str) -> Total:
    """Return the counts of an access kind, of all where it is empty; zeros where the kernel has no such access."""
    if access:
        return profile.accesses.get(access, NOTHING)
    return profile.total if profile.accesses else NOTHING


def _unknown(profile: Profile, access: str) -> str:
    """Say why the counts of a profile cannot be trusted; empty where they can."""
    if profile.engine == EMULATED:
        return _not_computed(profile, access)
    return _uncounted(profile, access) or sanity.about_counts(profile, access)


def _uncounted(profile: Profile, access: str) -> str:
    lacking = [name for name in (WAVEFRONTS, IDEAL) if name not in profile.metrics]
    if lacking:
        return f"its report lacks {', '.join(lacking)}"
    if not profile.instructions:
        return "its report lists no instructions"
    uncounted = _without_counts(profile, access)
    if uncounted:
        return f"ncu counted no wavefronts of {len(uncounted)} of its instructions, such as {uncounted[0].sass}"
    told, counted = profile.number(WAVEFRONTS), profile.total.wavefronts or 0
    if told is None:
        return f"{WAVEFRONTS} is no number"
    if told != counted:
        return f"its instructions add up to {counted:,} wavefronts, but the launch had {told:,.0f}"
    return ""


def _without_counts(profile: Profile, access: str) -> list[Instruction]:
    return [
        one
        for one in profile.instructions
        if one.access and access in ("", one.access) and (one.wavefronts is None or one.ideal is None)
    ]


def _not_computed(profile: Profile, access: str) -> str:
    unknown = _without_counts(profile, access)
    why = f": {profile.notes[0].rstrip('.')}" if profile.notes else ""
    return f"wavefronts of {len(unknown)} of its instructions could not be computed{why}" if unknown else ""


# ---------------------------------------------------------------------------------------------- the baseline


def _against_baseline(one: _Subject, baseline: Baseline, time: Rule | None, allow_recorded: bool) -> Iterator[Check]:
    then = baseline.nearest(one.now)
    asked = [BASELINE, *([MAX_REGRESSION] if time else [])]
    reason = _no_baseline(one.now, then, baseline, allow_recorded)
    for criterion in asked:
        if then is None or reason:
            check = one.check(Outcome.inconclusive, criterion, reason, hint=SAVE)
        elif criterion == BASELINE:
            check = _excess_against(one, then)
        else:
            assert time is not None
            check = _time_against(one, then, time.limit)
        origin = time.origin if time and criterion == MAX_REGRESSION else str(baseline.file)
        yield replace(check, origin=origin)


def _no_baseline(now: Entry, then: Entry | None, baseline: Baseline, allow_recorded: bool) -> str:
    if then is None:
        return f"{baseline.file} has no entry of it"
    if then.engine not in ("ncu", EMULATED) and not (then.engine == "recorded" and allow_recorded):
        return f"the figures in {baseline.file} are {then.engine}, not measured"
    apart = differences(then, now)
    return f"not comparable: {'; '.join(apart)}" if apart else ""


def _excess_against(one: _Subject, then: Entry) -> Check:
    unknown = next(filter(None, (_unknown(profile, "") for profile in one.profiles)), "")
    now, was = one.now.excessive, then.excessive
    if unknown or now is None or was is None:
        return one.check(Outcome.inconclusive, BASELINE, unknown or "the baseline lacks counts", hint=SAVE)
    said = f"{_wavefronts(now)}, {was:,} in the baseline"
    grown = {
        access: (one.now.excessive_of(access) or 0) - (then.excessive_of(access) or 0) for access in one.now.accesses
    }
    worst = max(grown, key=lambda access: grown[access], default="")
    if worst and grown[worst] > 0:
        said += f"; {worst} has {grown[worst]:,} more"
    outcome = Outcome.passed if now <= was else Outcome.failed
    check = one.check(outcome, BASELINE, said, hint=f"if it is meant: {SAVE}" if now > was else "")
    return replace(check, actual=now, limit=was)


def _time_against(one: _Subject, then: Entry, limit: float) -> Check:
    """Hold the median against the baseline's: a regression counts beyond the limit and both spreads."""
    now = one.now
    if now.engine == EMULATED:
        return one.check(
            Outcome.inconclusive, MAX_REGRESSION, "its figures are computed: there are no times", hint=SAVE
        )
    if not now.machine.clock_control:
        return one.check(Outcome.inconclusive, MAX_REGRESSION, "the clock control of its run is unknown", hint=SAVE)
    if now.duration_ns is None or then.duration_ns is None or len(now.durations_ns) < len(one.profiles):
        whose = "its" if then.duration_ns is not None else "the baseline's"
        return one.check(Outcome.inconclusive, MAX_REGRESSION, f"{whose} duration is unknown", hint=SAVE)
    if doubt := next(filter(None, map(sanity.about_time, one.profiles)), ""):
        return one.check(Outcome.inconclusive, MAX_REGRESSION, doubt, hint=SAVE)
    change = 100 * (now.duration_ns / then.duration_ns - 1)
    noise = now.spread + then.spread
    said = (
        f"{then.duration_ns / 1e6:.4g} → {now.duration_ns / 1e6:.4g} ms, {change:+.1f} %, at most +{limit:g} % allowed"
    )
    said += f" and {noise:.1f} % of noise"
    failed = change > limit + noise
    check = one.check(Outcome.failed if failed else Outcome.passed, MAX_REGRESSION, said)
    return replace(check, actual=change, limit=limit)


# ---------------------------------------------------------------------------------------------- what was not given


def _absent(subjects: Sequence[_Subject], rules: Policy, baseline: Baseline | None) -> Iterator[Check]:
    if rules.only and not subjects:
        yield _missing(rules.only, "no kernel of that name was given", "--kernel-name")
    if not rules.only:
        for kernel, origin in {one.kernel: one.origin for one in rules.effective if one.kernel}.items():
            if not any(re.fullmatch(kernel, name) for one in subjects for name in one.now.names):
                yield _missing(kernel, "it has a limit, but no kernel of that name was given", origin)
    if baseline:
        used = [baseline.nearest(one.now) for one in subjects]
        for then in baseline.entries:
            if then not in used and rules.concerns(then.names):
                said = (
                    f"it is in the baseline{f' at {in_words(then.problem)}' if then.problem else ''}, but was not given"
                )
                yield _missing(then.kernel, said, str(baseline.file), Place(str(baseline.file)))


def _missing(kernel: str, message: str, origin: str, place: Place | None = None) -> Check:
    hint = "name its profile too, or judge only some kernels: --kernel-name REGEX"
    return Check(Outcome.inconclusive, kernel, PRESENT, message, "", place, origin, hint)
