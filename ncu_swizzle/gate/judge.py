"""Profiles compared with a policy and a baseline. Pure: nothing is read or written.

Counts are exact and every launch must meet them, so the worst launch decides; durations are noisy: their median does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.base.texts import in_words
from ncu_swizzle.gate import verdict
from ncu_swizzle.gate.baseline import (
    Baseline,
    Entry,
    Policy,
    Rule,
    check_accesses,
    differences,
    entry_of,
    grouped_launches,
    kernel_pattern,
)
from ncu_swizzle.gate.verdict import (
    MAX_EXCESSIVE,
    MAX_REGRESSION,
    MEASURED,
    PRESENT,
    Check,
    Outcome,
    Place,
    Verdict,
    marked,
)
from ncu_swizzle.reports import sanity
from ncu_swizzle.reports.attribution import Here, nowhere
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED
from ncu_swizzle.reports.remarks import UNCHECKED
from ncu_swizzle.reports.sanity import why_unknown

NOTHING = Total(executed=0, wavefronts=0, ideal=0)


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """Launches of one kernel under the same conditions, with the label they are printed under."""

    label: str
    profiles: tuple[Profile, ...]
    now: Entry
    here: Here

    def check(self, outcome: Outcome, criterion: str, message: str, access: str = "", hint: str = "") -> Check:
        """Return a check: a failure points at the worst line, an inconclusive check at the report."""
        worst = max(self.profiles, key=lambda profile: _total(profile, access).excessive or 0)
        place = None
        if outcome is Outcome.failed:
            place = verdict.worst(worst, access, self.here)
        elif outcome is Outcome.inconclusive:
            place = Place(worst.report)
        return Check(
            outcome=outcome,
            kernel=self.label,
            criterion=criterion,
            message=message + worst.of_sample,
            access=access,
            place=place,
            hint=hint,
        )


def judge(
    profiles: Sequence[Profile],
    rules: Policy,
    baseline: Baseline | None = None,
    note: str = "",
    here: Here = nowhere,
    history: Baseline | None = None,
) -> Verdict:
    """Return the verdict; `note` says why values were not measured, `here` which sources are in the checkout.

    `history` has the last good runs; a kernel of it that is not among the profiles is not missed.

    Raises UsageError for an unknown access kind.
    """
    check_accesses(rules.effective, (access for profile in profiles for access in profile.accesses))
    chosen = [profile for profile in profiles if rules.concerns((profile.kernel.name, profile.kernel.function))]
    subjects = _subjects(chosen, here)
    saved = [each for each in (baseline, history) if each]
    checks = [
        check for subject in subjects for check in marked(_judge_kernel(subject, rules, saved, note), subject.profiles)
    ]
    judged = {check.kernel for check in checks}
    notes = tuple(f"No limit applies to {subject.label}." for subject in subjects if subject.label not in judged)
    return Verdict(checks=(*checks, *_absent(subjects, rules, baseline)), notes=(*notes, *_unchecked(subjects)))


def _unchecked(subjects: Sequence[_Subject]) -> Iterator[str]:
    """Yield a note that names the emulated kernels, whose outputs nobody has compared with a reference."""
    emulated = [subject.label for subject in subjects if subject.now.engine == EMULATED]
    if emulated:
        yield f"{', '.join(emulated)}: {UNCHECKED}."


def _subjects(profiles: Sequence[Profile], here: Here) -> list[_Subject]:
    groups = [(launches, entry_of(launches)) for launches in grouped_launches(profiles)]
    names = [entry.kernel for _, entry in groups]
    subjects = []
    for index, (launches, entry) in enumerate(groups):
        number = names[: index + 1].count(entry.kernel)
        label = entry.kernel if names.count(entry.kernel) == 1 else f"{entry.kernel} #{number}"
        subjects.append(_Subject(label=label, profiles=launches, now=entry, here=here))
    return subjects


def _judge_kernel(subject: _Subject, rules: Policy, saved: Sequence[Baseline], note: str) -> Iterator[Check]:
    engine = subject.now.engine
    if engine not in ("ncu", EMULATED) and not (engine == "recorded" and rules.allow_recorded):
        message = f"its values are {engine}, not measured" + (f": {note}" if note else "")
        hint = "measure on a machine with a GPU and ncu" + (
            ", or pass --allow-recorded" if engine == "recorded" else ""
        )
        yield subject.check(Outcome.inconclusive, MEASURED, message, hint=hint)
        return
    for profile in subject.profiles:
        yield from verdict.of_violations(subject.label, profile)
    kinds = list(dict.fromkeys(access for profile in subject.profiles for access in profile.accesses))
    limits = rules.limits(subject.now.names, kinds)
    for (criterion, access), limit in limits.items():
        if criterion != MAX_REGRESSION:
            yield _check_limit(subject, criterion, access, limit)
    for baseline in saved:
        yield from _check_baseline(subject, baseline, limits.get((MAX_REGRESSION, "")), rules.allow_recorded)


# ---------------------------------------------------------------------------------------------- limits


def _check_limit(subject: _Subject, criterion: str, access: str, rule: Rule) -> Check:
    measure = _excessive if criterion == MAX_EXCESSIVE else _degree
    unknown = next(filter(None, (why_unknown(profile, access) for profile in subject.profiles)), "")
    if not unknown:
        values = [measure(_total(profile, access)) for profile in subject.profiles]
        actual = max((value for value in values if value is not None), default=None)
        if None in values or actual is None:
            unknown = "there are wavefronts, but the ideal number is 0"
    if unknown:
        hint = "profile it again with ncu-swizzle profile, or with the section that ncu-swizzle compare names"
        if subject.now.engine == EMULATED:
            name = shlex.quote(subject.now.kernel)
            hint = f"ncu-swizzle profile {name} --engine emulated names the data to give"
        check = subject.check(Outcome.inconclusive, criterion, unknown, access, hint)
        return replace(check, origin=rule.origin, limit=rule.limit)
    assert actual is not None
    if criterion == MAX_EXCESSIVE:
        message = f"{_wavefronts(actual)}, at most {rule.limit:,} allowed"
    else:
        digits = 4 if abs(actual - rule.limit) > rule.limit / 1000 else 12  # never "1, at most 1" for a failure
        message = f"degree {actual:.{digits}g}, at most {rule.limit:.12g} allowed"
    outcome = Outcome.passed if actual <= rule.limit else Outcome.failed
    check = subject.check(outcome, criterion, message, access)
    return replace(check, origin=rule.origin, actual=actual, limit=rule.limit)


def _excessive(total: Total) -> float | None:
    return total.excessive


def _degree(total: Total) -> float | None:
    return 1.0 if total.wavefronts == total.ideal == 0 else total.degree


def _wavefronts(count: float) -> str:
    return f"{int(count):,} excessive wavefronts"


def _total(profile: Profile, access: str) -> Total:
    """Return the counts of an access kind, of all kinds if empty; zeros if the kernel has no such access."""
    if access:
        return profile.accesses.get(access, NOTHING)
    return profile.total if profile.accesses else NOTHING


# ---------------------------------------------------------------------------------------------- the baseline


def _check_baseline(subject: _Subject, baseline: Baseline, time: Rule | None, allow_recorded: bool) -> Iterator[Check]:
    then = baseline.nearest(subject.now)
    criteria = [baseline.criterion, *([MAX_REGRESSION] if time else [])]
    reason = _no_baseline(subject.now, then, baseline, allow_recorded)
    for criterion in criteria:
        if then is None or reason:
            check = subject.check(Outcome.inconclusive, criterion, reason, hint=baseline.again)
        elif criterion == baseline.criterion:
            check = _check_excess(subject, then, baseline)
        else:
            assert time is not None
            check = _check_time(subject, then, time.limit, baseline)
        origin = time.origin if time and criterion == MAX_REGRESSION else str(baseline.file)
        yield replace(check, origin=origin)


def _no_baseline(now: Entry, then: Entry | None, baseline: Baseline, allow_recorded: bool) -> str:
    """Return why the baseline's entry cannot be compared with; empty if it can."""
    if then is None:
        return (
            f"{baseline.file} has no good run of it with the engine {now.engine}"
            if baseline.history
            else (f"{baseline.file} has no entry for it")
        )
    if then.engine not in ("ncu", EMULATED) and not (then.engine == "recorded" and allow_recorded):
        return f"the values in {baseline.file} are {then.engine}, not measured"
    apart = differences(then, now, baseline.called)
    return f"not comparable: {'; '.join(apart)}" if apart else ""


