"""The summary of a comparison, and what rules found in its profiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from ncu_swizzle.base import codes
from ncu_swizzle.base.texts import in_crosses, in_words, without_last_ones
from ncu_swizzle.render import text
from ncu_swizzle.reports import model, pack, pairing
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.memory import MemoryLine, everything
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED, RECORDED
from ncu_swizzle.reports.remarks import speedup
from ncu_swizzle.reports.side_by_side import SHARED_PIPE

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding, Table


# What rules found in the profiles: the pack's own findings, and those of ncu's other rules in the report.

KINDS = {"optimization": "optimization", "ok": "info", "warning": "warning"}
# ncu-ui links in rule messages: to an instruction, a source line, a section, or a web page.
LINK = re.compile(r"@(?:sass:\d+|source:[^@]*:\d+|section:[^@:]*):([^@]*)@")
WEB = re.compile(r"@url:([^@:]*):([^@\s]*)@")

address = codes.web  # of a code's page: those who read a report cannot open this machine's files


def groups(comparison: Comparison) -> list[tuple[str, Sequence[Finding]]]:
    """Return the pack's findings for each profile that has any, by label."""
    return [(label, told) for label, told in pack.launch_findings(comparison) if told]


def foreign(comparison: Comparison) -> list[tuple[str, model.Finding]]:
    """Return the findings of other rules, by label; the pack's own are evaluated again by `groups`."""
    return [
        (label, finding)
        for label, profile in comparison.named
        for finding in profile.findings
        if not pack.is_ours(finding.rule) and finding.rule not in model.RULES  # which is among the warnings
    ]


def gains(profile: Profile) -> list[Finding]:
    """Return the optimizations and warnings: every finding but the merely informative ones."""
    return [finding for finding in pack.findings(profile) if finding.kind != "ok"]


def summary(findings: Sequence[Finding]) -> str:
    """Return how many findings are optimizations, and how many are not."""
    optimizations = sum(finding.kind == "optimization" for finding in findings)
    others = len(findings) - optimizations
    if not optimizations:
        return "nothing to optimize"
    return f"{optimizations} optimization{'s' * (optimizations > 1)}, {others} other finding{'s' * (others != 1)}"


def meaning(code: str) -> str:
    """Return what a code means, in a sentence."""
    return codes.CATALOGUE[code].meaning


def interval(finding: Finding) -> str:
    """Return the interval of the estimated saving, a share of the duration; empty if the rule estimates none."""
    return "" if finding.saving is None else f"{text.percent(finding.low)} to {text.percent(finding.high)}"


def plain(message: str) -> str:
    """Return a rule's message with its links as plain words, web addresses in parentheses."""
    return WEB.sub(r"\1 (\2)", LINK.sub(r"\1", message))


def of_words(table: Table) -> list[bool]:
    """Return whether each column of a finding's table is text."""
    return [all(isinstance(row[column], str) for row in table.rows) for column in range(len(table.heads))]


def cell(value: str | int | float) -> str:
    """Return a cell of a finding's table."""
    if isinstance(value, str):
        return plain(value)
    return text.count(value) if isinstance(value, int) else text.fixed(value, 2)


# Rows of many profiles and of many launches, as every output shows them; bars are drawn by the templates.


# All profiles at a glance: the page's first picture, and one row per profile if there are more than two.

FEWEST = 3  # with fewer, the picture has it all
MOST_BARS = 8  # profiles in the picture; if there are more, only those in the verdict


@dataclass(frozen=True, kw_only=True)
class OverviewRow:
    """One profile; `pace` is its speed relative to the first, `memory` are all its accesses to global memory."""

    profile: Profile
    memory: MemoryLine
    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A row per profile; those in the picture, and the largest values of all, which bars are relative to."""

    rows: tuple[OverviewRow, ...]
    drawn: tuple[OverviewRow, ...]
    wavefronts: int
    slowest: float  # ns

    @property
    def timed(self) -> bool:
        return any(row.duration != text.UNKNOWN for row in self.drawn)

    @property
    def sectors(self) -> int:
        """The most sectors of global memory of any profile; 0 if not counted."""
        return max((row.memory.total.sectors or 0 for row in self.drawn), default=0)


def glance(comparison: Comparison) -> Glance:
    """Return the rows of a comparison."""
    durations = [profile.duration_ns for profile in comparison.profiles]
    unit = text.time_unit(durations)
    rows = tuple(
        OverviewRow(
            profile=profile,
            memory=everything(profile),
            label=label,
            excessive=text.summed(profile.total, "excessive"),
            degree=text.degree(profile.total.degree),
            duration=text.duration_text(profile.duration_ns, unit),
            pace=text.pace(durations[0], profile.duration_ns),
            pipe=text.percent(profile.number(SHARED_PIPE)),
        )
        for label, profile in comparison.named
    )
    return Glance(
        rows=rows,
        drawn=rows if len(rows) <= MOST_BARS else tuple(rows[number] for number in comparison.judged),
        wavefronts=max((profile.total.known.wavefronts or 0 for profile in comparison.profiles), default=0),
        slowest=max((ns or 0.0 for ns in durations), default=0.0),
    )


def overview(comparison: Comparison) -> tuple[OverviewRow, ...]:
    """Return one row per profile; none for one or two profiles."""
    return glance(comparison).rows if len(comparison.profiles) >= FEWEST else ()


# The table of many launches.

ARROW = " → "


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One launch, or a pair of launches: values that differ read "before → after"; bars are those of the `last`.

    `number` is the launch's number in its report.
    """

    last: Profile
    number: str
    name: str
    grid: str
    block: str
    duration: str
    excessive: str
    degree: str
    pace: str
    note: str


