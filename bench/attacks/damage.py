"""What happens with some 8,600 damaged and hostile files.

``python3 bench/attacks/damage.py [--write]``. Needs nvcc, no GPU.

Reports, saved profiles, baselines, manifests, facts, cubins, PTX, launches files, settings, caches and command lines,
made from real ones by a seeded generator (bench/attacks/corpus), each given to a command. Prints a row per kind, the
worst case of each, and every violation with the number that runs it again: ``--case N``. Exits with code 1 if there is
one. --write puts the table into docs/security.md.

"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.attacks.corpus import kinds, outcome, worker
from bench.attacks.corpus.attempt import LIMIT_S
from bench.figures.tables import ROOT, head, replace, row
from ncu_swizzle.kernels.toolchain import Toolchain

_WORKER: worker.Worker


@dataclass(frozen=True)
class Result:
    """A case's outcome, with what describes the case."""

    number: int
    kind: str
    damage: str
    source: str
    command: str
    outcome: outcome.Outcome


def main() -> int:
    arguments = _arguments()
    if missing := Toolchain().lacking():
        raise SystemExit(f"damage.py compiles the kernels that it damages, and {missing}: pip install -e '.[nvcc]'")
    if arguments.case is not None:
        return _again(arguments)
    start = time.monotonic()
    worker.prepare()
    results = list(_told(_run(arguments)))
    table = _table(results)
    print(f"{table}\n{len(results)} cases, seed {arguments.seed}, {time.monotonic() - start:.0f} s: ", end="")
    wrong = sum(len(result.outcome.wrong) for result in results)
    print(f"{wrong} violations")
    if arguments.write:
        replace(ROOT / "docs" / "security.md", "damage", __file__, table)
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in kinds.KINDS]
    parser.add_argument("--count", type=int, default=kinds.EVERY, help=f"cases, {kinds.EVERY} by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", choices=["", *names], help="one kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="longer is a hang; 10 by default"
    )
    parser.add_argument("--case", type=int, help="run the case of this number, with the same --seed and --only")
    parser.add_argument("--write", action="store_true", help="replace the table in docs/security.md")
    return parser.parse_args()


def _again(arguments: argparse.Namespace) -> int:
    case, result = worker.one(arguments.case, arguments.seed, arguments.only)
    print(case)
    print(f"ncu-swizzle {shlex.join(case.draft.command)[:2000]}")
    print(f"{result.what}, {result.seconds:.1f} s, {result.peak_bytes >> 20} MiB")
    for what, said in result.wrong:
        print(f"{what}: {said}")
    return 1 if result.wrong else 0


def _run(arguments: argparse.Namespace) -> Iterable[Result]:
    first = worker.Worker(limit_s=arguments.limit)
    try:
        share = [(number, arguments.seed, arguments.only) for number in range(arguments.count)]
        with multiprocessing.get_context("fork").Pool(arguments.workers, _begin, (first.warm, arguments.limit)) as pool:
            yield from pool.imap_unordered(_attempt, share, chunksize=4)
    finally:
        first.close()


def _begin(warm: Path, limit_s: float) -> None:
    global _WORKER  # noqa: PLW0603 - one per process
    _WORKER = worker.Worker(warm, limit_s)
    multiprocessing.util.Finalize(_WORKER, _WORKER.close, exitpriority=10)


def _attempt(order: tuple[int, int, str]) -> Result:
    case = kinds.case(*order)
    draft = case.draft
    done = _WORKER.outcome(case)
    return Result(case.number, case.kind, draft.damage, draft.source, shlex.join(draft.command)[:300], done)


def _told(results: Iterable[Result]) -> Iterable[Result]:
    """Print violations as they come."""
    for result in results:
        for what, said in result.outcome.wrong:
            where = f"{result.kind}, {result.damage}, from {result.source or 'nothing'}"
            print(f"{what}: case {result.number}: {where}: {ascii(result.command)[1:-1]}\n    {said}", file=sys.stderr)
        yield result


def _table(results: list[Result]) -> str:
    """Return a row per kind: how many were refused and read, the violations, the worst time and memory."""
    by_kind: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_kind[result.kind].append(result)
    lines = [head("kind", "cases", "refused", "read", "violations", "longest", "most memory")]
    for kind in (kind.name for kind in kinds.KINDS if kind.name in by_kind):
        own = by_kind[kind]
        what = Counter(result.outcome.what for result in own)
        slowest, largest = max(own, key=_seconds), max(own, key=_bytes)
        wrong = sum(len(result.outcome.wrong) for result in own)
        refused, read = what[outcome.REFUSED], what[outcome.READ]
        time, memory = f"{_seconds(slowest):.1f} s", f"{_bytes(largest) >> 20} MiB"
        worst = f"{time} (case {slowest.number})", f"{memory} (case {largest.number})"
        lines.append(row(kind, len(own), refused, read, wrong, *worst))
    return "\n".join(lines) + "\n"


def _seconds(result: Result) -> float:
    return result.outcome.seconds


def _bytes(result: Result) -> int:
    return result.outcome.peak_bytes


if __name__ == "__main__":
    sys.exit(main())
