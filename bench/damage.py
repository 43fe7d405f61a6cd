"""What happens with 2,000 damaged files: ``python3 bench/damage.py``.

They are copies of real reports, facts, saved profiles, baselines, run.json and TOML files, truncated, altered and
spliced by a seeded generator (tests/corpus.py). Prints a table and exits with code 1 if a file made the program crash
or hang, or was read as if it were intact.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tables import ROOT, head, row

sys.path.insert(0, str(ROOT))

from tests.support import corpus


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", choices=["", *(kind.name for kind in corpus.KINDS)], help="one kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    start = time.monotonic()
    tally: Counter[tuple[str, str, str]] = Counter()
    violations = 0
    numbers = range(arguments.workers)
    shares = [(arguments.count, arguments.seed, arguments.only, n, arguments.workers) for n in numbers]
    with ProcessPoolExecutor(arguments.workers) as pool:
        for share in pool.map(work, shares):
            for kind, damage, outcome, message in share:
                tally[kind, damage, outcome] += 1
                if outcome in corpus.VIOLATIONS:
                    violations += 1
                    print(f"{outcome}: {kind}, {damage}: {message}", file=sys.stderr)
    print(table(tally))
    print(
        f"\n{arguments.count} files, seed {arguments.seed}, {time.monotonic() - start:.0f} s: {violations} violations"
    )
    return 1 if violations else 0


def work(share: tuple[int, int, str, int, int]) -> list[tuple[str, str, str, str]]:
    """Attempt one worker's share of the cases; return kind, damage, outcome and message of each."""
    count, seed, only, mine, workers = share
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for case in corpus.cases(count, seed, only):
            if case.number % workers == mine:
                outcome = corpus.attempt(case, Path(folder))
                message = f"case {case.number}, from {case.source}: {outcome.said}"
                results.append((case.kind.name, case.damage, outcome.what, message))
    return results


def table(tally: Counter[tuple[str, str, str]]) -> str:
    """Return a row per kind of file, a column per kind of damage: refused / read."""
    kinds = [kind.name for kind in corpus.KINDS if any(key[0] == kind.name for key in tally)]
    lines = [head("refused / read", *corpus.DAMAGES, "violations")]
    for kind in kinds:
        cells = [f"{tally[kind, d, corpus.REFUSED]} / {tally[kind, d, corpus.READ]}" for d in corpus.DAMAGES]
        bad = sum(tally[kind, damage, what] for damage in corpus.DAMAGES for what in corpus.VIOLATIONS)
        lines.append(row(kind, *cells, bad))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