def _check_excess(subject: _Subject, then: Entry, baseline: Baseline) -> Check:
    """Compare all accesses together with a baseline's, each kind with a history's."""
    unknown = next(filter(None, (why_unknown(profile, "") for profile in subject.profiles)), "")
    now, was = subject.now.excessive, then.excessive
    if unknown or now is None or was is None:
        lacking = unknown or f"the {baseline.called} lacks counts"
        return subject.check(Outcome.inconclusive, baseline.criterion, lacking, hint=baseline.again)
    message = f"{_wavefronts(now)}, {was:,} in the {baseline.called}"
    grown = {
        access: (subject.now.excessive_of(access) or 0) - (then.excessive_of(access) or 0)
        for access in subject.now.accesses
    }
    worst = max(grown, key=lambda access: grown[access], default="")
    more = bool(worst) and grown[worst] > 0
    if more:
        message += f"; {worst} has {grown[worst]:,} more"
    failed = more if baseline.history else now > was
    hint = f"if this is intended: {baseline.accept}" if failed else ""
    outcome = Outcome.failed if failed else Outcome.passed
    check = subject.check(outcome, baseline.criterion, message, hint=hint)
    return replace(check, actual=now, limit=was)


def _check_time(subject: _Subject, then: Entry, limit: float, baseline: Baseline) -> Check:
    """Compare the median with that of the entry: a regression fails beyond the limit plus both spreads."""
    now = subject.now

    def inconclusive(message: str) -> Check:
        return subject.check(Outcome.inconclusive, MAX_REGRESSION, message, hint=baseline.again)

    if now.engine == EMULATED:
        return inconclusive("its values are computed: there are no durations")
    if not now.machine.clock_control:
        return inconclusive("the clock control of its run is unknown")
    if now.duration_ns is None or then.duration_ns is None or len(now.durations_ns) < len(subject.profiles):
        return inconclusive(
            "its duration is unknown"
            if then.duration_ns is not None
            else f"the {baseline.called}'s duration is unknown"
        )
    if doubt := next(filter(None, map(sanity.about_time, subject.profiles)), ""):
        return inconclusive(doubt)
    change = 100 * (now.duration_ns / then.duration_ns - 1)
    noise = now.spread + then.spread
    message = (
        f"{then.duration_ns / 1e6:.4g} → {now.duration_ns / 1e6:.4g} ms, {change:+.1f} %, at most +{limit:g} % allowed"
    )
    message += f" plus {noise:.1f} % of noise"
    failed = change > limit + noise
    check = subject.check(Outcome.failed if failed else Outcome.passed, MAX_REGRESSION, message)
    return replace(check, actual=change, limit=limit)


