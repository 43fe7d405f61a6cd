"""The verdict on profiles side by side, in one sentence, and the warnings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.cubin import demangled
from ncu_swizzle.reports import model, sanity
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED

# The ncu command that collects what a report lacks, derived from the command that produced the report.
#
# A report stores ncu's command line with its words joined by spaces: quoting is lost, so the program's part is repeated
# verbatim.


SECTION = "SwizzleConflicts"
UNKNOWN_PROGRAM = "PROGRAM"
MOST_MANGLED = 120  # characters; longer names do not belong on a command line


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ncu options without a value.
FLAGS = _options(
    "-f --force-overwrite --nvtx --null-stdin --call-stack --csv --quiet --verbose --open-in-ui --details-all "
    "--print-fp --print-rule-details --disable-profiler-start-stop --lockstep-kernel-launch "
    "--section-folder-restore --list-sections --list-sets --list-metrics --list-rules --query-metrics --list-chips "
    "-h --help -v --version"
)
# Options that say how the program runs and where ncu looks; the others select metrics and kernels.
KEPT = _options(
    "--profile-from-start --target-processes --target-processes-filter --replay-mode --app-replay-match "
    "--app-replay-mode --clock-control --cache-control --devices --nvtx --nvtx-include --nvtx-exclude --range-filter "
    "--disable-profiler-start-stop --null-stdin --config-file --config-file-path --preload-library --kill "
    "--check-exit-code --source-folders"
)
# With these, a launch's occurrence in the report differs from its occurrence in the program.
SKIPPING = _options("-s --launch-skip --launch-skip-before-match --kernel-id --filter-mode")
CHOOSING = _options("-k --kernel-name --kernel-name-base -c --launch-count") | SKIPPING


@dataclass(frozen=True)
class Session:
    """An ncu command line: its options with their values, and the program with its arguments."""

    options: tuple[tuple[str, ...], ...] = ()
    program: str = ""


def split_command(command: str) -> Session:
    """Split a command line as stored in a report; empty if it is not one of ncu's."""
    words = [(word.group(), word.start()) for word in re.finditer(r"\S+", command)]
    options: list[tuple[str, ...]] = []
    position = 1
    while position < len(words):
        word, start = words[position]
        if word == "--":
            return Session(tuple(options), command[start + 2 :].strip())
        if not word.startswith("-"):
            return Session(tuple(options), command[start:].strip())
        name, equals, value = word.partition("=")
        position += 1
        if equals:
            options.append((name, value))
        elif name in FLAGS or position == len(words):
            options.append((name,))
        else:
            options.append((name, words[position][0]))
            position += 1
    return Session(tuple(options))


def command(profile: Profile) -> str:
    """Return the command that collects every metric for this very launch, with its program if known."""
    session, launch, kernel = split_command(profile.command), profile.launch, profile.kernel
    if launch.workload != "kernel":  # the kernels of a range or graph are not known
        return _command(session, KEPT, [])
    if kernel.mangled and len(kernel.mangled) <= MOST_MANGLED:
        chosen = ["--kernel-name-base", "mangled", "--kernel-name", kernel.mangled]
    else:
        chosen = ["--kernel-name", demangled.function(kernel.function) or kernel.name]
    countable = launch.occurrence and not SKIPPING & {option[0] for option in session.options}
    skipped = ["--launch-skip", str(launch.occurrence)] if countable else []
    return _command(session, KEPT, [*chosen, *skipped, "--launch-count", "1"])


def command_for_all(profile: Profile) -> str:
    """Return the command that collects every metric for all kernels of the profile's report."""
    return _command(split_command(profile.command), KEPT | CHOOSING, [])


def _command(session: Session, kept: frozenset[str], chosen: list[str]) -> str:
    words = ["ncu", "--section-folder", str(paths.rules()), "--section", SECTION]
    for name, *values in session.options:
        # Range replay would profile the program's ranges, not this kernel.
        if name in kept and not (name == "--replay-mode" and "range" in "".join(values)):
            words += [name, *values]
    words += [*chosen, "--import-source", "yes", "--export", "complete"]
    return f"{shlex.join(words)} -- {session.program or UNKNOWN_PROGRAM}"


# The verdict, in one sentence.


Named = Sequence[tuple[str, Profile]]
UNCHECKED = "output not checked, as an emulated run follows addresses and not data"
MICROSECONDS = 1e5  # ns: shorter durations are shown in microseconds


def speedup(profiles: Sequence[Profile]) -> float | None:
    """Return the first duration over the second; None if either is unknown."""
    if len(profiles) < 2 or not profiles[0].duration_ns or not profiles[1].duration_ns:
        return None
    return profiles[0].duration_ns / profiles[1].duration_ns


def best(profiles: Sequence[Profile]) -> int:
    """Return the index of the profile to hold against the first: the fastest, else the one with the least excess.

    Launches of another problem and library kernels do not compete. If nothing does, it is the second profile.
    """
    first = profiles[0]
    rivals = [n for n, p in enumerate(profiles) if n and not p.library and p.problem == first.problem]
    times = [(profiles[n].duration_ns, n) for n in rivals]
    excess = [(profiles[n].total.excessive, n) for n in rivals]
    for costs in (times, excess):
        known = [(cost, n) for cost, n in costs if cost is not None]
        if known and len(known) == len(rivals):
            return min(known)[1]
    return min(1, len(profiles) - 1)


def verdict(named: Named, counts: bool = True) -> str:
    """Return what happened to the excessive wavefronts and the time, from the first profile to the best.

    Without `counts`, it names no counts and times, for a page that shows them in a picture next to it.
    """
    if len(named) == 1:
        return f"{_waste(*named[0], counts)}."
    number = best([profile for _, profile in named])
    (label, before), (rival, after) = named[0], named[number]
    was, now = before.total.excessive, after.total.excessive
    pace = _pace(before, after)
    if pace and counts:
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
    """Return what became of the excessive wavefronts, with their numbers or in words."""
    if not now:
        return f"removes all {f'{was:,} ' * counts}excessive wavefronts of {before}"
    if was == now:
        same = f"has the same number of excessive wavefronts as {before}: {now:,}"
        return same if counts else f"has as many excessive wavefronts as {before}"
    if was > now:
        part = f"{was - now:,} of the {was:,}" if counts else f"{100 * (was - now) / was:.1f} % of the"
        return f"removes {part} excessive wavefronts of {before}"
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
    if any(profile.engine == EMULATED and profile.accesses for profile in profiles):
        return "not all wavefronts could be computed"
    missing = sorted({name for profile in profiles for name in profile.missing})
    return f"{', '.join(missing)} not in the report" if missing else "no shared-memory access was counted"


def _pace(before: Profile, after: Profile) -> str:
    """Return how fast the second is, and where that is recorded if the counts are not; empty if a time is unknown."""
    ratio = speedup((before, after))
    if not ratio:
        return ""
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
    if unchecked := [label for label, profile in named if profile.engine == EMULATED]:
        warnings.append(f"{', '.join(unchecked)}: {UNCHECKED}.")
    for label, profile in named:
        if profile.missing:
            workload = profile.launch.workload
            why = "" if workload == "kernel" else f" (ncu has no per-instruction counts for a {workload})"
            warnings.append(f"{label} lacks {', '.join(profile.missing)}{why}. Collect it with: {command(profile)}")
        warnings += [f"{label}: {doubt}." for doubt in sanity.doubts(profile)]
    return warnings
