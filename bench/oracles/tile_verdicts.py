"""What is said of GEMMs with one thing changed, next to what they compute.

``python3 bench/oracles/tile_verdicts.py [KIND …]``.

A KIND is `wgmma`, whose launches an H100 ran (bench/oracles/descriptors.py); `tcgen05`, whose results the oracle
computes (bench/oracles/umma_oracle.py); or `stored`, tcgen05 on tiles that threads store. Every verdict that is wrong
is printed: what computes right results must not be flagged, and what computes wrong ones has to be, or, of `stored`,
must at least not be followed to its end. Takes one case in `--every N`, at equal distances; the defaults take minutes
each. Ends with 1 if a verdict is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.oracles import gemms, umma_mutations
from bench.oracles.gemms import MutatedCase
from bench.oracles.umma_cases import UmmaCase, right_cases, stored_cases

Case = MutatedCase | UmmaCase
# By kind: its cases, and how far apart those are that are taken by themselves.
KINDS: dict[str, tuple[Callable[[], Sequence[Case]], int]] = {
    "wgmma": (gemms.mutated_cases, 4),
    "tcgen05": (lambda: [*umma_mutations.mutated_cases(right_cases())], 40),
    "stored": (lambda: [*stored_cases(), *umma_mutations.mutated_cases(stored_cases())], 20),
}


def wrong(case: Case, may_end_early: bool) -> bool:
    """Return whether a case is flagged though it is right, or not flagged though it is wrong."""
    found = case.judged()
    flagged = bool(found.misfits or (may_end_early and found.lacking))
    return bool(found.misfits) if case.right else not flagged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []], help=", ".join(KINDS))
    parser.add_argument("--every", type=int, metavar="N", help="one case in so many")
    arguments = parser.parse_args()
    failed = 0
    for kind in arguments.kinds or KINDS:
        cases, apart = KINDS[kind]
        chosen = cases()[:: arguments.every or apart]
        misjudged = [case.label for case in chosen if wrong(case, kind == "stored")]
        print(*misjudged, f"{kind}: {len(chosen)} of {len(cases())} launches, {len(misjudged)} misjudged", sep="\n")
        failed += len(misjudged)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
