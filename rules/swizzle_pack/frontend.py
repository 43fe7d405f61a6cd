"""Report findings to Nsight Compute; only this module imports NvRules.

NvRules' names changed over the years; what an older ncu lacks (tables, links) is skipped.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from swizzle_pack import facts as launch_facts
from swizzle_pack import rules
from swizzle_pack.facts import PIPE, Facts
from swizzle_pack.finding import OK, OPTIMIZATION, WARNING, Finding, Table


def apply(handle: Any, rule: str) -> None:
    """Evaluate one rule on the launch that ncu passes; a rule that fails becomes a finding."""
    api, frontend, facts = _open(handle)
    for finding in rules.decide(rule, facts):
        _report(api, frontend, finding)


def apply_to_counts(handle: Any, *names: str) -> None:
    """Evaluate rules on counts alone; silent if the full section was collected, because its rules report the same."""
    api, frontend, facts = _open(handle)
    if facts.number(PIPE) is None:
        for finding in (each for name in names for each in rules.decide(name, facts)):
            _report(api, frontend, finding)


def _open(handle: Any) -> tuple[Any, Any, Facts]:
    import NvRules

    context = NvRules.get_context(handle)
    return NvRules, context.frontend(), _facts(context.range_by_idx(0).action_by_idx(0))


_last: list[tuple[str, Facts]] = []  # the launch read last: ncu calls every rule with the same one


def _facts(action: Any) -> Facts:
    try:
        name, metrics = action.name(), launch_facts.numbers(action)
        if not _last or (_last[0][0], _last[0][1].metrics) != (name, metrics):
            _last[:] = [(name, Facts(metrics, launch_facts.instructions(action)))]
        return _last[0][1]
    except Exception:  # treat an unreadable action as one without metrics
        return Facts({})


def _report(api: Any, frontend: Any, finding: Finding) -> None:
    title = f"{finding.title} ({finding.code})"
    message = frontend.message(_type(api, finding.kind), finding.message, title)
    steps = [
        partial(_speedup, api, frontend, message, finding),
        partial(_focus, api, frontend, message, finding),
        partial(_markers, api, frontend, finding),
        *(partial(_table, frontend, message, table) for table in finding.tables),
    ]
    for step in steps:
        try:
            step()
        except Exception:  # keep the message; skip what this ncu cannot show
            continue


def _type(api: Any, kind: str) -> Any:
    """Return ncu's message type: MsgType.OPTIMIZATION, or IFrontend.MsgType_MSG_OPTIMIZATION in older versions."""
    name = {OK: "OK", OPTIMIZATION: "OPTIMIZATION", WARNING: "WARNING"}[kind]
    kinds = getattr(api, "MsgType", None)
    return getattr(kinds, name) if hasattr(kinds, name) else getattr(api.IFrontend, f"MsgType_MSG_{name}")


def _kind(api: Any, name: str) -> Any:
    kinds = getattr(api, "MarkerKind", None)
    return getattr(kinds, name) if hasattr(kinds, name) else getattr(api.IFrontend, f"MarkerKind_{name}")


def _speedup(api: Any, frontend: Any, message: int, finding: Finding) -> None:
    if finding.saving is not None and finding.saving > 0:
        frontend.speedup(message, api.IFrontend.SpeedupType_GLOBAL, finding.saving)


def _focus(api: Any, frontend: Any, message: int, finding: Finding) -> None:
    for focus in finding.focus:
        severity = "Severity_SEVERITY_LOW" if focus.good else "Severity_SEVERITY_HIGH"
        frontend.focus_metric(message, focus.metric, float(focus.value), getattr(api.IFrontend, severity), focus.info)


def _markers(api: Any, frontend: Any, finding: Finding) -> None:
    kind = _type(api, finding.kind)
    for marker in finding.markers:
        if marker.file:
            frontend.source_marker(marker.text, marker.line, _kind(api, "SOURCE"), marker.file, kind)
        else:
            frontend.source_marker(marker.text, marker.pc, _kind(api, "SASS"), kind)


def _table(frontend: Any, message: int, table: Table) -> None:
    if hasattr(frontend, "generate_table"):
        frontend.generate_table(message, list(table.heads), [list(row) for row in table.rows], {"title": table.title})
