"""The program that asks NVIDIA's ncu_report, of which it is the only importer, what a report does not say itself.

    python reader.py FD

FD is an open file: it holds the order, a JSON object, and takes the answer in its place. The order names the report,
the metrics whose units are wanted, the results whose code is wanted with the addresses of its instructions, and the
limits on memory and on the answer; see `read` for the answer.

It runs in a process of its own because the module is C++: it can crash on a damaged file, and the one of Nsight
Compute 2025.3 does beside pandas. It imports nothing of the project and little else.
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
    """Return how many results can be read, the units by metric, and the code of each result asked for.

    Of each instruction that is the text of its SASS, and file and line, or null.
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
    os._exit(0)  # the module takes a tenth of a second to tidy up, for nothing
