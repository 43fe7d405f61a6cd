"""The rule pack's findings for each profile, and those of other ncu rules in the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.render import text
from ncu_swizzle.render.tables import MetricRow, Share
from ncu_swizzle.render.tables import metrics as metric_rows
from ncu_swizzle.reports import frames, model, pack
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import TRANSFERS
from ncu_swizzle.reports.frames import Mix
from ncu_swizzle.reports.model import Profile

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding, Table


# The instruction mix of a report: what stayed the same, and what address computation costs.


RESOURCES = frozenset({
    "Registers per thread",
    "Static shared memory per block",
    "Dynamic shared memory per block",
    "Theoretical occupancy",
    "Achieved occupancy",
})  # fmt: skip
FIXED = (frames.TENSOR, frames.SHARED, frames.TMA)  # what a layout change leaves unchanged
NAMED = 2  # classes named in the sentence: those that changed most


@dataclass(frozen=True, kw_only=True)
class MixRow:
    """One instruction class: warp instructions per profile, with bars relative to the largest class."""

    name: str
    meaning: str
    shares: tuple[Share, ...]
    change: str
    delta: text.Delta


@dataclass(frozen=True, kw_only=True)
class OpcodeRow:
    """One opcode, its class and its warp instructions per profile."""

    opcode: str
    kind: str
    values: tuple[str, ...]
    change: str


@dataclass(frozen=True, kw_only=True)
class MixSection:
    """The mix by class and by opcode, and the launch's SM resources; `gaps` says which counts are lower bounds."""

    sentence: str
    gaps: tuple[str, ...]
    rows: tuple[MixRow, ...]
    total: MixRow
    opcodes: tuple[OpcodeRow, ...]
    resources: tuple[MetricRow, ...]


def section(comparison: Comparison) -> MixSection | None:
    """Return the instruction mix; None if no report has execution counts."""
    mixes = [frames.count(profile) for profile in comparison.profiles]
    if not any(mix.known for mix in mixes):
        return None
    classes = [mix.classes for mix in mixes]
    keys = sorted(
        set().union(*classes), key=lambda key: (frames.NAMES.index(key[0]), -max(c[key] for c in classes), key)
    )
    ran = [key for key in keys if any(counts[key] for counts in classes)]
    longest = max((counts[key] for counts in classes for key in ran), default=0)
    widest = max((abs(_delta(classes, key) or 0) for key in ran), default=0)
    totals = [_counted(mix.total(), mix.known, mix.uncounted.total()) for mix in mixes]
    return MixSection(
        sentence=_sentence(comparison, classes, mixes),
        gaps=_gaps(comparison, mixes),
        rows=tuple(_row(key, classes, mixes, longest, widest) for key in ran),
        total=MixRow(
            name="All", meaning="warp instructions", shares=tuple(Share(total.text, "0%") for total in totals),
            change=_change([total.exact for total in totals]), delta=text.delta(None, 0),
        ),
        opcodes=_opcodes(mixes),
        resources=tuple(row for row in metric_rows(comparison) if row.title in RESOURCES),
    )  # fmt: skip


@dataclass(frozen=True)
class _Executions:
    """A number of executions: what is known of it, and the number itself if nothing of it is unknown."""

    least: int | None
    exact: int | None

    @property
    def text(self) -> str:
        return text.counted(self.exact, self.least)


def _counted(number: int, known: bool, uncounted: int) -> _Executions:
    least = number if known else None
    return _Executions(least, None if uncounted else least)


def _gaps(comparison: Comparison, mixes: Sequence[Mix]) -> tuple[str, ...]:
    """Say for each profile how many instructions the emulator could not count."""
    return tuple(
        f"{mix.uncounted.total():,} of {len(profile.instructions):,} instructions of {label}"
        for label, profile, mix in zip(comparison.labels, comparison.profiles, mixes, strict=True)
        if mix.uncounted
    )


