"""Figures that cannot be: what ncu wrote without a word of warning, and what it warned of. Pure.

A doubt about the counts keeps the gate from judging; all doubts are warnings of the report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ncu_swizzle.profiles.counts import UNKNOWN, Instruction
from ncu_swizzle.profiles.model import DURATION, IDEAL, WAVEFRONTS, Profile

NOTE, TITLE = "ncu-swizzle.note", "What ncu warned of"  # the rule and the title of a finding that is a note
MOST_PERCENT = 105.0  # a share of a peak; clocks and passes differ a little
MOST = 1 << 62  # a count beyond is a negative one, read without its sign
SHARE = ".pct_of_peak_"
LAUNCH_COUNTS = (WAVEFRONTS, IDEAL, "inst_executed")


def of(profile: Profile) -> list[str]:
    """Return every doubt about a profile as a sentence's end: "kernel2: …"."""
    told = [finding.message.rstrip(".") for finding in profile.findings if finding.rule == NOTE]
    return [*told, *_measured(profile), *_uncollected(profile), *filter(None, [_texts(profile), _lines(profile)])]


def _uncollected(profile: Profile) -> Iterator[str]:
    """Name metrics that ncu was asked for and left out: it says nothing of a name that it does not know."""
    asked = re.findall(r"--metrics[ =](\S+)", profile.command)
    names = [name for text in asked for name in text.split(",") if name and ":" not in name]
    absent = [
        name for name in names if not any(known == name or known.startswith(f"{name}.") for known in profile.metrics)
    ]
    if absent:
        yield f"ncu collected nothing for {', '.join(absent)}: ncu --query-metrics shows what there is"


def about_counts(profile: Profile, access: str = "") -> str:
    """Return the first reason not to judge the profile's counts (of an access kind); empty where there is none."""
    return next(_absurd(profile, access), "")


def about_time(profile: Profile) -> str:
    """Return why the profile's duration cannot be judged; empty where it can."""
    duration = profile.number(DURATION)
    if duration is not None and duration <= 0:
        return f"{DURATION} is {duration:g}"
    return next(_shares(profile), "")


def _measured(profile: Profile) -> Iterator[str]:
    yield from _absurd(profile, "")
    duration = profile.number(DURATION)
    if duration is not None and duration <= 0:
        yield f"{DURATION} is {duration:g}: its time is not to be trusted"


def _absurd(profile: Profile, access: str) -> Iterator[str]:
    for name in LAUNCH_COUNTS:
        metric = profile.metrics.get(name)
        value = metric.value if metric else 0
        if isinstance(value, float) and not math.isfinite(value):
            yield f"{name} is {value}: its counts are not to be trusted"
        elif isinstance(value, int | float) and not 0 <= value < MOST:
            yield f"{name} is {value:,}: its counts are not to be trusted"
    wrong = [(one, why) for one in profile.instructions if access in ("", one.access) and (why := _impossible(one))]
    if wrong:
        one, why = wrong[0]
        more = f" and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        yield f"{one.sass} {why}{more}: its counts are not to be trusted"
    nameless = sum(one.access == UNKNOWN for one in profile.instructions)
    if access and nameless:
        yield f"which accesses are {access} is not known: {nameless} have no SASS in the report"
    yield from _shares(profile)


def _impossible(one: Instruction) -> str:
    """Say why an instruction's counts cannot be; empty where they can."""
    for what, count in (("executions", one.executed), ("wavefronts", one.wavefronts), ("ideal wavefronts", one.ideal)):
        if count is not None and not 0 <= count < MOST:
            return f"has {count:,} {what}"
    if one.wavefronts is None or not one.access:
        return ""
    if one.ideal is not None and one.wavefronts < one.ideal:
        return f"has {one.wavefronts:,} wavefronts where {one.ideal:,} are ideal"
    if one.executed == 0 and one.wavefronts:
        return f"has {one.wavefronts:,} wavefronts and was never executed"
    return ""


def _shares(profile: Profile) -> Iterator[str]:
    for name in profile.metrics:
        share = profile.number(name) if SHARE in name else None
        if share is not None and not 0 <= share <= MOST_PERCENT:
            yield f"{name} is {share:,.1f} %: the passes of its measurement do not fit together"


def _texts(profile: Profile) -> str:
    """Say that instructions have no text: their report has no cubin, or one that NVIDIA's reader cannot read."""
    textless = sum(not one.sass for one in profile.instructions)
    if not textless:
        return ""
    count = "no instruction has" if textless == len(profile.instructions) else f"{textless:,} instructions have no"
    return f"{count} SASS in the report: profile with ncu --import-sass yes, or pip install --upgrade ncu-report"


def _lines(profile: Profile) -> str:
    """Say that no source line is known, unless it is a library's kernel, of which none can be."""
    library = bool(profile.kernel.family) and not profile.sources
    if library or not profile.instructions or any(one.stack for one in profile.instructions):
        return ""
    return "no instruction has a source line: compile with -lineinfo"