# ---------------------------------------------------------------------------------------------- missing profiles


def _absent(subjects: Sequence[_Subject], rules: Policy, baseline: Baseline | None) -> Iterator[Check]:
    if rules.only and not subjects:
        yield _missing(rules.only.text, "no profile of a kernel of that name was given", "--kernel-name")
    if not rules.only:
        for kernel, origin in {rule.kernel: rule.origin for rule in rules.effective if rule.kernel}.items():
            expression = kernel_pattern(kernel, origin)
            if not any(expression.is_one_of(subject.now.names) for subject in subjects):
                yield _missing(kernel, "it has a limit, but no profile of a kernel of that name was given", origin)
    if baseline:
        used = [baseline.nearest(subject.now) for subject in subjects]
        for then in baseline.entries:
            if then not in used and rules.concerns(then.names):
                size = f" at {in_words(then.problem)}" if then.problem else ""
                message = f"it is in the baseline{size}, but no profile of it was given"
                yield _missing(then.kernel, message, str(baseline.file), Place(str(baseline.file)))


def _missing(kernel: str, message: str, origin: str, place: Place | None = None) -> Check:
    hint = "give its profile too, or judge only some kernels: --kernel-name NAME"
    return Check(
        outcome=Outcome.inconclusive,
        kernel=kernel,
        criterion=PRESENT,
        message=message,
        access="",
        place=place,
        origin=origin,
        hint=hint,
    )
