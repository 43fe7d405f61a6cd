"""Measure what wgmma reads through a descriptor and where TMA puts a box.

``python3 bench/oracles/tile_reads.py FOLDER``.

FOLDER gets `reading.csv` (a row a descriptor: the 16-byte chunk of shared memory that each chunk of the operand comes
from) and `boxes.csv` (a row a box: the element at the start of each chunk, `.` where nothing was written).

"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import subprocess
import tempfile
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).resolve().parent / "hopper" / "reading.cu"
NVCC = ("nvcc", "-gencode=arch=compute_90a,code=sm_90a")
OFFSETS = (0, 16, 32, 64, 128, 144, 256, 272, 512, 1024, 1040, 2048, 4096, 8192)
STARTS = (0, 0, 0, 16, 32, 48, 64, 96, 112, 128, 144, 256, 384, 512, 640, 896, 1024, 1040, 2176)
SPANS = (16, 128, 64, 32)  # by the descriptor's mode
COUNT = {"A": 900, "B": 500}
ROWS = {"A": 64, "B": 128}
BOXES = ((4, 64), (8, 64), (16, 48), (32, 24), (12, 40), (24, 24))  # words of 4 bytes, rows
BOX_STARTS = (0, 128, 256, 384, 512, 640, 896, 1024)
REFUSED, HANGS, NOTHING = 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF  # what reading.cu writes in place of a box

Fields = tuple[int, int, int, int, int]  # mode, leading, stride, start, base offset


def descriptors(side: str, choose: random.Random) -> list[Fields]:
    """Return descriptors that fit and that do not, then random ones."""
    found: dict[Fields, None] = {}
    for mode, span in enumerate(SPANS):
        for leading, stride in itertools.product((16, 128, 512, 1024, 8192), (128, 256, 512, 1024)):
            found[mode, leading, stride, 0, 0] = None
        for start in sorted(set(STARTS)):
            found[mode, 2048, 8 * span, start, 0] = None
            for base in range(1, 8) if start in (0, 128, 256, 512, 640) else ():
                found[mode, 2048, 8 * span, start, base] = None
    while len(found) < COUNT[side]:
        leading, stride = choose.choice(OFFSETS), choose.choice(OFFSETS)
        start, base = choose.choice(STARTS), choose.choice((0, 0, 0, *range(1, 8)))
        found[choose.randrange(4), leading, stride, start, base] = None
    return list(found)


def read(program: Path, side: str, transposed: int, todo: list[Fields]) -> list[str]:
    """Return for each descriptor the chunks that it reads."""
    bits = [at >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | base << 49 | mode << 62 for mode, lbo, sbo, at, base in todo]
    text = "\n".join(map(str, bits)).encode()
    done = subprocess.run([program, side, str(transposed)], input=text, capture_output=True, check=True)
    data = np.frombuffer(done.stdout, np.uint32).reshape(len(todo), ROWS[side], 16).astype(np.int64)
    found = []
    for operand in data:
        chunks = (operand.T if transposed else operand).reshape(-1, 8)
        if (chunks != chunks[:, :1] + 2 * np.arange(8)).any() or (chunks[:, 0] % 16).any():
            raise SystemExit("a chunk of 16 bytes was divided")
        found.append(" ".join(map(str, (chunks[:, 0] // 16).tolist())))
    return found


def boxes(program: Path) -> list[list[object]]:
    """Return a row for each box."""
    todo = [(mode, *box, start) for mode, box, start in itertools.product(range(4), BOXES, BOX_STARTS)]
    text = "\n".join(" ".join(map(str, box)) for box in todo).encode()
    done = subprocess.run([program, "T"], input=text, capture_output=True, check=True)
    rows: list[list[object]] = []
    for box, words in zip(todo, np.frombuffer(done.stdout, np.uint32).reshape(-1, 4096), strict=True):
        result = {REFUSED: "refused", HANGS: "hang"}.get(int(words[0]), "placed")
        first = ("." if word >= HANGS else str(word) for word in words[::4].tolist())
        rows.append([*box, result, " ".join(first).rstrip(" .") if result == "placed" else ""])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    choose = random.Random(7)
    with tempfile.TemporaryDirectory() as built:
        program = Path(built) / "reading"
        subprocess.run([*NVCC, "-o", str(program), str(PROGRAM)], check=True)
        with (arguments.folder / "reading.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["side", "mn", "mode", "leading", "stride", "start", "base_offset", "chunks"])
            for side, transposed in itertools.product("AB", (0, 1)):
                todo = descriptors(side, choose)
                for fields, chunks in zip(todo, read(program, side, transposed, todo), strict=True):
                    rows.writerow([side, transposed, *fields, chunks])
        with (arguments.folder / "boxes.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["swizzle", "columns", "rows", "start", "result", "words"])
            rows.writerows(boxes(program))


if __name__ == "__main__":
    main()
