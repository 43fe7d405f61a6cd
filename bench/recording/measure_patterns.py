"""Measure what ncu counts for copies with zeros or guards and for compare-and-swap loops, on a GPU.

``python3 bench/recording/measure_patterns.py FOLDER`` writes FOLDER/patterns.cu, compiles it and, if ncu is there,
records FOLDER/patterns.ncu-rep. ``… FOLDER --collect FILE.csv.gz`` writes that report's measurements as rows of the
form of tests/data, and needs nvdisasm but no GPU. One instruction is one pattern: the k-th copy or atomic of a kernel
is row k of its table. Every kernel runs as one warp or several, once per mask in MASKS; the lanes outside of it have
exited.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.engines import reader

LANE = np.arange(32)
MASKS = (0xFFFFFFFF, 0x0000FFFF, 0x7FFFFFFF, 0xA5C3F01E)
METRICS = "memory_l1_wavefronts_shared,memory_l1_wavefronts_shared_ideal,inst_executed"
GUARDS = 6  # predicates alive at a time
SHARED = 48 << 10  # bytes
WARPS = 8
HEAD = """\
#include <cstdint>
struct Row { std::uint16_t shared[32], source[32], flag[32]; };  // offsets in words
static __device__ unsigned address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
"""
COPY = 'asm volatile("{{.reg .pred p; setp.ne.u32 p, %2, 0; cp.async.{kind}.shared.global [%0], [%1], {width}, p;}}"'
ZFILL = 'asm volatile("cp.async.{kind}.shared.global [%0], [%1], {width}, %2;"'
OPERANDS = '::"r"(s + 4 * r.shared[lane]), "l"(g + r.source[lane]), "r"(unsigned(r.flag[lane])));'


@dataclass(frozen=True)
class Pattern:
    """One instruction: byte offsets in shared memory, of the source, and what its third operand is, by lane."""

    shared: np.ndarray
    source: np.ndarray
    flag: np.ndarray


@dataclass(frozen=True)
class Measurement:
    """A kernel: its patterns in order, the C++ of one, and the SASS by which its instructions are found."""

    name: str
    sass: str
    width: int
    body: str
    patterns: list[Pattern]
    warps: int = 1  # each in its own part of shared memory


def measurements() -> list[Measurement]:
    rng = np.random.default_rng(17)
    copies = [("cg", 16), ("ca", 16), ("ca", 8), ("ca", 4)]
    made = [
        Measurement(
            f"ignore_{kind}_{width}",
            "LDGSTS",
            width,
            COPY.format(kind=kind, width=width) + OPERANDS,
            ignored(width, rng),
        )
        for kind, width in copies
    ]
    made += [
        Measurement(
            f"zfill_{kind}_{width}", "LDGSTS", width, ZFILL.format(kind=kind, width=width) + OPERANDS, sized(width, rng)
        )
        for kind, width in copies
    ]
    made += [
        Measurement(f"guard{'_not' * negated}_{kind}", "LDGSTS", 16, guarded(kind, negated), masked(rng))
        for kind in ("cg", "ca")
        for negated in (False, True)
    ]
    atomics = {
        "cast_f32": (4, "atomicAdd(reinterpret_cast<float *>(p), 1.0f);"),
        "cast_f64": (8, "atomicAdd(reinterpret_cast<double *>(p), 1.0);"),
        "cast_u64": (8, "atomicAdd(reinterpret_cast<unsigned long long *>(p), 5ULL);"),
        "cas_u64": (8, "sum += atomicCAS(reinterpret_cast<unsigned long long *>(p), sum, 5ULL);"),
        "exch_u64": (8, "sum += atomicExch(reinterpret_cast<unsigned long long *>(p), 5ULL);"),
    }
    made += [
        Measurement(name, "ATOMS", width, f"char *p = memory + 4 * r.shared[lane]; {call}", distinct(width, rng))
        for name, (width, call) in atomics.items()
    ]
    for name in ("cast_f32", "cast_f64"):
        width, call = atomics[name]
        place = f"char *p = memory + {SHARED // WARPS} * (threadIdx.x / 32) + 4 * r.shared[lane]; {call}"
        patterns = distinct(width, rng, SHARED // WARPS)
        made.append(Measurement(f"{name}_warps", "ATOMS", width, place, patterns, WARPS))
    return made


def guarded(kind: str, negated: bool) -> str:
    """Return the C++ of GUARDS copies at once, each guarded by a predicate of its own."""
    which, declared = range(GUARDS), ", ".join(f"p{k}" for k in range(GUARDS))
    text = f"{{.reg .pred {declared};"
    text += "".join(f" setp.ne.u32 p{k}, %{3 * k + 2}, 0;" for k in which)
    bang = "!" if negated else ""
    text += "".join(f" @{bang}p{k} cp.async.{kind}.shared.global [%{3 * k}], [%{3 * k + 1}], 16;" for k in which)
    rows = [f"t[{GUARDS} * i + {k}]" for k in which]
    given = (f'"r"(s + 4 * {r}.shared[lane]), "l"(g + {r}.source[lane]), "r"(unsigned({r}.flag[lane]))' for r in rows)
    return f'asm volatile("{text}}}" :: {", ".join(given)});'


# ---------------------------------------------------------------------------------------------- patterns


def ignored(width: int, rng: np.random.Generator) -> list[Pattern]:
    """Return patterns of which some lanes write zeros: the tail, the head, every other lane, random ones."""
    flags = [k <= LANE for k in (0, 1, 2, 4, 7, 8, 9, 16, 17, 24, 31, 32)]
    flags += [k > LANE for k in (1, 8, 9, 16)] + [LANE % 2 == 0, LANE % 2 == 1, LANE // 2 % 2 == 1, LANE // 8 % 2 == 1]
    flags += [rng.random(32) < part for part in np.linspace(0.1, 0.9, 24)]
    return [
        Pattern(shared, source, flag.astype(int))
        for flag in flags
        for shared, source in ((rows(width, rng), rows(width, rng)) for _ in range(3))
    ] + [Pattern(width * LANE, width * LANE, flag.astype(int)) for flag in flags]


def sized(width: int, rng: np.random.Generator) -> list[Pattern]:
    """Return patterns of which lanes read fewer bytes than they write."""
    sizes = [np.full(32, k) for k in range(0, width + 1)] + [rng.integers(0, width + 1, 32) for _ in range(24)]
    return [
        Pattern(shared, source, size)
        for size in sizes
        for shared, source in ((width * LANE, width * LANE), (rows(width, rng), rows(width, rng)))
    ]


def masked(rng: np.random.Generator) -> list[Pattern]:
    flags = [np.ones(32, bool), np.zeros(32, bool), LANE < 16, LANE % 2 == 0, LANE >= 8]
    flags += [rng.random(32) < part for part in np.linspace(0.1, 0.9, 7)]
    kinds = [(16 * LANE, 16 * LANE), (rows(16, rng), rows(16, rng))]
    # GUARDS copies in a row share a flag, so that every predicate meets every one.
    return [Pattern(*kind, flag.astype(int)) for flag in flags for kind in kinds for _ in range(GUARDS)]


def distinct(width: int, rng: np.random.Generator, memory: int = SHARED) -> list[Pattern]:
    """Return patterns without contention, then some in which lanes share an address."""
    words = memory // width
    lanes = [LANE * stride % words for stride in (1, 2, 3, 4, 8, 16, 32, 33)]
    lanes += [rng.permutation(most)[:32] for most in (32, 40, 64, 128, 512, words) for _ in range(6)]
    lanes += [LANE // group for group in (2, 4, 8, 32)] + [LANE % group for group in (16, 8, 2)]
    lanes += [rng.integers(0, most, 32) for most in (4, 16, 64, 256) for _ in range(4)]
    return [Pattern(width * lane, width * lane, LANE) for lane in lanes]


def rows(width: int, rng: np.random.Generator) -> np.ndarray:
    """Return byte offsets of one of the layouts that copies have: in order, permuted within lines, strided, random."""
    kind = rng.integers(5)
    if kind == 0:
        return width * (LANE ^ rng.integers(8)) + 128 * rng.integers(8)
    if kind == 1:
        return width * (LANE ^ LANE // 8)
    if kind == 2:
        return width * rng.integers(1, 20) * LANE
    if kind == 3:
        return width * rng.permutation(32)
    return width * rng.integers(0, 512, 32)


# ---------------------------------------------------------------------------------------------- the program


def kernel(m: Measurement) -> str:
    count = len(m.patterns) // (GUARDS if m.name.startswith("guard") else 1)
    return f"""
