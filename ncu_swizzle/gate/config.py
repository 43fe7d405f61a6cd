"""The gate's settings: ``[check]`` of ncu-swizzle.toml, or ``[tool.ncu-swizzle.check]`` of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog import project
from ncu_swizzle.catalog.project import Project
from ncu_swizzle.errors import UsageError
from ncu_swizzle.gate import policy
from ncu_swizzle.gate.policy import LIMITS, Rule

HELP = "docs/ci.md describes the settings"


@dataclass(frozen=True)
class GateSettings:
    """The settings of one file; `file` is None if there is none."""

    rules: tuple[Rule, ...] = ()
    baseline: Path | None = None
    allow_recorded: bool = False
    file: Path | None = None


def find(start: Path, trust: bool = False) -> GateSettings:
    """Read the nearest settings file, in `start` or a folder above it; return empty settings if there is none."""
    nearest = project.find(start, trust)
    return _settings(nearest) if nearest else GateSettings()


def read(file: Path, trust: bool = False) -> GateSettings:
    """Read the settings of the named file; raise BadFile if it has none."""
    return _settings(project.read(file, trust))


def _settings(settings: Project) -> GateSettings:
    return _checked(settings.table("check"), settings, f"{settings.file.name} [{settings.outer}check]")


def _checked(table: Mapping[str, Any], settings: Project, origin: str) -> GateSettings:
    project.refuse_others(table, (*LIMITS, "baseline", "allow-recorded", "rule"), origin)
    baseline, allow = table.get("baseline"), table.get("allow-recorded", False)
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{origin}: baseline is {baseline!r}", 'give a file, for example "ncu-swizzle-baseline.json"')
    if not isinstance(allow, bool):
        raise UsageError(f"{origin}: allow-recorded is {allow!r}", "write true or false")
    rules = table.get("rule", [])
    if not isinstance(rules, list):
        raise UsageError(f"{origin}: rule is not an array of tables", f"write [[{origin.partition('[')[2][:-1]}.rule]]")
    return GateSettings(
        rules=(
            *_limits(table, "", "", origin),
            *(r for n, entry in enumerate(rules, 1) for r in _rule(entry, n, origin)),
        ),
        baseline=settings.checkout.path(baseline, f"{origin}: baseline") if baseline else None,
        allow_recorded=allow,
        file=settings.file,
    )


def _rule(table: Any, number: int, origin: str) -> Iterable[Rule]:
    where = f"{origin} rule {number}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table", HELP)
    project.refuse_others(table, ("kernel", "access", *LIMITS), where)
    rules = _limits(table, table.get("kernel", ""), table.get("access", ""), where)
    if not rules:
        raise UsageError(f"{where} sets no limit", f"add one of {', '.join(LIMITS)}")
    return rules


def _limits(table: Mapping[str, Any], kernel: Any, access: Any, origin: str) -> list[Rule]:
    return [policy.rule(name, table[name], kernel, access, origin) for name in LIMITS if name in table]
