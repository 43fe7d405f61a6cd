"""What `check` and `lint` decide: launches and lines compared with limits, and a baseline. Pure: nothing is
read or written.

Counts are exact and every launch must meet them, so the worst launch decides; durations are noisy: their median does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.base import codes
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.gate import memory, verdict
from ncu_swizzle.gate.baseline import (
    SAVE,
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
    BASELINE,
    MAX_DEGREE,
    MAX_EXCESSIVE,
    MAX_REGRESSION,
    MAX_SECTORS,
    MEASURED,
    PRESENT,
    Check,
    Outcome,
    Place,
    Verdict,
    with_rule_origin,
)
from ncu_swizzle.reports import attribution, model, remarks
from ncu_swizzle.reports.attribution import Here, nowhere
from ncu_swizzle.reports.counts import Instruction, Total
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Origin
from ncu_swizzle.reports.remarks import UNCHECKED, CountsDoubt, counts_doubt
from ncu_swizzle.smem.opcodes import row

NOTHING = Total(executed=0, wavefronts=0, ideal=0)
CODES = {  # of findings of `check`, by criterion
    MAX_EXCESSIVE: codes.EXCESS_LIMIT,
    MAX_DEGREE: codes.DEGREE_LIMIT,
    MAX_SECTORS: codes.SECTOR_LIMIT,
    MAX_REGRESSION: codes.TIME_LIMIT,
    BASELINE: codes.BASELINE_LIMIT,
}


def within_limit(rule: Rule, actual: float) -> tuple[Outcome, str]:
    """Return whether a number of wavefronts or a degree is within its limit, and a phrase with both."""
    outcome = Outcome.passed if actual <= rule.limit else Outcome.failed
    if rule.criterion == MAX_EXCESSIVE:
        return outcome, f"{_wavefronts(actual)}, at most {rule.limit:,} allowed"
    digits = 4 if abs(actual - rule.limit) > rule.limit / 1000 else 12  # never "1, at most 1" for a failure
    return outcome, f"degree {actual:.{digits}g}, at most {rule.limit:.12g} allowed"


def _accesses(count: int) -> str:
    return f"{count} access" + ("es" if count != 1 else "")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _wavefronts(count: float) -> str:
    return f"{int(count):,} excessive wavefronts"


# ---------------------------------------------------------------------------------------------- lines, for `lint`


@dataclass(frozen=True)
class LineAccesses:
    """All accesses of one kind on one line; `wavefronts` and `ideal` add up those that are known."""

    access: str
    place: Place | None
    instructions: tuple[Instruction, ...]

    @property
    def unknown(self) -> bool:
        return bool(self.uncounted)

    @property
    def uncounted(self) -> tuple[Instruction, ...]:
        """The accesses whose wavefronts are unknown."""
        return tuple(access for access in self.instructions if not _is_counted(access))

    @property
    def counted(self) -> LineAccesses:
        """The line with the accesses whose wavefronts are known."""
        return replace(self, instructions=tuple(access for access in self.instructions if _is_counted(access)))

    def share_of(self, some: Sequence[Instruction]) -> str:
        """Describe which share of the line's accesses these are."""
        count = len(self.instructions)
        return _accesses(count) if len(some) == count else f"{len(some)} of {_accesses(count)}"

    @property
    def wavefronts(self) -> int:
        return sum(access.wavefronts or 0 for access in self.instructions)

    @property
    def ideal(self) -> int:
        return sum(access.ideal or 0 for access in self.instructions)

    @property
    def excessive(self) -> int:
        return self.wavefronts - self.ideal

    @property
    def degree(self) -> float:
        if not self.ideal:
            return 1.0 if not self.wavefronts else float("inf")
        return self.wavefronts / self.ideal


def _is_counted(access: Instruction) -> bool:
    return access.wavefronts is not None and access.ideal is not None


def line_accesses(profile: Profile, here: Here = nowhere) -> list[LineAccesses]:
    """Return the shared-memory accesses by kind and by the line that they are attributed to."""
    groups: dict[tuple[str, Location | None], list[Instruction]] = {}
    sites = {id(site.access): site for site in attribution.sites(profile, here)}
    for instruction in profile.shared():
        site = sites.get(id(instruction))
        groups.setdefault((instruction.access, site.line if site else None), []).append(instruction)
    return [
        LineAccesses(access, verdict.of_sites(line, [sites[id(i)] for i in group]) if line else None, tuple(group))
        for (access, line), group in groups.items()
    ]


