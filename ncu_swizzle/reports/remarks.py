"""Remarks about profiles: implausible values, warnings, and the verdict in one sentence.

ncu writes implausible values without a warning. A doubt about counts keeps the gate from judging; every doubt is a
warning in the report. A file with impossible values, such as negative counts, is damaged.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence, Sized
from itertools import accumulate
from typing import NamedTuple

from ncu_swizzle.base import codes, validate
from ncu_swizzle.base.bounds import some
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.cubin import names
from ncu_swizzle.cycles.simulated import Span, saved_by
from ncu_swizzle.reports import attribution, model
from ncu_swizzle.reports.counts import UNKNOWN, Instruction
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, Finding, Profile

NOTE, ASIDE = "ncu-swizzle.note", "ncu-swizzle.aside"  # rules of findings that hold notes; no figure needs an aside
LEAST_PERCENT = -0.05  # of a peak: less rounds to 0
MOST_PERCENT = 105.0  # of a peak: clocks and replay passes differ a little
MOST = 1 << 62  # a larger count is a negative one read as unsigned
SHARE = ".pct_of_peak_"
DIMENSION = "launch__"
LAUNCH_COUNTS = (WAVEFRONTS, IDEAL, EXECUTED)
FIGURES = frozenset((*LAUNCH_COUNTS, DURATION))


def note(message: str, *, aside: bool = False) -> Finding:
    """Return a note on a report as a finding."""
    return Finding(rule=ASIDE if aside else NOTE, kind="warning", title="Warning from ncu", message=message)


def impossible(profile: Profile) -> str:
    """Return the first value in a profile just read that has the wrong type or sign; empty if there is none."""
    if wrong := validate.mismatch(profile):
        return wrong
    for name, metric in profile.metrics.items():
        counts = name in FIGURES or name.startswith((STALLED, DIMENSION))
        if counts and not isinstance(metric.value, str) and metric.value < 0:
            return f"{name} is {metric.value:,}"
    return ""


def doubts(profile: Profile) -> list[str]:
    """Return every doubt about a profile, worded to follow its label: "kernel2: …"."""
    time = _unreliable_time(profile)
    timing = [f"{time}: its time is unreliable"] if time else []
    return [*_notes(profile, NOTE), *_implausible_counts(profile, ""), *timing, *asides(profile)]


def asides(profile: Profile) -> list[str]:
    """Return the doubts that no figure of the report depends on: other missing measurements and texts."""
    return [*_notes(profile, ASIDE), *_uncollected(profile), *_without_text(profile)]


def _notes(profile: Profile, rule: str) -> Iterator[str]:
    return (finding.message.rstrip(".") for finding in profile.findings if finding.rule == rule)


def _uncollected(profile: Profile) -> Iterator[str]:
    """Name requested metrics that ncu left out: it silently skips names that it does not know."""
    requested = re.findall(r"--metrics[ =](\S+)", profile.command)
    names = [name for option in requested for name in option.split(",") if name and ":" not in name]
    # A metric may be requested by its first parts: ncu then collects a.sum, a.avg and so on for a.
    collected = {prefix for metric in profile.metrics for prefix in accumulate(metric.split("."), "{}.{}".format)}
    absent = [name for name in names if name not in collected]
    if absent:
        yield f"ncu collected nothing for {some(absent)}: ncu --query-metrics lists the available metrics"


def about_counts(profile: Profile, access: str = "") -> str:
    """Return the first reason not to judge the profile's counts (of an access kind); empty if there is none."""
    return next(_implausible_counts(profile, access), "")


def about_time(profile: Profile) -> str:
    """Return why the profile's duration cannot be judged; empty if it can."""
    return _unreliable_time(profile) or next(_implausible_shares(profile), "")


def _unreliable_time(profile: Profile) -> str:
    duration = profile.number(DURATION)
    return f"{DURATION} is {duration:g}" if duration is not None and duration <= 0 else ""


