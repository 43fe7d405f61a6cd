"""What rules found in the profiles: the pack's own findings, and those of ncu's other rules in the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncu_swizzle.base import codes
from ncu_swizzle.render import text
from ncu_swizzle.reports import model, pack
from ncu_swizzle.reports.model import Profile

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding, Table

    from ncu_swizzle.reports.comparison import Comparison


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