def judge_lines(
    profile: Profile, lines: Sequence[LineAccesses], rules: Policy, why: str, hints: Mapping[str, str]
) -> Iterator[Check]:
    """Yield a failed check per line over its limit, an inconclusive one per unknown line, else one that passed.

    A line with only some unknown accesses also gets a warning if the others are over the limit. `why` says why
    counts are unknown, if any are; `hints` are commands against a conflict, by its code or "" for any other.
    """
    limits = rules.limits((profile.kernel.name, profile.kernel.function), dict.fromkeys(line.access for line in lines))
    fixed = attribution.unavoidable(profile)
    tips = attribution.advice(profile)
    advised = {offset: tip.text for tip in tips for offset in tip.offsets}
    by_lanes = {offset for tip in tips if not tip.layout for offset in tip.offsets}
    for note in profile.layouts:
        advised |= {pc: "; ".join(filter(None, (note.text, advised.get(pc)))) for pc in note.offsets}
    offending = list(verdict.of_violations(profile.kernel.name, profile))
    ways = attribution.most_ways(profile)
    counted = {access.pc for access in profile.shared() if access.wavefronts is not None}
    elsewhere = {pc: why.reason for why in profile.unknowns for pc in why.offsets if pc in counted}
    said_at: dict[Reason, str] = {}  # where each was first reported
    whatever = 0  # accesses by unknown lanes that conflict in no case
    for line in sorted(lines, key=lambda line: -line.excessive):
        rule = limits[MAX_DEGREE, line.access]
        check = Check(
            outcome=Outcome.inconclusive, kernel=profile.kernel.name, criterion=MAX_DEGREE, access=line.access,
            message="", place=line.place or Place(next(iter(profile.sources), profile.report)),
            origin=rule.origin, limit=rule.limit, provenance=profile.origin.provenance,
        )  # fmt: skip
        bounded = [access for access in line.uncounted if access.pc in ways]
        above = [access for access in bounded if ways[access.pc] > rule.limit]
        whatever += len(bounded) - len(above)
        untold = [access for access in line.uncounted if access.pc not in ways]
        remote = [why for access in line.instructions for why in (elsewhere.get(access.pc),) if why]
        if remote:
            offending.append(replace(check, message=remote[0], code=codes.NO_RULE))
        if untold:
            reasons = model.codes_of_unknown(profile, untold)
            because = _because(profile, untold, check.place.in_full if check.place else "", said_at) or why
            message = f"wavefronts of {line.share_of(untold)} are unknown{f': {because}' if because else ''}"
            offending.append(replace(check, message=message, code=reasons[0], more_codes=reasons[1:]))
        known = line.counted
        outcome, message = within_limit(rule, known.degree)
        excessive = [access for access in known.instructions if access.excessive]
        over = outcome is not Outcome.passed and not all(fixed.get(access.pc, False) for access in excessive)
        if not (over or above):
            continue
        guilty = [*(known.instructions if over else ()), *above]
        tip = next((f"; {advised[access.pc]}" for access in guilty if access.pc in advised), "")
        apart = f" by {line.share_of(known.instructions)}" if line.unknown else ""
        said = [f"{message}: {_wavefronts(known.excessive)}{apart}{profile.sample_clause}"] if over else []
        if above:
            most = max(ways[access.pc] for access in above)
            said.append(f"up to {most}-way by {line.share_of(above)}, depending on which lanes the data let execute")
        code = _conflict(profile, replace(line, instructions=tuple(guilty)))
        no_conflict = not above and all(access.pc in by_lanes for access in excessive)
        hint = _elsewhere(code, guilty, fixed) or hints.get(code) or hints.get("", "")
        offending.append(
            replace(
                check,
                outcome=Outcome.warning if untold or no_conflict else Outcome.failed,
                message=f"{', and '.join(said)}{tip}",
                hint="" if no_conflict else hint,
                actual=known.degree if over else None,
                code=code,
            )
        )
    yield from offending
    if all(check.outcome is Outcome.warning for check in offending):
        yield _none_over(profile, sum(len(line.instructions) for line in lines), whatever)


