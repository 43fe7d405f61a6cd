"""From findings to Nsight Compute: the only importer of NvRules.

The names of NvRules changed over the years; what an older ncu lacks (tables, links) is left out there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from swizzle_pack import facts as known
from swizzle_pack import finding as found
from swizzle_pack import rules
from swizzle_pack.finding import Finding, Table


def apply(handle: Any, rule: str) -> None:
    """Carry out one rule for the launch that ncu hands over; never raises."""
    api, frontend, facts = _open(handle)
    for finding in rules.decide(rule, facts):
        _tell(api, frontend, finding)


def apply_to_counts(handle: Any, *names: str) -> None:
    """Carry out rules on the counts alone; silent where the whole section was collected, whose rules say the same."""
    api, frontend, facts = _open(handle)
    if facts.number(known.PIPE) is None:
        for finding in (found for name in names for found in rules.decide(name, facts)):
            _tell(api, frontend, finding)


def _open(handle: Any) -> tuple[Any, Any, known.Facts]:
    import NvRules

    context = NvRules.get_context(handle)
    return NvRules, context.frontend(), _facts(context.range_by_idx(0).action_by_idx(0))


_last: list[tuple[str, known.Facts]] = []  # of the launch read last: every rule asks for the same


def _facts(action: Any) -> known.Facts:
    try:
        name, metrics = action.name(), known.numbers(action)
        if not _last or (_last[0][0], _last[0][1].metrics) != (name, metrics):
            _last[:] = [(name, known.Facts(metrics, known.instructions(action)))]
        return _last[0][1]
    except Exception:  # an action that cannot be read says as little as one without metrics
        return known.Facts({})


def _tell(api: Any, frontend: Any, finding: Finding) -> None:
    message = frontend.message(_type(api, finding.kind), finding.message, finding.title)
    steps = [
        partial(_speedup, api, frontend, message, finding),
        partial(_focus, api, frontend, message, finding),
        partial(_markers, api, frontend, finding),
        *(partial(_table, frontend, message, table) for table in finding.tables),
    ]
    for step in steps:
        try:
            step()
        except Exception:  # the message stands; what this ncu cannot show is left out
            continue


def _type(api: Any, kind: str) -> Any:
    """Return ncu's type of message: MsgType.OPTIMIZATION, or in older versions IFrontend.MsgType_MSG_OPTIMIZATION."""
    name = {found.OK: "OK", found.OPTIMIZATION: "OPTIMIZATION", found.WARNING: "WARNING"}[kind]
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
