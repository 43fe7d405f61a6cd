"""The gate's settings: ``[check]`` of ncu-swizzle.toml, or ``[tool.ncu-swizzle.check]`` of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import BadFile, UsageError
from ncu_swizzle.files import read_toml
from ncu_swizzle.gate import policy
from ncu_swizzle.gate.policy import LIMITS, Rule

OWN, PROJECT = "ncu-swizzle.toml", "pyproject.toml"
HELP = "docs/ci.md describes the settings"


@dataclass(frozen=True)
class Settings:
    """What a file says; `file` is None where there is none."""

    rules: tuple[Rule, ...] = ()
    baseline: Path | None = None
    allow_recorded: bool = False
    file: Path | None = None


def find(start: Path) -> Settings:
    """Read the nearest file with settings, in `start` or a folder above it; empty settings where there is none."""
    for folder in (start, *start.parents):
        for name in (OWN, PROJECT):
            if (folder / name).is_file() and (settings := _settings(folder / name, name == OWN)):
                return settings
    return Settings()


def read(file: Path) -> Settings:
    """Read the settings that were asked for by name; raise BadFile where the file has none."""
    settings = _settings(file, file.name != PROJECT)
    if settings is None:
        raise BadFile(f"{file} has no [tool.ncu-swizzle]", HELP)
    return settings


def _settings(file: Path, own: bool) -> Settings | None:
    try:
        content: Any = read_toml(file)
    except BadFile as error:
        raise BadFile(str(error), f"{error.hint}, or --config none") from error
    if not own:
        content = _table(content.get("tool", {}), file, "[tool]").get("ncu-swizzle")
        if content is None:
            return None
    outer = "" if own else "tool.ncu-swizzle."
    _refuse_others(_table(content, file, f"[{outer.rstrip('.')}]"), ("check",), file.name)
    return _check(_table(content.get("check", {}), file, f"[{outer}check]"), file, f"{file.name} [{outer}check]")


def _check(table: Mapping[str, Any], file: Path, origin: str) -> Settings:
    _refuse_others(table, (*LIMITS, "baseline", "allow-recorded", "rule"), origin)
    baseline, allow = table.get("baseline"), table.get("allow-recorded", False)
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{origin}: baseline is {baseline!r}", 'give a file, such as "ncu-swizzle-baseline.json"')
    if not isinstance(allow, bool):
        raise UsageError(f"{origin}: allow-recorded is {allow!r}", "write true or false")
    rules = table.get("rule", [])
    if not isinstance(rules, list):
        raise UsageError(f"{origin}: rule is no list of tables", f"write [[{origin.partition('[')[2][:-1]}.rule]]")
    return Settings(
        rules=(*_limits(table, "", "", origin), *(r for n, one in enumerate(rules, 1) for r in _rule(one, n, origin))),
        baseline=file.parent / baseline if baseline else None,
        allow_recorded=allow,
        file=file,
    )


def _rule(table: Any, number: int, origin: str) -> Iterable[Rule]:
    where = f"{origin} rule {number}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table", HELP)
    _refuse_others(table, ("kernel", "access", *LIMITS), where)
    rules = _limits(table, table.get("kernel", ""), table.get("access", ""), where)
    if not rules:
        raise UsageError(f"{where} limits nothing", f"add one of {', '.join(LIMITS)}")
    return rules


def _limits(table: Mapping[str, Any], kernel: Any, access: Any, origin: str) -> list[Rule]:
    return [policy.rule(name, table[name], kernel, access, origin) for name in LIMITS if name in table]


def _table(content: Any, file: Path, name: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise UsageError(f"{file}: {name} is no table", HELP)
    return content


def _refuse_others(table: Mapping[str, Any], known: tuple[str, ...], origin: str) -> None:
    for name in table:
        if name not in known:
            raise UsageError(f"{origin}: {policy.unknown('key', name, known)}", f"known: {', '.join(known)}")