def _none_over(profile: Profile, accesses: int, whatever: int) -> Check:
    """Return the check of a kernel that passes; `whatever` accesses are clean whichever lanes make them."""
    message = f"{accesses} accesses to shared memory, none over its limit" if accesses else "no access to shared memory"
    if whatever:
        message += f" ({whatever} {_are(whatever)} clean whichever lanes the data let execute)"
    return Check(
        outcome=Outcome.passed,
        kernel=profile.kernel.name,
        criterion=MAX_DEGREE,
        message=message + profile.sample_clause,
    )


Reason = tuple[tuple[str, ...], str]  # why counts are unknown: codes, and a sentence


def _because(profile: Profile, unknown: Sequence[Instruction], place: str, said_at: dict[Reason, str]) -> str:
    """Return why some accesses of a place are unknown, or where that was first reported; empty without a reason."""
    offsets = {access.pc: access for access in unknown}
    for why in profile.unknowns:
        if access := next((offsets[pc] for pc in why.offsets if pc in offsets), None):
            reason, instruction = why.reason, f"{access.sass} at {access.pc:#x}: "
            break
    else:
        reason = instruction = ""
    first = said_at.setdefault((model.codes_of_unknown(profile, unknown), reason), place)
    return f"for the same reason as at {first}" if first not in ("", place) else f"{instruction}{reason}"


# What helps if no layout does, by code.
ELSEWHERE = {
    codes.ATOMIC: "add up the lanes' values first: __reduce_add_sync, or __match_any_sync for several words, then one "
    "atomic per word",
    codes.COPY: "let neighbouring lanes copy neighbouring 16 bytes of a whole 128-byte line of global memory",
}


def _elsewhere(code: str, guilty: Sequence[Instruction], fixed: Mapping[int, bool]) -> str:
    """Return what to do about accesses whose wavefronts no layout changes; empty if one may."""
    return ELSEWHERE.get(code, "") if all(access.pc in fixed for access in guilty if access.excessive) else ""


def _conflict(profile: Profile, line: LineAccesses) -> str:
    """Return the code of a line's conflict: by the origin of the layout, or else by the kind of access."""
    pcs = {access.pc for access in line.instructions}
    if any(pcs.intersection(note.offsets) for note in profile.layouts if not note.explicit):
        return codes.COMPILER
    if any(access.by_wmma for access in line.instructions):
        return codes.WMMA
    return row(line.access).conflict_code


# ---------------------------------------------------------------------------------------------- kernels, for `check`


