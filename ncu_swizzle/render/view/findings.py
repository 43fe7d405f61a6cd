"""The rule pack's findings for each profile, and those of other ncu rules in the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles import violations
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding, Table

UNFOLDED = 2  # profiles whose findings start unfolded
KINDS = {"optimization": "optimization", "ok": "info", "warning": "warning"}
# ncu-ui links in rule messages: to an instruction, a source line, a section, or a web page.
LINK = re.compile(r"@(?:sass:\d+|source:[^@]*:\d+|section:[^@:]*):([^@]*)@")
WEB = re.compile(r"@url:([^@:]*):([^@\s]*)@")


@dataclass(frozen=True)
class Grid:
    """A finding's table, numbers formatted; `words` marks the text columns."""

    title: str
    heads: tuple[str, ...]
    words: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class FindingCard:
    """One finding. `saving` and `interval` are shares of the duration, empty if the rule estimates none."""

    rule: str
    kind: str
    title: str
    message: str
    saving: str
    interval: str
    tables: tuple[Grid, ...]


@dataclass(frozen=True)
class FindingGroup:
    """All findings of one profile."""

    label: str
    summary: str
    cards: tuple[FindingCard, ...]
    open: bool


@dataclass(frozen=True)
class Foreign:
    """A finding of a rule outside the pack, run by ncu itself."""

    label: str
    rule: str
    kind: str
    title: str
    message: str


def groups(comparison: Comparison) -> tuple[FindingGroup, ...]:
    """Return the pack's findings for each profile that has any."""
    named = zip(comparison.labels, map(bridge.findings, comparison.profiles), strict=True)
    return tuple(
        FindingGroup(label, _summary(findings), tuple(card(finding) for finding in findings), number < UNFOLDED)
        for number, (label, findings) in enumerate(named)
        if findings
    )


def foreign(comparison: Comparison) -> tuple[Foreign, ...]:
    """Return the findings of other rules; the pack's own are evaluated again by `groups`."""
    return tuple(
        Foreign(label, finding.rule, KINDS.get(finding.kind, finding.kind), finding.title, plain(finding.message))
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
        for finding in profile.findings
        if not bridge.is_ours(finding.rule) and finding.rule not in violations.RULES  # which is among the warnings
    )


def gains(profile: Profile) -> tuple[FindingCard, ...]:
    """Return the optimizations and warnings: every finding but the merely informative ones."""
    return tuple(card(finding) for finding in bridge.findings(profile) if finding.kind != "ok")


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
    return Grid(table.title, table.heads, words, tuple(tuple(map(_cell, row)) for row in table.rows))


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return plain(value)
    return text.count(value) if isinstance(value, int) else text.fixed(value, 2)
