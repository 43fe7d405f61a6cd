"""What NVIDIA's own module reads from a report, in a process of its own: ``python nvidia_says.py REPORT…``.

Prints a JSON list of reports, each a list of results, to hold beside what we read from the same bytes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MESSAGES = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}  # NvRules.MsgType


def result(action: Any) -> dict[str, Any]:
    metrics = {name: action.metric_by_name(name) for name in action.metric_names()}
    return {
        "names": [action.name(base) for base in (0, 1, 2)],
        "metrics": {name: metric.value() for name, metric in metrics.items() if metric.has_value()},
        "units": {name: metric.unit() for name, metric in metrics.items()},
        "counts": {name: counts for name, metric in metrics.items() if (counts := per_address(metric))},
        "files": {name: text for name, text in dict(action.source_files()).items() if text},
        "findings": list(findings(action)),
    }


def per_address(metric: Any) -> dict[int, float]:
    count = metric.num_instances() if metric.has_correlation_ids() else 0
    if not count or isinstance(metric.value(0), str):
        return {}
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(k): metric.as_double(k) for k in range(count)}


def findings(action: Any) -> Any:
    for rule in action.rule_results_as_dicts():
        said = rule.get("rule_message") or []
        for one in said if isinstance(said, list) else [said]:
            if one.get("message"):
                yield [rule["rule_identifier"], MESSAGES[one["type"]], one.get("title", ""), one["message"]]


def results(report: str) -> list[dict[str, Any]]:
    import ncu_report

    context = ncu_report.load_report(report)
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    return [result(one.action_by_idx(index)) for one in ranges for index in range(one.num_actions())]


def of(reports: Sequence[Path]) -> dict[Path, list[dict[str, Any]]]:
    """Return what NVIDIA's module says of each report, asked in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *reports], capture_output=True, text=True, check=True)
    return dict(zip(reports, json.loads(done.stdout), strict=True))


if __name__ == "__main__":
    print(json.dumps([results(report) for report in sys.argv[1:]]))
    sys.stdout.flush()
    os._exit(0)