extern "C" __global__ void {m.name}(const Row *t, const unsigned *g, unsigned mask, unsigned long long *out) {{
    __shared__ alignas(1024) char memory[{SHARED}];
    const int lane = threadIdx.x % 32;
    if (!(mask >> lane & 1)) return;
    const unsigned s = address(memory);
    unsigned long long sum = 0;
#pragma unroll
    for (int i = 0; i < {count}; ++i) {{
        const Row &r = t[i];
        {m.body}
    }}
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    out[lane] = sum + s + memory[lane] + (g == nullptr) + (t == nullptr);
}}
"""


def table(m: Measurement) -> str:
    lines = []
    for pattern in m.patterns:
        parts = [pattern.shared // 4, pattern.source // 4, pattern.flag]
        lines.append("{" + ", ".join("{" + ", ".join(map(str, part)) + "}" for part in parts) + "}")
    return f"static const Row {m.name}_rows[] = {{\n" + ",\n".join(lines) + "};\n"


def program(every: list[Measurement]) -> str:
    launches = "".join(
        f"""
    cudaMemcpy(t, {m.name}_rows, sizeof({m.name}_rows), cudaMemcpyHostToDevice);
    for (unsigned mask : masks) {m.name}<<<1, {32 * m.warps}>>>(t, g, mask, out);"""
        for m in every
    )
    main = f"""