@dataclass(frozen=True, kw_only=True)
class ByLanes:
    """The accesses with unknown counts but a known bound on their conflicts, whichever lanes make them.

    `told` is whether there are some, and no others with unknown counts.
    """

    told: bool = False
    ways: int = 1  # at most
    count: int = 0
    worst: tuple[Profile, Instruction] | None = None  # that conflicts most

    @classmethod
    def of(cls, profiles: Sequence[Profile], access: str) -> ByLanes:
        """Return the bound for the accesses of a kind, of all kinds if empty."""
        worst_first: list[tuple[int, Profile, Instruction]] = []
        for profile in profiles:
            ways = attribution.most_ways(profile)
            for instruction in (one for one in profile.shared() if access in ("", one.access) and not _is_counted(one)):
                if instruction.pc not in ways:
                    return cls()
                worst_first.append((ways[instruction.pc], profile, instruction))
        if not worst_first:
            return cls()
        most, profile, worst = max(worst_first, key=lambda instruction: instruction[0])
        above = sum(instruction[0] > 1 for instruction in worst_first)
        return cls(told=True, ways=most, count=above or len(worst_first), worst=(profile, worst))

    @property
    def sentence(self) -> str:
        """The bound on their conflicts, as a phrase."""
        return f"up to {self.ways}-way by {_accesses(self.count)}, depending on which lanes the data let execute"

    @property
    def clean(self) -> str:
        """What to add if they are within a limit."""
        if not self.told:
            return ""
        if self.ways > 1:
            return f"; {self.sentence}"
        return f"; {_accesses(self.count)} {_are(self.count)} clean whichever lanes the data let execute"

    def place(self, here: Here) -> Place | None:
        """Return the line of the access that conflicts most."""
        if self.worst is None:
            return None
        profile, access = self.worst
        sites = [site for site in attribution.sites(profile, here) if site.access.pc == access.pc]
        return verdict.of_sites(sites[0].line, sites) if sites else None


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """Launches of one kernel under the same conditions, with the label they are printed under."""

    label: str
    profiles: tuple[Profile, ...]
    now: Entry
    here: Here

    def by_lanes(self, access: str) -> ByLanes:
        """Return the bound for data-dependent accesses of a kind, of all kinds if empty."""
        return ByLanes.of(self.profiles, access)

    def doubt(self, access: str = "") -> CountsDoubt | None:
        """Return why the counts of an access kind, of all kinds if empty, cannot be trusted; None if they can."""
        doubts = [doubt for profile in self.profiles if (doubt := counts_doubt(profile, access))]
        reasons = dict.fromkeys(code for doubt in doubts for code in doubt.codes)
        return CountsDoubt(doubts[0].reason, tuple(reasons)) if doubts else None

    def check(
        self,
        outcome: Outcome,
        criterion: str,
        message: str,
        access: str = "",
        *,
        hint: str = "",
        why: Sequence[str] = (),
    ) -> Check:
        """Return a check: a failure points at the worst line, an inconclusive check at the report.

        `why` are the codes of why it is inconclusive; else the criterion has its own code.
        """
        code, *more = why or [CODES[criterion]]
        worst = max(self.profiles, key=lambda profile: _total(profile, access).excessive or 0)
        place = None
        if outcome is Outcome.failed:
            place = verdict.worst(worst, access, self.here)
        elif outcome is Outcome.inconclusive:
            place = Place(worst.report)
        return Check(
            outcome=outcome, kernel=self.label, criterion=criterion, message=message + worst.sample_clause,
            access=access, place=place, hint=hint, code=code, more_codes=tuple(more),
            provenance=self.now.origin.provenance,
        )  # fmt: skip


def judge(
    profiles: Sequence[Profile],
    rules: Policy,
    baseline: Baseline | None = None,
    note: str = "",
    here: Here = nowhere,
) -> Verdict:
    """Return the verdict; `note` says why values were not measured, `here` which sources are in the checkout.

    Raises UsageError for an unknown access kind.
    """
    check_accesses(rules.effective, (access for profile in profiles for access in profile.accesses))
    chosen = [profile for profile in profiles if rules.only.passes((profile.kernel.name, profile.kernel.function))]
    subjects = _subjects(chosen, here)
    checks = [
        check
        for subject in subjects
        for check in with_rule_origin(_judge_kernel(subject, rules, baseline, note), subject.profiles)
    ]
    judged = {check.kernel for check in checks}
    notes = [f"No limit applies to {subject.label}." for subject in subjects if subject.label not in judged]
    emulated = [subject for subject in subjects if subject.now.origin.computed]
    if unchecked := [subject.label for subject in emulated if not subject.profiles[-1].checked]:
        notes.append(f"{', '.join(unchecked)}: {UNCHECKED}.")  # their outputs were not compared with a reference
    right = [(subject.label, each) for subject in emulated for each in subject.profiles[-1].checked if not each.wrong]
    notes += [f"{label}: {each}." for label, each in right]
    return Verdict(checks=(*checks, *_absent(subjects, rules, baseline)), notes=tuple(notes))


def _subjects(profiles: Sequence[Profile], here: Here) -> list[_Subject]:
    groups = [(launches, entry_of(launches)) for launches in grouped_launches(profiles)]
    names = [entry.kernel for _, entry in groups]
    subjects = []
    for index, (launches, entry) in enumerate(groups):
        number = names[: index + 1].count(entry.kernel)
        label = entry.kernel if names.count(entry.kernel) == 1 else f"{entry.kernel} #{number}"
        subjects.append(_Subject(label=label, profiles=launches, now=entry, here=here))
    return subjects