def _row(
    key: tuple[str, str], classes: Sequence[Counter[tuple[str, str]]], mixes: Sequence[Mix], longest: int, widest: int
) -> MixRow:
    kind, word = key
    counts = [
        _counted(counted[key], mix.known, mix.uncounted_classes[key])
        for counted, mix in zip(classes, mixes, strict=True)
    ]
    changed = [count.exact for count in counts]
    return MixRow(
        name=word or kind,
        meaning=" ".join(part for part in (kind, TRANSFERS.get(word, "")) if part) if word else _examples(key, mixes),
        shares=tuple(Share(count.text, text.width(count.least, longest)) for count in counts),
        change=_change(changed),
        delta=text.delta(_delta(classes, key) if None not in changed[:2] else None, widest),
    )


def _delta(classes: Sequence[Counter[tuple[str, str]]], key: tuple[str, str]) -> int | None:
    return classes[1][key] - classes[0][key] if len(classes) > 1 else None


def _change(counts: Sequence[int | None]) -> str:
    """Return the signed difference of the first two counts; empty if one of them is unknown, as it says itself."""
    return text.difference(counts[0], counts[1]) if None not in counts[:2] and len(counts) > 1 else ""


def _examples(key: tuple[str, str], mixes: Sequence[Mix]) -> str:
    """Return the most executed opcodes of a class in any profile."""
    most: Counter[str] = Counter()
    for mix in mixes:
        for opcode, executed in mix.opcodes.items():
            if executed and frames.key(opcode) == key:
                most[opcode] = max(most[opcode], executed)
    words = list(dict.fromkeys(".".join(opcode.split(".")[:2]) for opcode, _ in most.most_common()))
    return ", ".join(words[:4]) + (" …" if len(words) > 4 else "")


def _opcodes(mixes: Sequence[Mix]) -> tuple[OpcodeRow, ...]:
    """Return every opcode, the largest change first."""
    names = set().union(*(mix.opcodes for mix in mixes))
    pair = (mixes[0], mixes[min(1, len(mixes) - 1)])

    def order(name: str) -> tuple[int, int, str]:
        before, after = (mix.opcodes[name] for mix in pair)
        return -abs(after - before), -before, name

    rows = []
    for name in sorted(names, key=order):
        counts = [_counted(mix.opcodes[name], mix.known, mix.uncounted[name]) for mix in mixes]
        shown = tuple(count.text for count in counts)
        rows.append(
            OpcodeRow(
                opcode=name, kind=frames.classify(name), values=shown, change=_change([count.exact for count in counts])
            )
        )
    return tuple(rows)


def _sentence(comparison: Comparison, classes: Sequence[Counter[tuple[str, str]]], mixes: Sequence[Mix]) -> str:
    """Say which work stayed the same, and by how much the rest changed."""
    if len(mixes) < 2 or not all(mix.known for mix in mixes[:2]):
        return ""
    before, after = comparison.labels[:2]
    unsure = mixes[0].uncounted_classes | mixes[1].uncounted_classes
    keys = [key for key in {**classes[0], **classes[1]} if (classes[0][key] or classes[1][key]) and not unsure[key]]
    fixed = sorted(word for kind, word in keys if kind in FIXED and not _delta(classes, (kind, word)))
    moved = sorted((key for key in keys if _delta(classes, key)), key=lambda key: -abs(_delta(classes, key) or 0))
    was, now = (mix.total() for mix in mixes[:2])
    parts = [f"{before} and {after} execute the same number of {text.listed(fixed)}"] if fixed else []
    if unsure:
        return f"{parts[0]}." if parts else ""
    if was == now and not moved:
        parts.append("and of everything else" if fixed else f"{before} and {after} execute the same instructions")
        return " ".join(parts) + "."
    changes = [f"{_named(key)} {text.difference(classes[0][key], classes[1][key])}" for key in moved[:NAMED]]
    if (frames.INTEGER, "") in moved[NAMED:]:
        key = (frames.INTEGER, "")
        changes.append(f"{_named(key)} {text.difference(classes[0][key], classes[1][key])}")
    totals = f"In total, {after} executes {text.count(now)} warp instructions, {before} {text.count(was)}"
    parts.append(f"{totals} ({text.change(was, now)}): {', '.join(changes)}")
    return ". ".join(parts) + "."


