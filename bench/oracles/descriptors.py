"""Run mutated tensor maps and wgmma descriptors on this machine's H100.

``python3 bench/oracles/descriptors.py FOLDER``.

Every case is a GEMM of tests/data/emulate/tiles.cu with one field changed, or several, of a layout that is right.
FOLDER gets `descriptors.csv`: each case's fields, and whether the results were right, wrong, or none came (`hang`,
`fault`, `refused` by cuTensorMapEncodeTiled). bench/oracles/tile_reads.py measures single descriptors and boxes.

"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM, KERNELS = (
    ROOT / "bench" / "recording" / "hopper" / "mutated.cu",
    ROOT / "tests" / "data" / "emulate" / "tiles.cu",
)
NVCC = ("nvcc", "-gencode=arch=compute_90a,code=sm_90a")
SIZE, TILE, DEPTH, ELEMENT = 256, 128, 64, 2
TILE_BYTES = TILE * DEPTH * ELEMENT
SPANS = (16, 32, 64, 128)  # bytes of a row, by the tensor map's swizzle
MODES = (0, 3, 2, 1)  # the descriptor's mode, by the tensor map's swizzle
WORKERS, TIMEOUT_S = 6, 60
SEED, COUNT = 21, 700


@dataclass(frozen=True)
class MatrixMap:
    """The arguments of cuTensorMapEncodeTiled for one operand."""

    arrangement: str  # k: K is the inner dimension; m: M or N is
    dtype: int = 6
    inner: int = SIZE
    outer: int = SIZE
    stride: int = SIZE * ELEMENT
    box_inner: int = 64
    box_outer: int = 128
    step_inner: int = 1
    step_outer: int = 1
    interleave: int = 0
    swizzle: int = 3
    promotion: int = 0
    fill: int = 0
    offset: int = 0  # bytes into the buffer


@dataclass(frozen=True)
class Operand:
    """What the kernel is told of one operand: see tiles.cu."""

    boxes: int
    columns: int
    rows: int
    apart: int
    along_x: int
    start: int
    group: int
    pair: int
    further: int
    per: int
    leading: int  # of the descriptor, bytes
    stride: int
    base_offset: int
    mode: int

    def words(self) -> list[int]:
        """Return the operand as the kernel takes it."""
        low = self.leading >> 4 << 16
        high = self.stride >> 4 | self.base_offset << 17 | self.mode << 30
        return [*astuple(self)[:10], low, high]


@dataclass(frozen=True)
class Case:
    """One launch."""

    label: str
    kernel: str
    map_a: MatrixMap
    map_b: MatrixMap
    a: Operand
    b: Operand
    base: int = 0
    expected: int = 2 * TILE_BYTES

    def line(self, number: int) -> str:
        maps = [*astuple(self.map_a), *astuple(self.map_b)]
        return " ".join(
            map(str, [number, self.kernel, *maps, *self.a.words(), *self.b.words(), self.base, self.expected])
        )

    def cells(self) -> list[object]:
        parts = self.map_a, self.map_b, self.a, self.b
        return [self.label, self.kernel, *(v for part in parts for v in astuple(part)), self.base, self.expected]


def heading() -> list[str]:
    maps = [f"{side}_map_{f.name}" for side in "ab" for f in fields(MatrixMap)]
    return ["case", "kernel", *maps, *(f"{s}_{f.name}" for s in "ab" for f in fields(Operand)), "base", "expected"]


def right(swizzle: int, mn: bool, is_a: bool) -> tuple[MatrixMap, Operand]:
    """Return a layout that is right: K-major or MN-major, the tile in boxes as wide as the swizzle's span."""
    span = SPANS[swizzle]
    wide = span // ELEMENT
    if mn:
        box, count = MatrixMap("m", box_inner=wide, box_outer=DEPTH, swizzle=swizzle), TILE // wide
        apart = wide * DEPTH * ELEMENT
        leading, stride = (apart, 8 * span) if swizzle else (128, apart)
        step = 16 * span
        return box, Operand(
            count,
            wide,
            0,
            apart,
            0,
            0,
            64 // wide * apart if is_a else 0,
            step,
            2 * step,
            2,
            leading,
            stride,
            0,
            MODES[swizzle],
        )
    box, count = MatrixMap("k", box_inner=wide, box_outer=TILE, swizzle=swizzle), DEPTH // wide
    apart = wide * TILE * ELEMENT
    steps = {0: (2 * apart, 1), 1: (apart, 1), 2: (apart, 2), 3: (64, 2)}[swizzle]
    leading, stride = (apart, 128) if swizzle == 0 else (16, 8 * span)
    return box, Operand(
        count, wide, 0, apart, 1, 0, 8 * stride if is_a else 0, 32, *steps, leading, stride, 0, MODES[swizzle]
    )