def _judge_kernel(subject: _Subject, rules: Policy, saved: Baseline | None, note: str) -> Iterator[Check]:
    origin = subject.now.origin
    if not _counts_here(origin, rules):
        message = f"its values are {subject.now.engine}, not measured" + (f": {note}" if note else "")
        allowing = ", or pass --allow-recorded" if origin.recorded else ""
        hint = f"measure on a machine with a GPU and ncu{allowing}"
        yield subject.check(Outcome.inconclusive, MEASURED, message, hint=hint, why=[codes.NOT_MEASURED])
        return
    for profile in subject.profiles:
        yield from verdict.of_violations(subject.label, profile)
    kinds = list(dict.fromkeys(access for profile in subject.profiles for access in profile.accesses))
    limits = rules.limits(subject.now.names, kinds)
    for access, limit in memory.sector_limits(rules, subject.now.names, memory.kinds(subject.profiles)).items():
        yield _check_sectors(subject, access, limit)
    for (criterion, access), limit in limits.items():
        if criterion not in (MAX_REGRESSION, MAX_SECTORS):
            yield _check_limit(subject, access, limit)
    regression = limits.get((MAX_REGRESSION, ""))
    if saved is None:
        return
    then = saved.nearest(subject.now)
    reason = _incomparable(subject.now, then, saved, rules)
    if then is None or reason:
        criteria = [BASELINE, *([MAX_REGRESSION] if regression else [])]
        checks = [
            subject.check(Outcome.inconclusive, name, reason, hint=SAVE, why=[codes.INCOMPARABLE]) for name in criteria
        ]
    else:
        checks = [_check_excess(subject, then)]
        checks += [_check_time(subject, then, regression.limit)] if regression else []
    yield replace(checks[0], origin=str(saved.file))
    yield from (replace(check, origin=regression.origin) for check in checks[1:] if regression)


def _counts_here(origin: Origin, rules: Policy) -> bool:
    """Return whether values of this origin may be judged at all."""
    return origin.measured or origin.computed or (origin.recorded and rules.allow_recorded)


def _check_limit(subject: _Subject, access: str, rule: Rule) -> Check:
    doubt, values, lanes = subject.doubt(access), [], ByLanes()
    if doubt is not None and (by_lanes := subject.by_lanes(access)).told:
        doubt, lanes = None, by_lanes
        # Whatever the data: more ways than allowed are conflicts, and none are none.
        above = lanes.ways > (rule.limit if rule.criterion == MAX_DEGREE else 1)
        if above and not (rule.criterion == MAX_EXCESSIVE and rule.limit):
            check = subject.check(Outcome.failed, rule.criterion, lanes.sentence, access)
            return replace(check, place=lanes.place(subject.here) or check.place, origin=rule.origin, limit=rule.limit)
        if above:
            reason = f"{lanes.sentence}: how many excessive wavefronts that makes is unknown"
            doubt = CountsDoubt(reason, (codes.DATA,))
    if doubt is None:
        for total in (_total(profile, access).known for profile in subject.profiles):
            # Without wavefronts nothing conflicts: degree 1.
            degree = 1.0 if total.wavefronts == total.ideal == 0 else total.degree
            value = total.excessive if rule.criterion == MAX_EXCESSIVE else degree
            if value is None:
                doubt = CountsDoubt("there are wavefronts, but the ideal number is 0", (codes.IMPLAUSIBLE,))
            else:
                values.append(value)
    if doubt:
        hint = "profile it again with ncu-swizzle profile, or with the section that ncu-swizzle report names"
        if subject.now.origin.computed:
            name = shlex.quote(subject.now.kernel)
            hint = f"ncu-swizzle profile {name} --engine emulated names the data to give"
        check = subject.check(Outcome.inconclusive, rule.criterion, doubt.reason, access, hint=hint, why=doubt.codes)
        return replace(check, origin=rule.origin, limit=rule.limit)
    actual = max(values)
    outcome, message = within_limit(rule, actual)
    check = subject.check(outcome, rule.criterion, f"{message}{lanes.clean}", access)
    return replace(check, origin=rule.origin, actual=actual, limit=rule.limit)


def _check_sectors(subject: _Subject, access: str, rule: Rule) -> Check:
    """Compare the sectors for each ideal one of an opcode, of all together if empty, with the limit."""
    ratio, worst, unknown = memory.worst_ratio(subject.profiles, access, subject.here)
    outcome = Outcome.passed if ratio <= rule.limit else Outcome.failed
    message = f"{ratio:.4g} sectors for each ideal one, at most {rule.limit:.12g} allowed"
    if unknown:
        outcome, message = Outcome.inconclusive, "sectors of global memory are unknown, or were not collected"
    check = subject.check(outcome, MAX_SECTORS, message, access, why=unknown)
    place = verdict.Place(*worst.line) if outcome is Outcome.failed and worst and worst.line else check.place
    return replace(check, place=place, origin=rule.origin, actual=None if unknown else ratio, limit=rule.limit)


