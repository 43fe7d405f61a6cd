"""The program that reads a .ncu-rep: the only importer of NVIDIA's ncu_report.

    python -m ncu_swizzle.reader FILE

prints the results in the report as a JSON list, see `extract`. It runs in a process of its own because the module
is C++: it can crash on a damaged file, and the one of Nsight Compute 2025.3 does beside pandas.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from ncu_swizzle.profile import EXECUTED, IDEAL, STALLED, WAVEFRONTS


def read(report: str) -> list[dict[str, Any]]:
    """Return all results in the report."""
    import ncu_report

    context = ncu_report.load_report(report)
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    return [extract(results.action_by_idx(index)) for results in ranges for index in range(results.num_actions())]


def extract(action: Any) -> dict[str, Any]:
    """Return a result as plain data: names, metrics, and what is known per instruction, in order of address."""
    names = action.metric_names()
    counts = {name: _per_pc(action[name]) for name in names if _is_per_instruction(name)}
    pcs = sorted(set().union(*counts.values()))
    return {
        "name": action.name(),
        "mangled": action.name(action.NameBase_MANGLED),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "workload": _workload(action),
        "metrics": {name: [action[name].value(), action[name].unit()] for name in names if action[name].has_value()},
        "pcs": pcs,
        "sass": [action.sass_by_pc(pc) for pc in pcs],
        "locations": [_location(action, pc) for pc in pcs],
        "counts": {name: [values.get(pc) for pc in pcs] for name, values in counts.items()},
        "files": {name: text for name, text in dict(action.source_files()).items() if text},
        "findings": list(_findings(action)),
    }


def _workload(action: Any) -> str:
    kinds = {"RANGE": "range", "GRAPH": "graph", "CMDLIST": "command list"}
    known = {getattr(action, f"WorkloadType_{name}", None): kind for name, kind in kinds.items()}
    return known.get(action.workload_type() if hasattr(action, "workload_type") else None, "kernel")


def _is_per_instruction(name: str) -> bool:
    stall = name.startswith(STALLED) and not name.endswith("_not_issued")
    return stall or name in (EXECUTED, WAVEFRONTS, IDEAL)


def _per_pc(metric: Any) -> dict[int, int]:
    if not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(k): metric.as_uint64(k) for k in range(metric.num_instances())}


def _location(action: Any, pc: int) -> tuple[str, int] | None:
    source = action.source_info(pc)
    return (source.file_name(), source.line()) if source else None


def _findings(action: Any) -> Iterator[dict[str, str]]:
    for rule in action.rule_results_as_dicts():
        messages = rule.get("rule_message") or []
        for message in messages if isinstance(messages, list) else [messages]:
            yield {
                "rule": str(rule.get("rule_identifier", "")),
                "kind": str(message.get("type", "")),
                "title": str(message.get("title", "")),
                "message": str(message.get("message", "")),
            }


def main() -> None:
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever the module prints is not part of the answer
    with answer:
        json.dump(read(sys.argv[1]), answer)


if __name__ == "__main__":
    main()
