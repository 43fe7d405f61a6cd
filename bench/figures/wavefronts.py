"""The accuracy and speed of `ncu_swizzle.smem.wavefronts`: ``python3 bench/figures/wavefronts.py``.

Accuracy is relative to every measurement in tests/data; docs/wavefronts.md holds that table. The times are for a
million random requests with addresses within 64 KiB.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.operations import WARP

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
REQUESTS = 1_000_000
TIMED = ("ld.shared.b32", "ld.shared.v4.b32", "st.shared.b64", "ldmatrix.x4", "atom.shared.add.u32", "cp.async.cg.16")


@dataclass(frozen=True)
class Measured:
    """All measurements of one operation: lanes and sources (N, 32) in bytes, active (N, 32), counts (N,)."""

    op: str
    addresses: np.ndarray
    active: np.ndarray
    source: np.ndarray
    actual: np.ndarray
    ideal: np.ndarray


def measurements() -> Iterator[Measured]:
    """Yield the measurements in tests/data, operation by operation."""
    rows: dict[str, list[dict[str, str]]] = {}
    for file in sorted(DATA.glob("wavefronts_h100*.csv.gz")):
        with gzip.open(file, "rt", newline="") as lines:
            for row in csv.DictReader(lines):
                rows.setdefault(row["op"], []).append(row)
    for op in operations.NAMES:
        yield _measured(op, rows.get(op, []))


def _measured(op: str, rows: list[dict[str, str]]) -> Measured:
    default = " ".join(str(16 * lane) for lane in range(WARP))
    masks = np.array([int(row["active_mask"], 16) for row in rows], np.int64)
    return Measured(
        op,
        addresses=_lanes([row["lane_addresses"] for row in rows]),
        active=(masks[:, None] >> np.arange(WARP) & 1).astype(bool),
        source=_lanes([row.get("source_addresses") or default for row in rows]),
        actual=np.array([int(row["wavefronts"]) for row in rows], np.int64),
        ideal=np.array([int(row["ideal"]) for row in rows], np.int64),
    )


def _lanes(texts: list[str]) -> np.ndarray:
    return np.array([text.split() for text in texts], np.int64).reshape(-1, WARP)


def accuracy() -> str:
    """Return the table of docs/wavefronts.md."""
    lines = [
        "| operation | measured | known | actual correct | ideal correct | worst error |",
        "|---|---|---|---|---|---|",
    ]
    for m in measurements():
        r = wavefronts(m.op, m.addresses, m.active, m.source)
        modelled = int(r.known.sum())
        error = np.maximum(abs(r.actual - m.actual), abs(r.ideal - m.ideal))[r.known]
        actual, ideal = (
            int(((computed == measured) & r.known).sum())
            for computed, measured in ((r.actual, m.actual), (r.ideal, m.ideal))
        )
        cells = [f"`{m.op}`", len(m.actual), modelled, actual, ideal, int(error.max(initial=0))]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def speed() -> str:
    """Return a table of seconds per million requests."""
    random = np.random.default_rng(0)
    lines = ["| operation | a million requests | conflict-free ones |", "|---|---|---|"]
    for op in TIMED:
        width = operations.find(op).width_bytes
        scattered = random.integers(0, 65536 // width, (REQUESTS, WARP)) * width
        clean = np.arange(WARP) * width + random.integers(0, 256, (REQUESTS, 1)) * 128
        lines.append(f"| `{op}` | {_seconds(op, scattered):.1f} s | {_seconds(op, clean):.1f} s |")
    return "\n".join(lines)


def _seconds(op: str, addresses: np.ndarray) -> float:
    start = time.perf_counter()
    wavefronts(op, addresses)
    return time.perf_counter() - start


def main() -> None:
    print(accuracy())
    print()
    print(speed())


if __name__ == "__main__":
    main()