def _implausible_counts(profile: Profile, access: str) -> Iterator[str]:
    for name in LAUNCH_COUNTS:
        metric = profile.metrics.get(name)
        value = metric.value if metric else 0
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{name} is {value}: its counts are unreliable"
        elif isinstance(value, int | float) and not 0 <= value < MOST:
            yield f"{name} is {value:,}: its counts are unreliable"
    relevant = [i for i in profile.instructions if access in ("", i.access)]
    both = {WAVEFRONTS, IDEAL} <= profile.metrics.keys()
    wrong = [(instruction, why) for instruction in relevant if (why := _contradiction(instruction, both))]
    if wrong:
        instruction, why = wrong[0]
        more = f" and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        yield f"{instruction.sass} {why}{more}: its counts are unreliable"
    nameless = sum(instruction.access == UNKNOWN for instruction in profile.instructions)
    if access and nameless:
        yield f"cannot tell which accesses are {access}: {nameless} have no SASS in the report"
    yield from _implausible_shares(profile)


def _contradiction(instruction: Instruction, both: bool) -> str:
    """Name an impossible count of an instruction; empty if there is none.

    `both`: the launch's wavefronts and ideal wavefronts were counted.
    """
    executed, wavefronts, ideal = instruction.executed, instruction.wavefronts, instruction.ideal
    for noun, count in (("executions", executed), ("wavefronts", wavefronts), ("ideal wavefronts", ideal)):
        if count is not None and not 0 <= count < MOST:
            return f"has {count:,} {noun}"
    if both and instruction.access and (wavefronts is None) != (ideal is None):
        return f"has {'wavefronts' if ideal is None else 'ideal wavefronts'} alone"
    if instruction.access and instruction.implausible:
        return f"has {wavefronts:,} wavefronts, fewer than its {ideal:,} ideal ones"
    return f"has {wavefronts:,} {why}" if (why := _unlike_wavefronts(instruction)) else ""


def _unlike_wavefronts(instruction: Instruction) -> str:
    """Name what contradicts an instruction's having wavefronts; empty if nothing does."""
    if not instruction.wavefronts or instruction.never:
        return ""
    if instruction.executed == 0:
        return "wavefronts but was never executed"
    if instruction.executed is None:  # ncu counts executions of everything that it counts
        return "wavefronts but no count of executions"
    return "" if instruction.access else "wavefronts of shared memory but does not access it"


def _implausible_shares(profile: Profile) -> Iterator[str]:
    for name in profile.metrics:
        share = profile.number(name) if SHARE in name else None
        if share is not None and not LEAST_PERCENT <= share <= MOST_PERCENT:
            yield f"{name} is {share:,.1f} %: its replay passes are inconsistent"


def _without_text(profile: Profile) -> Iterator[str]:
    """Report that instructions lack their SASS, or that no source line is known."""
    textless, instructions = sum(not i.sass for i in profile.instructions), len(profile.instructions)
    if textless:  # the report has no cubin that NVIDIA's reader can read
        count = "no instruction has" if textless == instructions else f"{textless:,} instructions have no"
        yield f"{count} SASS in the report: profile with ncu --import-sass yes, or pip install --upgrade ncu-report"
    if instructions and not profile.library and not any(i.stack for i in profile.instructions):
        yield "no instruction has a source line: compile with -lineinfo"  # library kernels never have any


class CountsDoubt(NamedTuple):
    """Why counts cannot be trusted, and the codes of all reasons."""

    reason: str
    codes: tuple[str, ...]


def counts_doubt(profile: Profile, access: str) -> CountsDoubt | None:
    """Return why the counts of an access kind, of all kinds if empty, cannot be trusted; None if they can."""
    uncounted = [
        instruction
        for instruction in profile.instructions
        if instruction.access
        and access in ("", instruction.access)
        and (instruction.wavefronts is None or instruction.ideal is None)
    ]
    if profile.origin.computed:
        why = f": {profile.notes[0].rstrip('.')}" if profile.notes else ""
        reason = f"wavefronts of {len(uncounted)} of its instructions could not be computed{why}"
        return CountsDoubt(reason, model.codes_of_unknown(profile, uncounted)) if uncounted else None
    if lacking := [name for name in (WAVEFRONTS, IDEAL) if name not in profile.metrics]:
        return CountsDoubt(f"its report lacks {', '.join(lacking)}", (codes.NOT_COLLECTED,))
    if not profile.instructions:
        return CountsDoubt("its report lists no instructions", (codes.NOT_COLLECTED,))
    if uncounted:
        reason = f"ncu counted no wavefronts of {len(uncounted)} of its instructions, such as {uncounted[0].sass}"
        return CountsDoubt(reason, (codes.NOT_COLLECTED,))
    launch, counted = profile.number(WAVEFRONTS), profile.total.wavefronts or 0
    if launch != counted:
        said = f"{WAVEFRONTS} is not a number" if launch is None else ""
        reason = said or f"its instructions add up to {counted:,} wavefronts, but the launch had {launch:,.0f}"
        return CountsDoubt(reason, (codes.IMPLAUSIBLE,))
    implausible = about_counts(profile, access)
    return CountsDoubt(implausible, (codes.IMPLAUSIBLE,)) if implausible else None


