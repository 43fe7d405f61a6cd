"""A second solver checks certificates.

``python3 bench/attacks/certificates.py [--sample 50]``, with ``pip install z3-solver``.

Pairs of the catalogue that differ by their layout are proved, and of each certificate a sample of the queries is given
to Z3. Prints how many it answers alike, and the time of both; the exit code is 1 if it finds a counterexample.

"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

import z3

sys.path.insert(0, str(ROOT))

import ncu_swizzle
from ncu_swizzle.certify.certificate import queries, written

PAIRS = [("transpose-plain", name) for name in ("transpose-padded", "transpose-xor", "transpose-add")] + [
    ("kernel1", "kernel2"),
    ("gemm-padded", "gemm-swizzled"),
]
TIMEOUT_MS = 60_000


def answer(script: str) -> str:
    """Return what Z3 says of a query."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.from_string(script)
    return str(solver.check())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=50, help="queries of each pair")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    answers: Counter[str] = Counter()
    print("| pair | outcome | queries | checked | unsat | CPU of the proof | of Z3 |\n|---|---|---|---|---|---|---|")
    for before, after in PAIRS:
        start = time.process_time()
        change = ncu_swizzle.prove(before, after, queries=True)
        proved_s = time.process_time() - start
        every = list(queries(written(change)))
        sample = draw.sample(every, min(given.sample, len(every)))
        start = time.process_time()
        found = Counter(answer(script) for _, script in sample)
        checked_s = time.process_time() - start
        row = (change.outcome.value, len(every), len(sample), found["unsat"], f"{proved_s:.1f} s", f"{checked_s:.1f} s")
        print(f"| {before}, {after} | {' | '.join(map(str, row))} |", flush=True)
        answers += found
    print(f"\n{sum(answers.values())} queries: {', '.join(f'{count} {word}' for word, count in answers.items())}")
    sys.exit(1 if answers["sat"] else 0)


if __name__ == "__main__":
    main()
