"""The program that reads a .ncu-rep: the only importer of NVIDIA's ncu_report.

    python reader.py ORDER

ORDER is a JSON object: the report, which metrics count per instruction (names, and beginnings of names), which
results need no SASS, the file descriptor that takes the answer, and the limits on memory and on the answer. The
answer is a JSON list of the results, see `extract`.

It runs in a process of its own because the module is C++: it can crash on a damaged file, and the one of Nsight
Compute 2025.3 does beside pandas. It imports nothing of the project and little else: it is started for every report.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to import than a small report to read
    from collections.abc import Iterator
    from typing import Any

ENCODER = json.JSONEncoder(ensure_ascii=True)


def read(order: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all results in the report."""
    import ncu_report

    context = ncu_report.load_report(order["report"])
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [results.action_by_idx(index) for results in ranges for index in range(results.num_actions())]
    known = set(order["known_sass"])
    return [extract(action, order, number not in known) for number, action in enumerate(actions)]


def extract(action: Any, order: dict[str, Any], sass: bool = True) -> dict[str, Any]:
    """Return a result as plain data: names, metrics, and what is known per instruction, in order of address.

    Without `sass` the texts of the instructions are left out: the first one takes NVIDIA's disassembler half a second.
    """
    names = action.metric_names()
    metrics = {name: action.metric_by_name(name) for name in names}
    counts = {name: _per_pc(metrics[name]) for name in names if _is_per_instruction(name, order)}
    pcs = sorted(set().union(*counts.values()))
    return {
        "name": action.name(),
        "mangled": action.name(action.NameBase_MANGLED),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "workload": _workload(action),
        "metrics": {name: [metric.value(), metric.unit()] for name, metric in metrics.items() if metric.has_value()},
        "pcs": pcs,
        "sass": [action.sass_by_pc(pc) for pc in pcs] if sass else None,
        "locations": [_location(action, pc) for pc in pcs],
        "counts": {name: [values.get(pc) for pc in pcs] for name, values in counts.items()},
        "files": {name: text for name, text in dict(action.source_files()).items() if text},
        "findings": list(_findings(action)),
    }


def _workload(action: Any) -> str:
    kinds = {"RANGE": "range", "GRAPH": "graph", "CMDLIST": "command list"}
    known = {getattr(action, f"WorkloadType_{name}", None): kind for name, kind in kinds.items()}
    return known.get(action.workload_type() if hasattr(action, "workload_type") else None, "kernel")


def _is_per_instruction(name: str, order: dict[str, Any]) -> bool:
    return name in order["counts"] or (name.startswith(order["stalls"]) and not name.endswith("_not_issued"))


def _per_pc(metric: Any) -> dict[int, int]:
    if not metric.has_correlation_ids():
        return {}
    address, count = metric.correlation_ids().as_uint64, metric.as_uint64
    return {address(k): count(k) for k in range(metric.num_instances())}


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


def _limit(memory: int, answer: int) -> None:
    """Cap what a hostile report can make the module take: memory, what is written, and no core file of it."""
    import resource

    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, answer),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    order = json.loads(sys.argv[1])
    _limit(order["memory_bytes"], order["answer_bytes"])
    text = ENCODER.encode(read(order))
    with os.fdopen(order["answer"], "w", encoding="ascii") as answer:
        answer.write(text)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the module takes a tenth of a second to tidy up, for nothing