def rows(comparisons: Sequence[Comparison]) -> tuple[KernelRow, ...]:
    """Return one row per comparison, in order."""
    unit = text.time_unit(p.duration_ns for comparison in comparisons for p in comparison.profiles)
    return tuple(_row(comparison, unit) for comparison in comparisons)


def _row(comparison: Comparison, unit: text.TimeUnit) -> KernelRow:
    pair = comparison.profiles[:2]
    workload, label = comparison.profiles[-1].launch.workload, comparison.labels[0]
    notes = [workload] if workload != "kernel" else []
    if len(comparison.profiles) == 1 and comparison.title not in ("", label):
        notes.append(f"only in {label}")
    return KernelRow(
        last=pair[-1],
        number=_changed([str(p.launch.index) for p in pair]),
        name=comparison.title or comparison.labels[-1],
        grid=_changed([_short_dimensions(p.grid) for p in pair]),
        block=_changed([_short_dimensions(p.block) for p in pair]),
        duration=ARROW.join(text.duration_text(p.duration_ns, unit) for p in pair),
        excessive=ARROW.join(text.count(pairing.excess(p)) for p in pair),
        degree=ARROW.join(text.degree(p.total.degree) if p.total.ideal else "-" for p in pair),
        pace=f"{comparison.speedup:.2f}×" if comparison.speedup else "",
        note=", ".join(notes),
    )


def _changed(values: Sequence[str]) -> str:
    """Return the value before and after; equal ones once."""
    return ARROW.join(dict.fromkeys(values))


def _short_dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as 128x8, without trailing ones; "unknown" if any size is 0."""
    if not all(sizes):
        return text.UNKNOWN
    return in_crosses(without_last_ones(sizes))


ENGINES = {
    "ncu": "ncu (measured)",
    RECORDED: "recorded (measured earlier on real hardware)",
    EMULATED: "emulated (computed, not measured)",
}

MOST_NAMED = 6  # profiles in one sentence


class Figure(NamedTuple):
    """One key figure: its value, and the value before if there are two profiles."""

    title: str
    before: str
    after: str
    note: str


class Fact(NamedTuple):
    """One fact about every profile; `values` has one text per profile, or one if they all agree."""

    title: str
    values: tuple[str, ...]
    code: bool


def figures(comparison: Comparison) -> list[Figure]:
    """Return the figures to read first, of the first profile and the best: wavefronts and, if measured, times."""
    pair = [comparison.profiles[number] for number in comparison.judged]

    def figure(title: str, show: Callable[[Profile], str], note: str) -> Figure:
        *before, after = map(show, pair)
        return Figure(title, "".join(before), after, note)

    counted = [
        figure("Excessive wavefronts", lambda p: text.count(p.total.excessive), "0: no bank conflicts"),
        figure("Degree", lambda p: text.degree(p.total.degree), "wavefronts, actual over ideal"),
    ]
    if any(profile.origin.computed and profile.duration_ns is None for profile in pair):
        return [
            *counted,
            figure("Shared wavefronts", lambda p: text.count(p.total.wavefronts), "times were not measured"),
            figure("Ideal wavefronts", lambda p: text.count(p.total.ideal), "as few as the accesses can take"),
        ]
    source = ["recorded"] if any(profile.beside for profile in pair) else []  # and the wavefronts computed
    unit = text.time_unit(profile.duration_ns for profile in pair)
    times = [text.duration_text(profile.duration_ns, unit) for profile in pair]
    if len(pair) == 1:
        timed = Figure("Duration", "", times[0], "".join(source))
    else:
        ratio = text.finite(speedup(pair))
        shown = text.UNKNOWN if ratio is None else f"{ratio:.2f}×"
        timed = Figure("Speedup", "", shown, ", ".join([" → ".join(times), *source]))
    used = ", ".join(["utilization, share of peak", *source])
    return [*counted, timed, figure("Shared pipe", lambda p: text.percent(p.number(SHARED_PIPE)), used)]


def state(comparison: Comparison) -> str:
    """Describe briefly whether the figures were measured, recorded, computed, or some of each."""
    origins = [profile.origin for profile in comparison.profiles]
    if any(origin.computed for origin in origins):
        beside = any(profile.beside for profile in comparison.profiles)
        return "Wavefronts computed, times recorded" if beside else "Computed, not measured"
    recorded = [origin.recorded for origin in origins]
    if not any(recorded):
        return "Measured"
    return "Recorded, not measured now" if all(recorded) else "Some recorded, not measured now"


def setting(comparison: Comparison) -> str:
    """Return a short line of what all profiles share: the GPU, the problem, and the day."""
    gets: tuple[Callable[[Profile], str], ...] = (
        lambda p: p.machine.gpu or _gpu(p),
        lambda p: in_words(p.problem),
        lambda p: _when(p)[:10],
    )
    values = [{get(profile) for profile in comparison.profiles if get(profile)} for get in gets]
    return " · ".join(next(iter(value)) for value in values if len(value) == 1)


def recorded(comparison: Comparison) -> tuple[str, ...]:
    """Return what was recorded earlier, one text per GPU and day: "kernel1 and kernel2 on H100, 2026-11-21"."""
    runs: dict[tuple[str, str], list[str]] = {}
    for label, profile in comparison.named:
        if profile.origin.recorded:
            day = profile.when[:10] or "date unknown"
            runs.setdefault((profile.machine.gpu or "an unknown GPU", day), []).append(label)
    return tuple(f"{_few(labels)} on {gpu}, {day}" for (gpu, day), labels in runs.items())


def computed(comparison: Comparison) -> tuple[str, ...]:
    """Return what was computed, one text per architecture: "kernel1 and kernel2 for sm_90".

    If other metrics come from a recording, the text adds "times, stalls and other metrics recorded on …".
    """
    kinds: dict[tuple[str, str], list[str]] = {}
    for label, profile in comparison.named:
        if profile.origin.computed:
            kinds.setdefault((_arch(profile), profile.beside), []).append(label)
    return tuple(
        f"{_few(labels)} for {arch or 'an unknown architecture'}"
        + (f"; times, stalls and other metrics {beside}" * bool(beside))
        for (arch, beside), labels in kinds.items()
    )


def _few(labels: list[str]) -> str:
    """List the labels; if there are many, the first few and how many more."""
    more = len(labels) - MOST_NAMED
    return text.in_a_list([*labels[:MOST_NAMED], f"{more} more"] if more > 1 else labels)


def facts(comparison: Comparison) -> tuple[Fact, ...]:
    """Return each profile's provenance; values that all profiles share appear once."""
    values = {title: [get(p) or text.UNKNOWN for p in comparison.profiles] for title, get, _ in _FACTS}
    return tuple(
        Fact(title, tuple(values[title][:1] if len(set(values[title])) == 1 else values[title]), code)
        for title, _, code in _FACTS
    )


