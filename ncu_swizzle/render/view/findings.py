"""What the rule pack says of each profile, and what other rules of ncu said inside the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.pack import bridge
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding, Table

UNFOLDED = 2  # profiles whose findings are open at first
KINDS = {"optimization": "to gain", "ok": "to know", "warning": "not known"}
# Links as rules write them for ncu-ui: to an instruction, a source line, a section, or a web page.
LINK = re.compile(r"@(?:sass:\d+|source:[^@]*:\d+|section:[^@:]*):([^@]*)@")
WEB = re.compile(r"@url:([^@:]*):([^@\s]*)@")


@dataclass(frozen=True)
class Grid:
    """A table of a finding: numbers as texts; `words` says which columns are words."""

    title: str
    heads: tuple[str, ...]
    words: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Card:
    """One finding. `saving` and `interval` are of the duration, empty where the rule does not estimate."""

    rule: str
    kind: str
    title: str
    message: str
    saving: str
    interval: str
    tables: tuple[Grid, ...]


@dataclass(frozen=True)
class Group:
    """All findings of one profile."""

    label: str
    summary: str
    cards: tuple[Card, ...]
    open: bool


@dataclass(frozen=True)
class Foreign:
    """What a rule that is not of the pack said inside ncu."""

    label: str
    rule: str
    kind: str
    title: str
    message: str


def groups(comparison: Comparison) -> tuple[Group, ...]:
    """Return the pack's findings of each profile of which it says anything."""
    found = [
        (label, bridge.findings(profile)) for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
    ]
    return tuple(
        Group(label, _summary(findings), tuple(card(finding) for finding in findings), number < UNFOLDED)
        for number, (label, findings) in enumerate(found)
        if findings
    )


def foreign(comparison: Comparison) -> tuple[Foreign, ...]:
    """Return what other rules said; the pack's own, if it ran inside ncu, are the groups already."""
    return tuple(
        Foreign(label, finding.rule, KINDS.get(finding.kind, finding.kind), finding.title, plain(finding.message))
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
        for finding in profile.findings
        if not bridge.is_ours(finding.rule)
    )


def gains(profile: Profile) -> tuple[Card, ...]:
    """Return the findings of which something is to be gained, or that say what is not known."""
    return tuple(card(finding) for finding in bridge.findings(profile) if finding.kind != "ok")


def plain(message: str) -> str:
    """Return a rule's message with the words of its links, and the addresses of web pages behind them."""
    return WEB.sub(r"\1 (\2)", LINK.sub(r"\1", message))


def card(finding: Finding) -> Card:
    """Return a finding as texts."""
    estimated = finding.saving is not None
    return Card(
        rule=finding.rule,
        kind=KINDS[finding.kind],
        title=finding.title,
        message=finding.message,
        saving=text.percent(finding.saving) if estimated else "",
        interval=f"{text.percent(finding.low)} to {text.percent(finding.high)}" if estimated else "",
        tables=tuple(_grid(table) for table in finding.tables),
    )


def _summary(findings: Sequence[Finding]) -> str:
    gains_ = sum(finding.kind == "optimization" for finding in findings)
    return f"{gains_} to gain, {len(findings) - gains_} to know" if gains_ else "nothing to gain"


def _grid(table: Table) -> Grid:
    words = tuple(all(isinstance(row[column], str) for row in table.rows) for column in range(len(table.heads)))
    return Grid(table.title, table.heads, words, tuple(tuple(map(_cell, row)) for row in table.rows))


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return plain(value)
    return text.count(value) if isinstance(value, int) else text.fixed(value, 2)
