"""Why an access of a profile has no count that a limit could hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate

from ncu_swizzle.base import validate
from ncu_swizzle.base.bounds import some
from ncu_swizzle.reports.counts import UNKNOWN, Instruction
from ncu_swizzle.reports.model import DURATION, IDEAL, STALLED, WAVEFRONTS, Profile
from ncu_swizzle.reports.options import EMULATED

# Implausible values in a report, which ncu writes without a warning, and the warnings it did give.
#
# A doubt about counts keeps the gate from judging; every doubt is a warning in the report. A file with values that
# cannot be, such as negative counts, is damaged.


NOTE, TITLE = "ncu-swizzle.note", "Warning from ncu"  # rule and title of a finding that holds a note
INNERMOST = "source lines end at inlined functions: "  # the start of a note that no figure depends on
NOT_MEASURED = "ncu wrote NaN for "  # the start of a note
LEAST_PERCENT = -0.05  # of a peak: less rounds to 0
MOST_PERCENT = 105.0  # of a peak: clocks and replay passes differ a little
MOST = 1 << 62  # a larger count is a negative one read as unsigned
SHARE = ".pct_of_peak_"
DIMENSION = "launch__"
LAUNCH_COUNTS = (WAVEFRONTS, IDEAL, "inst_executed")


def impossible(profile: Profile) -> str:
    """Return the first value in a profile just read that has the wrong type or sign; empty if there is none."""
    return validate.mismatch(profile) or next(_negative(profile), "")


def _negative(profile: Profile) -> Iterator[str]:
    for name, metric in profile.metrics.items():
        counts = name in (*LAUNCH_COUNTS, DURATION) or name.startswith((STALLED, DIMENSION))
        if counts and not isinstance(metric.value, str) and metric.value < 0:
            yield f"{name} is {metric.value:,}"


def doubts(profile: Profile) -> list[str]:
    """Return every doubt about a profile, worded to follow its label: "kernel2: …"."""
    return [*_notes(profile), *_measured(profile), *asides(profile)]


def asides(profile: Profile) -> list[str]:
    """Return those doubts that no figure of the report depends on: what else was not measured, or has no text."""
    others = [_texts(profile), _lines(profile)]
    return [*_notes(profile, minor=True), *_uncollected(profile), *filter(None, others)]


def _notes(profile: Profile, minor: bool = False) -> Iterator[str]:
    """Yield the notes in the report: about metrics that no figure needs (`minor`), or all others."""
    figures = (*LAUNCH_COUNTS, DURATION)
    for finding in profile.findings:
        if finding.rule == NOTE:
            message = finding.message.rstrip(".")
            named = message.removeprefix(NOT_MEASURED).replace(",", " ").split()
            about_lines = message.startswith(INNERMOST)
            about_others = message.startswith(NOT_MEASURED) and not any(name in figures for name in named)
            if minor == (about_lines or about_others):
                yield message


def _uncollected(profile: Profile) -> Iterator[str]:
    """Name requested metrics that ncu left out: it silently skips names that it does not know."""
    requested = re.findall(r"--metrics[ =](\S+)", profile.command)
    names = [name for option in requested for name in option.split(",") if name and ":" not in name]
    collected = {prefix for metric in profile.metrics for prefix in accumulate(metric.split("."), "{}.{}".format)}
    absent = [name for name in names if name not in collected]
    if absent:
        yield f"ncu collected nothing for {some(absent)}: ncu --query-metrics lists the available metrics"


def about_counts(profile: Profile, access: str = "") -> str:
    """Return the first reason not to judge the profile's counts (of an access kind); empty if there is none."""
    return next(_implausible_counts(profile, access), "")


def about_time(profile: Profile) -> str:
    """Return why the profile's duration cannot be judged; empty if it can."""
    duration = profile.number(DURATION)
    if duration is not None and duration <= 0:
        return f"{DURATION} is {duration:g}"
    return next(_implausible_shares(profile), "")


def _measured(profile: Profile) -> Iterator[str]:
    yield from _implausible_counts(profile, "")
    duration = profile.number(DURATION)
    if duration is not None and duration <= 0:
        yield f"{DURATION} is {duration:g}: its time is unreliable"


