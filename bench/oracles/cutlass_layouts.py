"""tcgen05's operands as CUTLASS has them, compared with ours.

``python3 bench/oracles/cutlass_layouts.py CUTLASS_FOLDER``.

Compiles bench/oracles/cutlass_layouts.cpp, which only includes the headers of a checkout of CUTLASS, with g++ and
CUDA's headers, and compares: of tiles, the address of each byte, with what the verifier (smem/descriptors.py) and the
oracle (bench/oracles/umma_oracle.py) make of the descriptor; the fields of instruction descriptors; the lanes and
columns of D, A and scale factors in tensor memory. Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.oracles import umma_oracle
from ncu_swizzle.smem.descriptors import CHUNK, UmmaDescriptor, UmmaShape
from ncu_swizzle.smem.operations import Ints

PROGRAM = ROOT / "bench" / "oracles" / "cutlass_layouts.cpp"
CUDA = Path("/usr/local/cuda/include")
LANES_OF_ONE, COLUMNS = 16, 512
# By what is compared: how many are equal, and how many are not.
Tally = Counter[tuple[str, bool]]


def printed(cutlass: Path, cuda: Path) -> bytes:
    """Return what the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "layouts"
        include = [f"-I{path}" for path in (cutlass / "include", cuda, cuda / "cccl")]
        subprocess.run(["g++", "-std=c++17", "-O0", "-w", *include, "-o", str(built), str(PROGRAM)], check=True)
        return subprocess.run([str(built)], check=True, stdout=subprocess.PIPE).stdout


def lines(output: bytes) -> Iterator[tuple[list[str], Ints]]:
    """Yield the words of each line, and of a tile the addresses, (rows, 32) or MN-major (K, bytes of M or N)."""
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        words = output[at:end].decode().split()
        at, places = end + 1, np.zeros((0, 0), np.int64)
        if words[0] == "tile":
            shape = int(words[-2]), int(words[-1])
            places = np.frombuffer(output, np.uint32, shape[0] * shape[1], at).astype(np.int64).reshape(shape)
            at += places.size * 4
        yield words, places


def judge_tile(tally: Tally, words: list[str], places: Ints) -> None:
    bits, across, rows, descriptor = int(words[0]), words[1] == "1", int(words[2]), int(words[5], 16)
    ours, wide, k = UmmaDescriptor.of_bits(descriptor), max(bits // 8, 1), 256 // max(bits, 8)
    chunks = places[:, ::CHUNK].T if across else places[:, ::CHUNK]
    whole = bool((places.reshape(len(places), -1, CHUNK) - places[:, ::CHUNK, None] == np.arange(CHUNK)).all())
    same = not ours.refused and whole and np.array_equal(ours.chunks(rows, across, k), chunks)
    tally["tiles, the verifier", same] += 1
    side = umma_oracle.Side(
        leading=ours.leading, stride=ours.stride, base_offset=ours.base_offset, layout=ours.mode, version=ours.version
    )
    theirs = umma_oracle.operand_bytes(side, ours.start, rows, across, wide)
    expected = places.reshape(k, rows, wide).transpose(1, 0, 2) if across else places.reshape(rows, k, wide)
    tally["tiles, the oracle", np.array_equal(theirs, expected)] += 1
    tally["bytes of tiles", same] += places.size


def judge_instruction(tally: Tally, words: list[str]) -> None:
    opcode, scaled, a, b, *numbers, bits = words
    d, m, n, a_mn, b_mn = map(int, numbers)
    # Scale factors of ue4m3 (bit 23) are of 16 values, four for a row.
    modifiers = (*(("2CTA",) if m == 256 else ()), *(("4X",) if not int(bits, 16) >> 23 & 1 else ()))
    shape = UmmaShape.of_bits(int(bits, 16), opcode, modifiers, scaled=scaled == "1")
    kinds = tuple(kind.replace(" ", "-") for kind in shape.types)
    same = (kinds, shape.m, shape.n, shape.d_format) == ((a, b), m, n, d)
    same = same and (shape.a_mn_major, shape.b_mn_major) == (a_mn == 1, b_mn == 1)
    fits = not shape.refused or (scaled == "1" and m == 64)  # M = 64 is none of block-scaled instructions
    tally["instruction descriptors", same and fits] += 1


def shape_of(pair: bool, m: int, n: int, *, stationary: bool = False, scaled: bool = False) -> UmmaShape:
    modifiers = (*(("2CTA",) if pair else ()), *(("WS",) if stationary else ()))
    return UmmaShape.of_bits(n // 8 << 17 | m // 16 << 24, "UTCQMMA", modifiers, scaled=scaled)


def judge_memory(tally: Tally, what: str, words: list[str]) -> None:
    """Compare lanes and columns of tensor memory; the places are those of one block, its rows fastest."""
    pair, m, n = words[0] == "1", int(words[1]), int(words[2])
    places = np.array([int(word, 16) for word in words[4:]])
    lanes, columns = places >> 16, places & 0xFFFF
    scales = what.startswith("scales")
    shape = shape_of(pair, m, n, stationary=what == "stationary", scaled=scales)
    parts, count = shape.a_lanes if what == "operand" else shape.result_lanes
    if scales:
        parts, count = tuple(range(8)), shape.scale_columns[what == "scales_b"]
    expected = {part * LANES_OF_ONE + lane for part in parts for lane in range(LANES_OF_ONE)}
    tally[f"tensor memory, {what}", {*lanes.tolist()} == expected and int(columns.max()) + 1 == count] += 1
    if what == "result":
        g: Any = SimpleNamespace(group=1 + pair, m=m, n=n, loaded=COLUMNS)
        values = np.arange(m * n).reshape(m, n)
        memory, mine = umma_oracle.spread(g, values), m >> pair
        same = all(
            np.array_equal(memory[block][lanes, columns], values[block * mine : (block + 1) * mine].T.ravel())
            for block in range(1 + pair)
        )
        tally["tensor memory, result of the oracle", same] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cutlass", type=Path, help="a checkout of CUTLASS")
    parser.add_argument("--cuda", type=Path, default=CUDA, help="the folder of CUDA's headers")
    arguments = parser.parse_args()
    tally: Tally = Counter()
    for (what, *words), places in lines(printed(arguments.cutlass, arguments.cuda)):
        before = tally.copy()
        if what == "tile":
            judge_tile(tally, words, places)
        elif what == "instruction":
            judge_instruction(tally, words)
        else:
            judge_memory(tally, what, words)
        if any(not same for _, same in tally - before):
            sys.stdout.write(f"different: {what} {' '.join(words[:10])}\n")
    for topic in dict.fromkeys(topic for topic, _ in tally):
        sys.stdout.write(f"{topic}: {tally[topic, True]:,} equal, {tally[topic, False]:,} different\n")
    return int(any(not same for _, same in tally))


if __name__ == "__main__":
    sys.exit(main())
