"""The program that runs NVIDIA's ncu_report to look up what cannot be read from a report's bytes. Its only importer.

    python ncu_report_process.py FD

FD is an open file with the request, a JSON object, which the answer then replaces. The request has the report, the
metrics whose units are wanted, the results whose code is wanted with the addresses of its instructions, and the limits
on memory and on the answer; see `read` for the answer.

It is a separate process because the module is C++: it can crash on a damaged file, and that of Nsight Compute 2025.3
crashes next to pandas. It imports nothing from the project and little else.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes longer to import than a small report to read
    from typing import Any

ENCODER = json.JSONEncoder(ensure_ascii=True)


def read(order: dict[str, Any]) -> dict[str, Any]:
    """Return the number of readable results, the units by metric, and the code of each requested result.

    Code is, for each instruction, its SASS, and its file and line or null.
    """
    import ncu_report

    context = ncu_report.load_report(order["report"])
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [results.action_by_idx(index) for results in ranges for index in range(results.num_actions())]
    return {
        "results": len(actions),
        "units": _units(actions, set(order["units"])),
        "code": [[_line(actions[number], pc) for pc in pcs] for number, pcs in order["code"] if number < len(actions)],
    }


def _units(actions: list[Any], wanted: set[str]) -> dict[str, str]:
    units: dict[str, str] = {}
    for action in actions:
        for name in wanted.intersection(action.metric_names()) - units.keys():
            units[name] = action.metric_by_name(name).unit() or ""
    return units


def _line(action: Any, pc: int) -> tuple[str, tuple[str, int] | None]:
    source = action.source_info(pc)
    return action.sass_by_pc(pc), (source.file_name(), source.line()) if source else None


def _limit(memory: int, answer: int) -> None:
    """Limit what a hostile report can make the module use: memory and output; disable core files."""
    import resource

    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, answer),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    with os.fdopen(int(sys.argv[1]), "r+", encoding="ascii") as both_ways:
        order = json.load(both_ways)
        _limit(order["memory_bytes"], order["answer_bytes"])
        text = ENCODER.encode(read(order))
        both_ways.seek(0)
        both_ways.truncate()
        both_ways.write(text)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # skip the module's cleanup, which takes a tenth of a second
