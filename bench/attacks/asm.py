"""``prove`` against asm: ``python3 bench/attacks/asm.py [--jobs N] [--list FILE]``.

Each line of asm_statements.txt accesses a tile, or sees where it is, in one of the many ways that PTX has. In the new
version the statement alone has another address. Each line of asm_pairs.txt has two statements, which give `a` other
values, or do something else. So every proof is wrong; the exit code is then 1. In the operands, %0 is an address in the
tile (32 bits), %1 a number, %2 a place of the thread's own in the output, %3 what %0 is in 64 bits. Takes 6 minutes on
two cores.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.certify.changes import Side, compare_sides
from ncu_swizzle.certify.units import Checking, KnownLaunch
from ncu_swizzle.certify.verdict import ProofOutcome
from ncu_swizzle.kernels import build, halves
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec

FOLDER = Path(__file__).parent
STATEMENTS = [
    line
    for name in ("asm_statements.txt", "asm_pairs.txt")
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()
]
SOURCE = r"""
extern "C" __global__ void k(unsigned *out) {
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


def _side(text: str, column: str, folder: Path) -> Side:
    folder.mkdir()
    source = folder / "k.cu"
    units, column = ("4", f"({column}) % 8") if any(word in text for word in WIDE) else ("1", column)
    number = "2654435761u * (2 * r + c)" if text.endswith("st.global.u32 [%2], a; }") else "2 * r + c"
    names = {"UNITS": units, "COLUMN": column, "NUMBER": number, "STATEMENT": text}
    source.write_text(re.sub("|".join(names), lambda found: names[found[0]], SOURCE), "utf-8")
    spec = KernelSpec(name="k", source=source, launch=LaunchOptions(arch="sm_90a"))
    family = build.family_without_launch(spec)
    unit = halves.of_target(Target(family, family.kernels[0], {}))
    return Side(unit=unit, launches=(KnownLaunch(block=(32, 32, 1)),), entry="k")


def judged(text: str) -> tuple[str, str]:
    """Return the outcome, and why."""
    before, _, after = text.partition(" => ")
    texts = [f"{{ .reg .b32 a; {each} st.global.u32 [%2], a; }}" for each in (before, after)] if after else [text] * 2
    columns = ("c", "c") if after else ("c", "c ^ r")
    with tempfile.TemporaryDirectory(prefix="asm-") as folder:
        names = ("before", "after")
        sides = [_side(*each, Path(folder, name)) for *each, name in zip(texts, columns, names, strict=True)]
        try:
            change = compare_sides(sides[0], sides[1], Checking(cached=False))
        except NcuSwizzleError as error:
            return BROKEN, str(error).splitlines()[0]
    unit = change.units[0]
    for kernel in unit.kernels:
        said = kernel.counterexample or kernel.obstacle
        return kernel.outcome.value, getattr(said, "what", None) or getattr(said, "reason", "")
    return BROKEN, unit.obstacle.splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", type=Path, help="a line for each statement")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        found = list(zip(STATEMENTS, pool.map(judged, STATEMENTS), strict=True))
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