def _implausible_counts(profile: Profile, access: str) -> Iterator[str]:
    for name in LAUNCH_COUNTS:
        metric = profile.metrics.get(name)
        value = metric.value if metric else 0
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{name} is {value}: its counts are unreliable"
        elif isinstance(value, int | float) and not 0 <= value < MOST:
            yield f"{name} is {value:,}: its counts are unreliable"
    relevant = [i for i in profile.instructions if access in ("", i.access)]
    wrong = [(instruction, why) for instruction in relevant if (why := _contradiction(instruction))]
    if wrong:
        instruction, why = wrong[0]
        more = f" and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        yield f"{instruction.sass} {why}{more}: its counts are unreliable"
    nameless = sum(instruction.access == UNKNOWN for instruction in profile.instructions)
    if access and nameless:
        yield f"cannot tell which accesses are {access}: {nameless} have no SASS in the report"
    yield from _implausible_shares(profile)


def _contradiction(instruction: Instruction) -> str:
    """Say which of an instruction's counts is impossible; empty if none is."""
    executed, wavefronts, ideal = instruction.executed, instruction.wavefronts, instruction.ideal
    for noun, count in (("executions", executed), ("wavefronts", wavefronts), ("ideal wavefronts", ideal)):
        if count is not None and not 0 <= count < MOST:
            return f"has {count:,} {noun}"
    if wavefronts is None or not instruction.access:
        return ""
    if instruction.implausible:
        return f"has {wavefronts:,} wavefronts, fewer than its {ideal:,} ideal ones"
    if executed == 0 and wavefronts:
        return f"has {wavefronts:,} wavefronts but was never executed"
    return ""


def _implausible_shares(profile: Profile) -> Iterator[str]:
    for name in profile.metrics:
        share = profile.number(name) if SHARE in name else None
        if share is not None and not LEAST_PERCENT <= share <= MOST_PERCENT:
            yield f"{name} is {share:,.1f} %: its replay passes are inconsistent"


def _texts(profile: Profile) -> str:
    """Say that instructions lack their SASS: the report has no cubin, or one that NVIDIA's reader cannot read."""
    textless = sum(not instruction.sass for instruction in profile.instructions)
    if not textless:
        return ""
    count = "no instruction has" if textless == len(profile.instructions) else f"{textless:,} instructions have no"
    return f"{count} SASS in the report: profile with ncu --import-sass yes, or pip install --upgrade ncu-report"


def _lines(profile: Profile) -> str:
    """Say that no source line is known, except for library kernels, which never have any."""
    if profile.library or not profile.instructions or any(instruction.stack for instruction in profile.instructions):
        return ""
    return "no instruction has a source line: compile with -lineinfo"


def why_unknown(profile: Profile, access: str) -> str:
    """Return why the counts of a profile cannot be trusted; empty if they can."""
    if profile.engine == EMULATED:
        return _not_computed(profile, access)
    return _uncounted(profile, access) or about_counts(profile, access)


def _uncounted(profile: Profile, access: str) -> str:
    lacking = [name for name in (WAVEFRONTS, IDEAL) if name not in profile.metrics]
    if lacking:
        return f"its report lacks {', '.join(lacking)}"
    if not profile.instructions:
        return "its report lists no instructions"
    uncounted = _without_counts(profile, access)
    if uncounted:
        return f"ncu counted no wavefronts of {len(uncounted)} of its instructions, such as {uncounted[0].sass}"
    launch, counted = profile.number(WAVEFRONTS), profile.total.wavefronts or 0
    if launch is None:
        return f"{WAVEFRONTS} is not a number"
    if launch != counted:
        return f"its instructions add up to {counted:,} wavefronts, but the launch had {launch:,.0f}"
    return ""


def _without_counts(profile: Profile, access: str) -> list[Instruction]:
    return [
        instruction
        for instruction in profile.instructions
        if instruction.access
        and access in ("", instruction.access)
        and (instruction.wavefronts is None or instruction.ideal is None)
    ]


def _not_computed(profile: Profile, access: str) -> str:
    unknown = _without_counts(profile, access)
    why = f": {profile.notes[0].rstrip('.')}" if profile.notes else ""
    return f"wavefronts of {len(unknown)} of its instructions could not be computed{why}" if unknown else ""