def base(a: tuple[int, bool], b: tuple[int, bool], label: str = "") -> Case:
    kernel = f"{'km'[a[1]]}{'km'[b[1]]}"
    map_a, operand_a = right(*a, is_a=True)
    map_b, operand_b = right(*b, is_a=False)
    return Case(label, kernel, map_a, map_b, operand_a, operand_b)


K_MAJOR, MN_MAJOR = False, True
LAYOUTS = (  # of A and of B: the swizzle, and how it is read
    *(((swizzle, K_MAJOR), (swizzle, K_MAJOR)) for swizzle in (3, 2, 1, 0)),
    ((3, K_MAJOR), (3, MN_MAJOR)),
    ((2, MN_MAJOR), (2, MN_MAJOR)),
    ((1, K_MAJOR), (1, MN_MAJOR)),
    ((0, MN_MAJOR), (0, MN_MAJOR)),
    ((3, MN_MAJOR), (3, K_MAJOR)),
)


def _operand(of: Operand, swizzle: int) -> Iterator[tuple[str, Operand]]:
    """Yield an operand with one field changed."""
    span = SPANS[swizzle]
    yield from ((f"mode {mode}", replace(of, mode=mode)) for mode in range(4) if mode != of.mode)
    for leading in sorted({0, 16, 128, 256, 1024, 2048, 4096, 8192, of.leading * 2, of.leading // 2} - {of.leading}):
        yield f"LBO {leading}", replace(of, leading=leading // 16 * 16)
    for stride in sorted({0, 16, 128, 256, 512, 1024, 2048, of.stride * 2, of.stride // 2} - {of.stride}):
        yield f"SBO {stride}", replace(of, stride=stride)
    yield from ((f"base offset {offset}", replace(of, base_offset=offset)) for offset in (1, 2, 4, 7))
    for start in (16, 32, 64, 128, 256, 512, 1024, span * 8, 4096):
        yield f"start {start}", replace(of, start=start)
    yield from ((f"step {step}", replace(of, pair=step)) for step in (0, 16, 64, 128, 2048) if step != of.pair)
    yield from (
        (f"further {f}", replace(of, further=f))
        for f in (0, 32, 128, of.further * 2, of.further // 2)
        if f != of.further
    )
    if of.group:
        yield from ((f"group {group}", replace(of, group=group)) for group in (0, of.group // 2, of.group + 1024))


def _map(of: MatrixMap) -> Iterator[tuple[str, MatrixMap]]:
    """Yield a tensor map with one field changed."""
    yield from ((f"swizzle {swizzle}", replace(of, swizzle=swizzle)) for swizzle in range(4) if swizzle != of.swizzle)
    yield from (
        (f"inner box {n}", replace(of, box_inner=n)) for n in (of.box_inner * 2, of.box_inner // 2) if 8 <= n <= 256
    )
    yield from ((f"outer box {n}", replace(of, box_outer=n)) for n in (of.box_outer * 2, of.box_outer // 2) if n <= 256)
    yield from ((f"inner size {n}", replace(of, inner=n)) for n in (128, 192, 248))
    yield from ((f"outer size {n}", replace(of, outer=n)) for n in (128, 255, 512))
    yield from ((f"stride {n}", replace(of, stride=n)) for n in (256, 496, 528, 1024))
    yield from ((f"type {n}", replace(of, dtype=n)) for n in (0, 1, 7, 9))
    yield "element stride 2", replace(of, step_outer=2)
    yield from ((f"promotion {n}", replace(of, promotion=n)) for n in (1, 3))
    yield "fill", replace(of, fill=1)
    yield from ((f"offset {n}", replace(of, offset=n)) for n in (16, 512))
    yield "interleave 1", replace(of, interleave=1)


def _single() -> Iterator[Case]:
    """Yield every case with one field changed."""
    for number, layout in enumerate(LAYOUTS):
        first = base(*layout)
        (a, _), (b, _) = layout
        yield from (replace(first, label=f"{number} A {label}", a=o) for label, o in _operand(first.a, a))
        yield from (replace(first, label=f"{number} B {label}", b=o) for label, o in _operand(first.b, b))
        yield from (replace(first, label=f"{number} A map {label}", map_a=m) for label, m in _map(first.map_a))
        yield from (replace(first, label=f"{number} B map {label}", map_b=m) for label, m in _map(first.map_b))
        for kernel in ("kk", "km", "mk", "mm"):
            if kernel != first.kernel:
                yield replace(first, label=f"{number} read as {kernel}", kernel=kernel)


def _together() -> Iterator[Case]:
    """Yield cases in which several fields change together: many of them right."""
    for number, layout in enumerate(LAYOUTS):
        first = base(*layout)
        yield replace(first, label=f"{number} as it is")
        for shift in (128, 256, 512, 1024, 640):
            yield replace(first, label=f"{number} base {shift}", base=shift)
            offset = shift >> 7 & 7
            a, b = replace(first.a, base_offset=offset), replace(first.b, base_offset=offset)
            yield replace(first, label=f"{number} base {shift} base offset {offset}", base=shift, a=a, b=b)
        a, b = (replace(o, pair=o.further, further=o.pair, per=1) if o.per == 1 else o for o in (first.a, first.b))
        yield replace(first, label=f"{number} steps", a=a, b=b)
        for size in (16384, 65536, 2 * TILE_BYTES + 16):
            yield replace(first, label=f"{number} expected {size}", expected=size)
        # K permuted alike in both, by steps of 16: the last comes first.
        if first.a.per == first.b.per == 1:
            a, b = (replace(o, start=o.start + 3 * o.further, further=-o.further) for o in (first.a, first.b))
            yield replace(first, label=f"{number} K backwards", a=a, b=b)
            yield replace(first, label=f"{number} A's K backwards", a=a)
        if first.a.per == first.b.per == 2:
            a, b = (replace(o, start=o.start + o.pair, pair=-o.pair) for o in (first.a, first.b))
            yield replace(first, label=f"{number} K pairs swapped", a=a, b=b)
            yield replace(first, label=f"{number} A's K pairs swapped", a=a)
            yield replace(first, label=f"{number} B's K pairs swapped", b=b)
        both = replace(first.map_a, dtype=9), replace(first.map_b, dtype=1)
        yield replace(first, label=f"{number} types", map_a=both[0], map_b=both[1])


def cases(count: int) -> list[Case]:
    """Return `count` of the single mutations, drawn at random, and all others."""
    single, together = list(_single()), list(_together())
    return [*together, *random.Random(SEED).sample(single, count)]


def _run(program: Path, cubin: Path, lines: list[str]) -> dict[int, list[str]]:
    """Return what the program printed, by case; it is started again after a case that ends it."""
    results: dict[int, list[str]] = {}
    while lines:
        try:
            done = subprocess.run(
                [str(program), str(cubin)],
                input="\n".join(lines) + "\n",
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
            text, error = done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:
            text, error = (late.stdout or b"").decode(), "time limit"
        printed = [line.split() for line in text.splitlines()]
        results |= {int(words[0]): words[1:] for words in printed}
        left = [line for line in lines if int(line.split()[0]) not in results]
        if len(left) == len(lines):
            results[int(lines[0].split()[0])] = ["fault", error.strip().replace("\n", " ")[:100]]
            left = lines[1:]
        lines = left
    return results


def run(folder: Path, count: int) -> dict[int, list[str]]:
    """Compile everything in a folder, and return what the program printed, by case."""
    program, cubin = folder / "mutated", folder / "tiles.cubin"
    subprocess.run([*NVCC, "-o", str(program), str(PROGRAM)], check=True)
    subprocess.run([*NVCC, "-cubin", "-lineinfo", "-o", str(cubin), str(KERNELS)], check=True)
    lines = [case.line(number) for number, case in enumerate(cases(count))]
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(lambda first: _run(program, cubin, lines[first::WORKERS]), range(WORKERS))
        return {number: words for part in parts for number, words in part.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=COUNT, help="single mutations, drawn at random (%(default)s)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as built:
        results = run(Path(built), arguments.count)
    with (arguments.folder / "descriptors.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*heading(), "result", "details"])
        for number, case in enumerate(cases(arguments.count)):
            words = results.get(number, ["missing"])
            rows.writerow([*case.cells(), words[0], " ".join(words[1:])])


if __name__ == "__main__":
    main()