# Commands that collect what a report lacks; without the program, as reports store its words without their quotes.

PROGRAM = ("--", "PROGRAM")


def command(profile: Profile) -> str:
    """Return the command that collects every metric for this very launch."""
    kernel, launch = profile.kernel, profile.launch
    if kernel.family:
        return shlex.join(["ncu-swizzle", "profile", kernel.name])
    if launch.workload != "kernel":  # a range's or graph's kernels are not known
        return command_for_all()
    if kernel.mangled:
        chosen = ["--kernel-name-base", "mangled", "-k", kernel.mangled]
    else:
        chosen = ["-k", names.function(kernel.function) or kernel.name]
    skipped = ["-s", str(launch.occurrence)] if launch.occurrence else []
    return shlex.join(["ncu-swizzle", "profile", *chosen, *skipped, "-c", "1", *PROGRAM])


def command_for_all() -> str:
    """Return the command that collects every metric for all kernels of a program."""
    return shlex.join(["ncu-swizzle", "profile", *PROGRAM])


# The verdict, in one sentence.

Named = Sequence[tuple[str, Profile]]
UNCHECKED = "output not checked, as an emulated run follows addresses and not data"
MICROSECONDS = 1e5  # ns: shorter durations are shown in microseconds


def speedup(profiles: Sequence[Profile]) -> float | None:
    """Return the first duration over the second; None if either is unknown or implausible."""
    durations = [profile.duration_ns or 0 for profile in profiles[:2]]
    return durations[0] / durations[1] if len(durations) == 2 and min(durations) > 0 else None


def best(profiles: Sequence[Profile]) -> int:
    """Return the index of the profile to compare with the first: the fastest, else the one with the least excess.

    Launches of other problems and library kernels do not compete. If nothing does, it is the second profile.
    """
    first = profiles[0]
    rivals = [n for n, p in enumerate(profiles) if n and not p.library and p.problem == first.problem]
    times = [(profiles[n].duration_ns, n) for n in rivals]
    excess = [(profiles[n].total.excessive, n) for n in rivals]
    for costs in (times, excess):
        costs_known = [(cost, n) for cost, n in costs if cost is not None]
        if costs_known and len(costs_known) == len(rivals):
            return min(costs_known)[1]
    return min(1, len(profiles) - 1)


def verdict(named: Named, counts: bool = True) -> str:
    """Describe the change of excessive wavefronts and time, from the first profile to the best.

    Without `counts`, it names no counts and times, for a page that shows them in a picture next to it.
    """
    if len(named) == 1:
        return f"{_waste(*named[0], counts)}."
    number = best([profile for _, profile in named])
    (label, before), (rival, after) = named[0], named[number]
    was, now = before.total.excessive, after.total.excessive
    pace = _pace(before, after)
    if counts and speedup((before, after)):
        times = [profile.duration_ns or 0.0 for profile in (before, after)]
        unit, scale, decimals = ("µs", 1e3, 2) if max(times) < MICROSECONDS else ("ms", 1e6, 3)
        pace += f": {times[0] / scale:.{decimals}f} → {times[1] / scale:.{decimals}f} {unit}"
    degrees = before.total.degree, after.total.degree
    shown = f" (degree {degrees[0]:.2f} → {degrees[1]:.2f})" if counts and degrees[0] and degrees[1] else ""
    change = f"{rival} {_change(was, now, label, counts)}" if was is not None and now is not None else ""
    if not change and not shown:
        return f"{label} and {rival} cannot be judged: {_unknown(before, after)}."
    prefix = "" if number == 1 else f"Best of {len(named)}: "
    if was == now == 0:
        neither = f"Neither {label} nor {rival} has excessive wavefronts"
        return f"{prefix}{neither}; {rival} {pace}." if pace else f"{prefix}{neither}."
    return f"{prefix}{' and '.join(part for part in (change + shown, pace) if part)}."