def _named(key: tuple[str, str]) -> str:
    kind, word = key
    remark = " (address arithmetic)" if kind == frames.INTEGER else ""
    return (word or kind.lower()) + remark


UNFOLDED = 2  # profiles whose findings start unfolded
KINDS = {"optimization": "optimization", "ok": "info", "warning": "warning"}
# ncu-ui links in rule messages: to an instruction, a source line, a section, or a web page.
LINK = re.compile(r"@(?:sass:\d+|source:[^@]*:\d+|section:[^@:]*):([^@]*)@")
WEB = re.compile(r"@url:([^@:]*):([^@\s]*)@")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A finding's table, numbers formatted; `words` marks the text columns."""

    title: str
    heads: tuple[str, ...]
    words: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FindingCard:
    """One finding. `saving` and `interval` are shares of the duration, empty if the rule estimates none."""

    rule: str
    kind: str
    title: str
    message: str
    saving: str
    interval: str
    tables: tuple[Grid, ...]


@dataclass(frozen=True, kw_only=True)
class FindingGroup:
    """All findings of one profile."""

    label: str
    summary: str
    cards: tuple[FindingCard, ...]
    open: bool


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A finding of a rule outside the pack, run by ncu itself."""

    label: str
    rule: str
    kind: str
    title: str
    message: str


def groups(comparison: Comparison) -> tuple[FindingGroup, ...]:
    """Return the pack's findings for each profile that has any."""
    named = zip(comparison.labels, map(pack.findings, comparison.profiles), strict=True)
    return tuple(
        FindingGroup(
            label=label,
            summary=_summary(findings),
            cards=tuple(card(finding) for finding in findings),
            open=number < UNFOLDED,
        )
        for number, (label, findings) in enumerate(named)
        if findings
    )


def foreign(comparison: Comparison) -> tuple[Foreign, ...]:
    """Return the findings of other rules; the pack's own are evaluated again by `groups`."""
    return tuple(
        Foreign(
            label=label,
            rule=finding.rule,
            kind=KINDS.get(finding.kind, finding.kind),
            title=finding.title,
            message=plain(finding.message),
        )
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
        for finding in profile.findings
        if not pack.is_ours(finding.rule) and finding.rule not in model.RULES  # which is among the warnings
    )


def gains(profile: Profile) -> tuple[FindingCard, ...]:
    """Return the optimizations and warnings: every finding but the merely informative ones."""
    return tuple(card(finding) for finding in pack.findings(profile) if finding.kind != "ok")


def plain(message: str) -> str:
    """Return a rule's message with its links as plain words, web addresses in parentheses."""
    return WEB.sub(r"\1 (\2)", LINK.sub(r"\1", message))


def card(finding: Finding) -> FindingCard:
    """Return a finding ready to show."""
    estimated = finding.saving is not None
    return FindingCard(
        rule=finding.rule,
        kind=KINDS[finding.kind],
        title=finding.title,
        message=finding.message,
        saving=text.percent(finding.saving) if estimated else "",
        interval=f"{text.percent(finding.low)} to {text.percent(finding.high)}" if estimated else "",
        tables=tuple(_grid(table) for table in finding.tables),
    )


def _summary(findings: Sequence[Finding]) -> str:
    optimizations = sum(finding.kind == "optimization" for finding in findings)
    if not optimizations:
        return "nothing to optimize"
    others = len(findings) - optimizations
    return f"{optimizations} optimization{'s' * (optimizations > 1)}, {others} other finding{'s' * (others != 1)}"


def _grid(table: Table) -> Grid:
    words = tuple(all(isinstance(row[column], str) for row in table.rows) for column in range(len(table.heads)))
    return Grid(
        title=table.title, heads=table.heads, words=words, rows=tuple(tuple(map(_cell, row)) for row in table.rows)
    )


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return plain(value)
    return text.count(value) if isinstance(value, int) else text.fixed(value, 2)