int main() {{
    const unsigned masks[] = {{{", ".join(map(hex, MASKS))}}};
    Row *t; unsigned *g; unsigned long long *out;
    cudaMalloc(&t, 1 << 20); cudaMalloc(&g, 1 << 20); cudaMalloc(&out, 256);
    cudaMemset(g, 0, 1 << 20);{launches}
    return cudaDeviceSynchronize() != cudaSuccess;
}}
"""
    return HEAD + "".join(kernel(m) + table(m) for m in every) + main


def record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "patterns.cu").write_text(program(measurements()))
    subprocess.run(["nvcc", "-arch=sm_90", "-lineinfo", "-o", "patterns", "patterns.cu"], cwd=folder, check=True)
    if ncu := shutil.which("ncu"):
        options = ["--metrics", METRICS, "--export", "patterns.ncu-rep", "--force-overwrite"]
        subprocess.run([ncu, *options, "./patterns"], cwd=folder, check=True)


# ---------------------------------------------------------------------------------------------- the report


def collected(report: Path) -> Iterator[list[object]]:
    """Yield a row per measured instruction."""
    every = {m.name: m for m in measurements()}
    seen: dict[str, int] = {}
    for profile in reader.read(report):
        m = every[profile.kernel.name]
        number = seen[m.name] = seen.get(m.name, -1) + 1
        found = [one for one in profile.instructions if m.sass in one.sass]
        assert len(found) == len(m.patterns), (m.name, len(found), len(m.patterns))
        for one, p in zip(found, m.patterns, strict=True):
            lanes = (" ".join(map(str, part)) for part in (p.shared, p.source, p.flag))
            yield [m.name, m.width, f"{MASKS[number]:08x}", *lanes, one.sass, one.executed, one.wavefronts, one.ideal]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--collect", type=Path, metavar="FILE.csv.gz")
    arguments = parser.parse_args()
    if not arguments.collect:
        record(arguments.folder)
        return
    head = "measurement width_bytes active_mask lane_addresses source_addresses flags sass executed wavefronts ideal"
    with gzip.open(arguments.collect, "wt", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head.split())
        writer.writerows(collected(arguments.folder / "patterns.ncu-rep"))


if __name__ == "__main__":
    main()