def _change(was: int, now: int, before: str, counts: bool) -> str:
    """Describe the change of excessive wavefronts, with or without numbers."""
    if not now:
        return f"removes all {f'{was:,} ' * counts}excessive wavefronts of {before}"
    if was == now:
        same = f"has the same number of excessive wavefronts as {before}: {now:,}"
        return same if counts else f"has as many excessive wavefronts as {before}"
    if was > now:
        removed = f"{was - now:,} of the {was:,}" if counts else f"{100 * (was - now) / was:.1f} % of the"
        return f"removes {removed} excessive wavefronts of {before}"
    if not counts:
        return f"has more excessive wavefronts than {before}"
    return f"adds {now - was:,} excessive wavefronts to the {was:,} of {before}"


def _waste(label: str, profile: Profile, counts: bool) -> str:
    total = profile.total
    if total.excessive is None or total.degree is None:
        return f"{label} cannot be judged: {_unknown(profile)}"
    if not total.excessive:
        return f"{label} has no excessive shared-memory wavefronts"
    if not counts:
        return f"{label} takes {total.degree:.2f}x as many shared-memory wavefronts as needed"
    return f"{label} has {total.excessive:,} excessive wavefronts: {total.degree:.2f}x as many wavefronts as needed"


def _unknown(*profiles: Profile) -> str:
    if any(profile.origin.computed and profile.accesses for profile in profiles):
        return "not all wavefronts could be computed"
    missing = sorted({name for profile in profiles for name in profile.missing})
    return f"{', '.join(missing)} not in the report" if missing else "no shared-memory access was counted"


def fewer_cycles(saved: Span) -> str:
    """Describe how many cycles an H100 saves, or needs more."""
    shares = (saved.point, saved.low, saved.high) if saved.point >= 0 else (-saved.point, -saved.high, -saved.low)
    point, low, high = (f"{100 * share:.0f}%" for share in shares)
    return f"an estimated {point} {'fewer' if saved.point >= 0 else 'more'} cycles on an H100 ({low} to {high})"


def saving(profile: Profile) -> str:
    """Describe what removing the excess of a simulated launch would save; empty if it was not simulated."""
    simulated = profile.simulated
    if simulated is None or simulated.saved is None or not (profile.total.excessive or 0):
        return ""
    without = f"{profile.kernel.name}: without its excessive wavefronts it would take"
    return f"{without} {fewer_cycles(simulated.saved)}: simulated, see docs/cycles.md"


def wide(profile: Profile) -> str:
    """Explain why ncu reports conflicts in wide accesses without any; empty if it does not."""
    named: dict[int, list[str]] = {}
    for site in attribution.sites(profile):
        access = site.access
        if access.access in ("LDS", "STS") and access.executed and access.wavefronts == access.ideal:
            ways = (access.ideal or 0) // access.executed
            if ways > 1 and (access.ideal or 0) % access.executed == 0:
                named.setdefault(ways, []).append(site.name)
    parts = [f"{ways} at {some(list(dict.fromkeys(lines)))}" for ways, lines in sorted(named.items())]
    if not parts:
        return ""
    called = " and ".join(f"{count}-way" for count in sorted(named))
    return (
        f"{profile.kernel.name}: wide accesses take several wavefronts per request without any conflict, "
        f"{' and '.join(parts)}: ncu, which divides wavefronts by requests, calls that {called}"
    )


def _pace(before: Profile, after: Profile) -> str:
    """Describe how fast the second is, and where that was recorded if the counts were not; empty if unknown."""
    ratio = speedup((before, after))
    if not ratio:
        saved = saved_by(before.simulated, after.simulated)
        return f"would take {fewer_cycles(saved)}, both simulated" if saved else ""
    change = f"{ratio:.2f} times as fast" if ratio >= 1 else f"{1 / ratio:.2f} times slower"
    source = " and ".join(dict.fromkeys(profile.beside for profile in (before, after) if profile.beside))
    return f"was {change}, {source}" if source else f"is {change}"