def conditions(comparison: Comparison) -> str:
    """Return a line of what all profiles share: GPU, versions, clocks, problem."""
    shared = (fact for fact in facts(comparison) if fact.title in _CONDITIONS and len(fact.values) == 1)
    return " · ".join(f"{fact.title} {fact.values[0]}" for fact in shared if fact.values[0] != text.UNKNOWN)


def _gpu(profile: Profile) -> str:
    machine = profile.machine
    if profile.origin.computed:
        return f"none: computed for {_arch(profile) or text.UNKNOWN}"
    more = [_arch(profile)] if machine.compute_capability else []
    more += [f"{machine.sm_count} SMs"] if machine.sm_count else []
    return f"{machine.gpu or text.UNKNOWN} ({', '.join(more)})" if more else machine.gpu


def _arch(profile: Profile) -> str:
    capability = profile.machine.compute_capability
    return f"sm_{capability.replace('.', '')}" if capability else ""


def _engine(profile: Profile) -> str:
    name = ENGINES.get(profile.engine, profile.engine)
    return f"{name}; times, stalls and other metrics {profile.beside}" if profile.beside else name


def _when(profile: Profile) -> str:
    try:
        moment = datetime.fromisoformat(profile.when)
    except ValueError:
        return profile.when
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M:%S UTC")


def _checked(profile: Profile) -> str:
    return "; ".join(map(str, profile.checked)) or ", ".join(starmap(_error, profile.errors.items()))


def _error(output: str, error: object) -> str:
    number = text.finite(error)
    shown = text.UNKNOWN if number is None else f"{number:.2e}".replace("e-", f"e{text.MINUS}")
    return f"{output} {shown}"


_CONDITIONS = frozenset({"GPU", "Driver", "CUDA", "Nsight Compute", "Clock control", "Problem"})
_FACTS: tuple[tuple[str, Callable[[Profile], str], bool], ...] = (
    ("Kernel", lambda p: f"{p.kernel.name}: {p.kernel.title}" if p.kernel.title else p.kernel.name, False),
    ("Problem", lambda p: in_words(p.problem), False),
    ("Grid, block", lambda p: f"{text.dimensions(p.grid)}, {text.dimensions(p.block)}", False),
    ("Engine", _engine, False),
    ("GPU", _gpu, False),
    ("Driver", lambda p: p.machine.driver, False),
    ("CUDA", lambda p: p.machine.cuda, False),
    ("Nsight Compute", lambda p: p.machine.ncu, False),
    ("Clock control", lambda p: p.machine.clock_control, False),
    ("When", _when, False),
    ("Commit", lambda p: p.commit, True),
    ("Relative error", lambda p: _checked(p) or "not checked", False),
    ("Report file", lambda p: p.report, True),
    ("Report SHA-256, first 16 digits", lambda p: p.report_sha256[:16], True),
)