def _total(profile: Profile, access: str) -> Total:
    """Return the counts of an access kind, of all kinds if empty; zeros if the kernel has no such access."""
    if access:
        return profile.accesses.get(access, NOTHING)
    return profile.total if profile.accesses else NOTHING


# ---------------------------------------------------------------------------------------------- the baseline


def _incomparable(now: Entry, then: Entry | None, saved: Baseline, rules: Policy) -> str:
    """Return why the baseline's entry cannot be compared with; empty if it can."""
    if then is None:
        return f"{saved.file} has no entry for it"
    if not _counts_here(then.origin, rules):
        return f"the values in {saved.file} are {then.engine}, not measured"
    apart = differences(then, now)
    return f"not comparable: {'; '.join(apart)}" if apart else ""


def _check_excess(subject: _Subject, then: Entry) -> Check:
    """Compare all accesses together with the baseline's; the message names the kind that grew most."""
    doubt, now, was = subject.doubt(), subject.now.excessive, then.excessive
    if doubt or now is None or was is None:
        doubt = doubt or CountsDoubt("the baseline lacks counts", (codes.INCOMPARABLE,))
        return subject.check(Outcome.inconclusive, BASELINE, doubt.reason, hint=SAVE, why=doubt.codes)
    message = f"{_wavefronts(now)}, {was:,} in the baseline"
    grown = {
        access: (subject.now.excessive_of(access) or 0) - (then.excessive_of(access) or 0)
        for access in subject.now.accesses
    }
    worst = max(grown, key=lambda access: grown[access], default="")
    if worst and grown[worst] > 0:
        message += f"; {worst} has {grown[worst]:,} more"
    failed = now > was
    hint = f"if this is intended: {SAVE}" if failed else ""
    check = subject.check(Outcome.failed if failed else Outcome.passed, BASELINE, message, hint=hint)
    return replace(check, actual=now, limit=was)


def _check_time(subject: _Subject, then: Entry, limit: float) -> Check:
    """Compare the median with that of the entry: a regression fails beyond the limit plus both spreads."""
    now, was_ns = subject.now, then.duration_ns
    doubt = ""
    if now.origin.computed:
        doubt = "its values are computed: there are no durations"
    elif not now.machine.clock_control:
        doubt = "the clock control of its run is unknown"
    elif was_ns is None:
        doubt = "the baseline's duration is unknown"
    elif now.duration_ns is None or len(now.durations_ns) < len(subject.profiles):
        doubt = "its duration is unknown"
    doubt = doubt or next(filter(None, map(remarks.about_time, subject.profiles)), "")
    if doubt or now.duration_ns is None or was_ns is None:
        return subject.check(Outcome.inconclusive, MAX_REGRESSION, doubt, hint=SAVE, why=[codes.UNTIMED])
    change = 100 * (now.duration_ns / was_ns - 1)  # percent
    # Both medians may be off by their own spread.
    noise = now.spread + then.spread
    message = (
        f"{was_ns / 1e6:.4g} → {now.duration_ns / 1e6:.4g} ms, {change:+.1f} %, at most +{limit:g} % allowed "
        f"plus {noise:.1f} % of noise"
    )
    check = subject.check(Outcome.failed if change > limit + noise else Outcome.passed, MAX_REGRESSION, message)
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
            if then not in used and rules.only.passes(then.names):
                size = f" at {in_words(then.problem)}" if then.problem else ""
                message = f"it is in the baseline{size}, but no profile of it was given"
                yield _missing(then.kernel, message, str(baseline.file), Place(str(baseline.file)))


def _missing(kernel: str, message: str, origin: str, place: Place | None = None) -> Check:
    return Check(
        outcome=Outcome.inconclusive, kernel=kernel, criterion=PRESENT, message=message, place=place, origin=origin,
        hint="give its profile too, or judge only some kernels: --kernel-name NAME", code=codes.ABSENT,
    )  # fmt: skip