# What has to agree for the times of two profiles, and mostly their counts, to be comparable.
_CONDITIONS: tuple[tuple[str, Callable[[Profile], str]], ...] = (
    ("GPU", lambda p: p.machine.gpu),
    ("problem", lambda p: in_words(p.problem)),
    ("clock control", lambda p: p.machine.clock_control),
    ("driver", lambda p: p.machine.driver),
    ("CUDA", lambda p: p.machine.cuda),
    ("ncu", lambda p: p.machine.ncu),
    ("engine", lambda p: "" if p.beside else p.engine),  # with `beside`, only its wavefronts are computed
)


def warnings_of(named: Named) -> list[str]:
    """Return what makes the comparison doubtful: differing conditions, missing metrics, implausible values."""
    warnings = []
    for what, get in _CONDITIONS:
        values = {label: get(profile) for label, profile in named if get(profile)}
        if len(set(values.values())) > 1:
            warnings.append(f"Different {what}: " + ", ".join(f"{label} {v}" for label, v in values.items()) + ".")
    warnings += [note for _, profile in named for note in profile.notes]
    warnings += [warning for label, profile in named for warning in model.warnings_about(label, profile)]
    if unchecked := [label for label, profile in named if profile.origin.computed and not profile.checked]:
        warnings.append(f"{', '.join(unchecked)}: {UNCHECKED}.")
    for label, profile in named:
        if profile.missing:
            workload = profile.launch.workload
            why = "" if workload == "kernel" else f" (ncu has no per-instruction counts for a {workload})"
            warnings.append(f"{label} lacks {', '.join(profile.missing)}{why}. Collect it with: {command(profile)}")
        warnings += [f"{label}: {doubt}." for doubt in doubts(profile)]
    return warnings


# The limits of a profile's size: far more than ncu writes, and little enough to show within seconds.

LONGEST_NAME = 20_000  # characters
LONGEST_TEXT = 1_000_000
MOST_IN_STACKS = 200_000_000  # characters of files' names, which CSV repeats in every row
_MOST: tuple[tuple[str, int, Callable[[Profile], Sized]], ...] = (
    ("metrics", 20_000, lambda p: p.metrics),
    ("findings", 5_000, lambda p: p.findings),
    ("notes", 1_000, lambda p: p.notes),
    ("checked outputs", 1_000, lambda p: p.errors),
    ("problem sizes", 1_000, lambda p: p.problem),
    ("sources", 10_000, lambda p: p.sources),
    ("stall reasons", 200, lambda p: {reason for i in p.instructions for reason in i.samples} | p.stalls.keys()),
)


def too_large(profile: Profile) -> str:
    """Return a part of a profile that is larger than any that ncu writes, and its limit; empty if there is none."""
    return next(_excesses(profile), "")


def _excesses(profile: Profile) -> Iterator[str]:
    for what, most, part in _MOST:
        if len(part(profile)) > most:
            yield f"it has {len(part(profile)):,} {what}, and the limit is {most:,}"
    kernel = profile.kernel
    for name in (*kernel.names, kernel.family, kernel.title, *profile.metrics):
        if len(name) > LONGEST_NAME:
            yield f"the name {name[:20]}… has {len(name):,} characters, and the limit is {LONGEST_NAME:,}"
    for text in (profile.command, *profile.notes, *(finding.message for finding in profile.findings)):
        if len(text) > LONGEST_TEXT:
            yield f"the text {text[:20]}… has {len(text):,} characters, and the limit is {LONGEST_TEXT:,}"
    if sum(len(i.sass) + len(i.opcode) for i in profile.instructions) > 50 * LONGEST_TEXT:
        yield f"its instructions have more than {50 * LONGEST_TEXT:,} characters, the limit"
    if sum(len(file) for i in profile.instructions for file, _ in i.stack) > MOST_IN_STACKS:
        yield f"its instructions' callers have file names of more than {MOST_IN_STACKS:,} characters, the limit"
