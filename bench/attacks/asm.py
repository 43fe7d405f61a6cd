"""``prove`` against asm: ``python3 bench/attacks/asm.py [--jobs N] [--list FILE]``.

Each line of asm_statements.txt accesses a tile, or sees where it is, in one of the many ways that PTX has. In the new
version the statement alone has another address. Each line of asm_pairs.txt has two statements, which give `a` other
values, or do something else. So every proof is wrong; the exit code is then 1. In the operands, %0 is an address in the
tile (32 bits), %1 a number, %2 a place of the thread's own in the output, %3 what %0 is in 64 bits. Each is a kernel;
some of them are compiled together. Takes a minute of CPU.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.certify.changes import Side, compare_sides
from ncu_swizzle.certify.units import Checking, KnownLaunch
from ncu_swizzle.certify.verdict import KernelVerdict, ProofOutcome
from ncu_swizzle.kernels.halves import TranslationUnit

FOLDER = Path(__file__).parent
STATEMENTS = [
    line
    for name in ("asm_statements.txt", "asm_pairs.txt")
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()
]
SOURCE = r"""
extern "C" __global__ void NAME(unsigned *out) {
    __shared__ alignas(16) unsigned tile[32 * 32 + 8];
    const int c = threadIdx.x, r = threadIdx.y;
    tile[r * 32 + c] = 7 * r + c;
    __syncthreads();
    const int unit = r * 32 / UNITS + (COLUMN);
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + 4 * UNITS * unit;
    const unsigned long long wide = at;
    asm volatile("STATEMENT" ::"r"(at), "r"(NUMBER), "l"(out + 4 * (r * 32 + c)), "l"(wide) : "memory");
    __syncthreads();
    out[5000 + r * 32 + c] = tile[c * 32 + r];
}
"""
WIDE = ("v2", "v4", "16", "matrix", "b64", "bulk")  # what takes more than a word at a time
BROKEN = "does not compile, or fails"
TOGETHER = 17  # statements that are compiled at once


def _kernel(name: str, text: str, column: str) -> str:
    units, column = ("4", f"({column}) % 8") if any(word in text for word in WIDE) else ("1", column)
    number = "2654435761u * (2 * r + c)" if text.endswith("st.global.u32 [%2], a; }") else "2 * r + c"
    names = {"UNITS": units, "COLUMN": column, "NUMBER": number, "STATEMENT": text, "NAME": name}
    return re.sub("|".join(names), lambda found: names[found[0]], SOURCE)


def _versions(name: str, text: str) -> tuple[str, str]:
    """Return both versions of a statement's kernel."""
    before, _, after = text.partition(" => ")
    if not after:
        return _kernel(name, text, "c"), _kernel(name, text, "c ^ r")
    old, new = (f"{{ .reg .b32 a; {each} st.global.u32 [%2], a; }}" for each in (before, after))
    return _kernel(name, old, "c"), _kernel(name, new, "c")


def _side(text: str, folder: Path) -> Side:
    folder.mkdir()
    source = folder / "k.cu"
    source.write_text(text, "utf-8")
    unit = TranslationUnit(source=source, options=("-std=c++17",))
    return Side(unit=unit, launches=(KnownLaunch(block=(32, 32, 1)),))


def judged(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the outcome for each statement, and why."""
    with tempfile.TemporaryDirectory(prefix="asm-") as folder:
        both = zip(*(_versions(f"k{n}", text) for n, text in enumerate(texts)), strict=True)
        sides = [_side("".join(each), Path(folder, str(n))) for n, each in enumerate(both)]
        (unit,) = compare_sides(sides[0], sides[1], Checking(cached=False)).units
    found = {kernel.kernel: kernel for kernel in unit.kernels}
    return [_said(found.get(f"k{n}"), unit.obstacle) for n in range(len(texts))]


def _said(kernel: KernelVerdict | None, obstacle: str) -> tuple[str, str]:
    if kernel is None or obstacle:
        return BROKEN, obstacle.partition("\n")[0]
    said = kernel.counterexample or kernel.obstacle
    return kernel.outcome.value, str(getattr(said, "what", "") or getattr(said, "reason", ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", type=Path, help="a line for each statement")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        groups = [STATEMENTS[at : at + TOGETHER] for at in range(0, len(STATEMENTS), TOGETHER)]
        found = list(zip(STATEMENTS, (each for group in pool.map(judged, groups) for each in group), strict=True))
    lines = [f"{outcome}: {text}: {why}" for text, (outcome, why) in found]
    if given.list:
        given.list.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = Counter(outcome for _, (outcome, _) in found)
    bad = [line for line in lines if line.startswith((ProofOutcome.PROVED.value, BROKEN))]
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"{len(found)} statements: " + ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
