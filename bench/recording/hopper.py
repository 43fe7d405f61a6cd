"""Measure what wgmma reads of shared memory on this machine's H100: ``python3 bench/recording/hopper.py FOLDER``.

Writes a kernel for each shape, type and source of A with inline PTX, compiles them, launches each with many
descriptors, times every launch and counts its wavefronts under ncu. FOLDER gets `wgmma.csv` (a row a launch and HGMMA),
`cluster.csv` (the same for tests/data/emulate/cluster.cu: distributed shared memory, bulk copies, generic accesses) and
`tensor_maps.jsonl` (inputs of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col with the 128 bytes that they return).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.tables import ROOT
from bench.recording.tensor_maps import tensor_maps
from ncu_swizzle.base import paths
from ncu_swizzle.engines import machine, ncu, reader
from ncu_swizzle.engines import settings as options_

SOURCES = ROOT / "bench" / "recording" / "hopper"
CLUSTER_SOURCE = ROOT / "tests" / "data" / "emulate" / "cluster.cu"
NEUTRAL = Path("/tmp/ncu-swizzle-hopper")
METRICS = "inst_executed,memory_l1_wavefronts_shared,memory_l1_wavefronts_shared_ideal"
TIMEOUT_S = 500
REPEATS = 16  # wgmmas of a launch
SHARED = 160 * 1024
NONE, B128, B64, B32 = range(4)  # a descriptor's swizzle mode
SHOWN = frozenset(  # without counts, too
    [
        "ATOM",
        "LD",
        "REDAS",
        "ST",
        "STAS",
        "SYNCS",
        "UBLKCP",
        "UBLKPF",
        "UBLKRED",
        "UTMACCTL",
        "UTMACMDFLUSH",
        "UTMALDG",
        "UTMAPF",
        "UTMAREDG",
        "UTMASTG",
    ]
)


Row = tuple[str, int | None, int | None, int | None]  # SASS, executed, wavefronts, ideal


@dataclass(frozen=True)
class Operation:
    """One kind of wgmma: K of its shape, its PTX types, and what follows the scale predicate."""

    k: int
    types: str
    scales: str = ""  # scale-a and scale-b
    transposes: bool = False
    narrow: bool = False  # accumulators of 16 bits
    sparse: bool = False

    @property
    def integers(self) -> bool:
        return self.types.startswith(("s32", "f16"))


OPERATIONS = {
    "f16": Operation(16, "f32.f16.f16", ", 1, 1", transposes=True),
    "bf16": Operation(16, "f32.bf16.bf16", ", 1, 1", transposes=True),
    "f16acc": Operation(16, "f16.f16.f16", ", 1, 1", transposes=True, narrow=True),
    "tf32": Operation(8, "f32.tf32.tf32", ", 1, 1"),
    "e4m3": Operation(32, "f32.e4m3.e4m3", ", 1, 1"),
    "e5m2acc": Operation(32, "f16.e5m2.e4m3", ", 1, 1", narrow=True),
    "s8": Operation(32, "s32.s8.u8"),
    "b1": Operation(256, "s32.b1.b1.and.popc"),
    "f16sp": Operation(32, "f32.f16.f16", ", 1, 1", transposes=True, sparse=True),
    "e4m3sp": Operation(64, "f32.e4m3.e4m3", ", 1, 1", sparse=True),
}
WIDTHS = (8, 16, 32, 64, 96, 128, 256)
MORE_WIDTHS = (24, 40, 48, 72, 192, 224)  # of f16 alone


@dataclass(frozen=True)
class Wgmma:
    """One kernel."""

    kind: str
    n: int
    a_in_registers: bool = False
    a_mn: bool = False  # MN-major
    b_mn: bool = False
    zero: bool = False  # D = A * B, not D += A * B

    @property
    def name(self) -> str:
        flags = f"{'rs' if self.a_in_registers else 'ss'}_{'mk'[not self.a_mn]}{'nk'[not self.b_mn]}"
        return f"{self.kind}_n{self.n}_{flags}{'_zero' if self.zero else ''}"

    def source(self) -> str:
        """Return the kernel: CUDA with one wgmma in a loop."""
        operation = OPERATIONS[self.kind]
        registers = self.n // (4 if operation.narrow else 2)
        constraint, kind = ('"+r"', "uint32_t") if operation.integers else ('"+f"', "float")
        d = ", ".join(f"%{i}" for i in range(registers))
        rest = iter(range(registers, 200))
        a = "{" + ", ".join(f"%{next(rest)}" for _ in range(4)) + "}" if self.a_in_registers else f"%{next(rest)}"
        operands = [d.join("{}"), a, f"%{next(rest)}"]
        operands += [f"%{next(rest)}, 0"] if operation.sparse else []
        tail = operation.scales
        if operation.transposes:
            tail += f", {int(self.b_mn)}" if self.a_in_registers else f", {int(self.a_mn)}, {int(self.b_mn)}"
        shape = f"m64n{self.n}k{operation.k}"
        sparse = ".sp" if operation.sparse else ""
        text = f"wgmma.mma_async{sparse}.sync.aligned.{shape}.{operation.types} {', '.join(operands)}, p{tail};"
        outputs = ", ".join(f"{constraint}(d[{i}])" for i in range(registers))
        inputs = ['"r"(n)'] * 4 if self.a_in_registers else ['"l"(a)']
        inputs += ['"l"(b)'] + (['"r"(0x44444444)'] if operation.sparse else [])
        predicate = f"setp.{'ne' if self.zero else 'eq'}.u32 p, 0, 0;"
        asm = f'asm volatile("{{ .reg .pred p; {predicate} {text} }}" : {outputs} : {", ".join(inputs)});'
        return KERNEL % {"name": self.name, "kind": kind, "registers": registers, "asm": asm}


KERNEL = """
extern "C" __global__ void __launch_bounds__(128) %(name)s(uint64_t a, uint64_t b, int n, long long *buffer) {
    extern __shared__ __align__(1024) uint32_t tile[];
    %(kind)s d[%(registers)d] = {};
    for (int i = threadIdx.x; i < 160 * 256; i += 128) tile[i] = 0;
    a += (uint32_t)__cvta_generic_to_shared(tile) >> 4;
    b += (uint32_t)__cvta_generic_to_shared(tile) >> 4;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    long long start = clock64();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < n; i++) %(asm)s
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    long long clocks = clock64() - start;
    %(kind)s sum = 0;
    for (int i = 0; i < %(registers)d; i++) sum += d[i];
    if (n < 0) buffer[1 + threadIdx.x] = (long long)sum;
    if (threadIdx.x == 0) buffer[0] = clocks;
}
"""


@dataclass(frozen=True)
class Matrix:
    """A descriptor: what its fields say, in bytes from the tile's start."""

    mode: int
    leading: int
    stride: int
    start: int = 0
    base_offset: int = 0

    @property
    def bits(self) -> int:
        fields = (self.start >> 4, 0), (self.leading >> 4, 16), (self.stride >> 4, 32), (self.base_offset, 49)
        return sum(value << shift for value, shift in (*fields, (self.mode, 62)))

    def cells(self) -> list[int]:
        return [self.mode, self.leading, self.stride, self.start, self.base_offset]


def shapes() -> Iterator[tuple[Wgmma, Matrix, Matrix]]:
    """Yield every shape and type, A in shared memory and in registers, on tiles with a 128-byte swizzle."""
    fits = Matrix(B128, 16, 1024)
    for kind in OPERATIONS:
        for n in WIDTHS + (MORE_WIDTHS if kind == "f16" else ()):
            for in_registers in (False, True):
                yield Wgmma(kind, n, in_registers), fits, fits
    yield Wgmma("f16", 64, zero=True), fits, fits


LAYOUTS = (  # leading and stride byte offsets
    (128, 256), (256, 128), (1024, 128), (128, 1024), (16, 1024), (16, 512), (16, 256), (16, 128), (0, 0), (0, 1024),
    (2048, 1024), (144, 1040), (4096, 144),
)  # fmt: skip
MAJORS = tuple(itertools.product((False, True), repeat=2))


def layouts() -> Iterator[tuple[Wgmma, Matrix, Matrix]]:
    """Yield one shape with many descriptors, fitting and misfitting."""
    kernels = [Wgmma("f16", 64, False, a, b) for a, b in MAJORS] + [
        Wgmma("f16", 64, True, False, b) for b in (False, True)
    ]
    for kernel, (mode, layout) in itertools.product(kernels, itertools.product(range(4), LAYOUTS)):
        yield kernel, Matrix(mode, *layout), Matrix(mode, *layout)
    for kind, (mode, layout) in itertools.product(("tf32", "e4m3", "s8"), itertools.product(range(4), LAYOUTS[:6])):
        yield Wgmma(kind, 64), Matrix(mode, *layout), Matrix(mode, *layout)


def bases() -> Iterator[tuple[Wgmma, Matrix, Matrix]]:
    """Yield tiles that start where their swizzle does not, and base offsets."""
    for mode, start in itertools.product(range(4), (16, 32, 48, 64, 128, 256, 384, 512, 896, 1024)):
        yield Wgmma("f16", 64), Matrix(mode, 16, 1024, start), Matrix(mode, 16, 1024, 32768 + start)
    for mode, offset in itertools.product((B128, B64, B32), (1, 2, 4, 7)):
        yield Wgmma("f16", 64), Matrix(mode, 16, 1024, 128 * offset, offset), Matrix(mode, 16, 1024, 32768)


def anything() -> Iterator[tuple[Wgmma, Matrix, Matrix]]:
    """Yield random descriptors: what must be predicted."""
    choose = random.Random(17)

    def matrix() -> Matrix:
        offsets = 16 * choose.randrange(512), 16 * choose.randrange(256)
        return Matrix(choose.randrange(4), *offsets, 16 * choose.randrange(2048), choose.randrange(8))

    for _ in range(60):
        a, b = choose.choice(MAJORS)
        yield Wgmma("f16", 64, False, a, b), matrix(), matrix()


def launches() -> list[tuple[Wgmma, Matrix, Matrix]]:
    return [*shapes(), *layouts(), *bases(), *anything()]


CLUSTER = [
    *(("controls", 1, 32, stride, 0) for stride in (0, 4, 8, 16, 32, 64, 128, 132)),
    *(("distributed", 2, 32, stride, peer) for stride in (0, 4, 16, 128, 132) for peer in (0, 1)),
    ("bulk", 2, 32, 4, 0),
    ("tensors", 1, 32, 0, 0),
    ("tensors", 1, 32, 240, 252),
]  # kernel, grid, threads, a, b


def prepare() -> None:
    """Compile the program that launches, in a neutral folder."""
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    shutil.copytree(SOURCES, NEUTRAL)
    run("nvcc", "-arch=sm_90a", "-o", "launch", "launch.cu")


def compiled(kernels: list[Wgmma]) -> dict[str, str]:
    """Return each kernel's cubin; compile a source per kind."""
    prepare()
    kinds = sorted({kernel.kind for kernel in kernels})
    for kind in kinds:
        text = "".join(kernel.source() for kernel in kernels if kernel.kind == kind)
        (NEUTRAL / f"{kind}.cu").write_text("#include <cstdint>\n" + text)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda kind: run("nvcc", "-arch=sm_90a", "-cubin", "-o", f"{kind}.cubin", f"{kind}.cu"), kinds))
    return {kernel.name: f"{kernel.kind}.cubin" for kernel in kernels}


def run(*command: str, text: str = "") -> str:
    """Return what a command prints; end the program if it fails."""
    done = subprocess.run(
        command, cwd=NEUTRAL, input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def measured(name: str, lines: list[str]) -> Iterator[tuple[int, str, int, list[Row]]]:
    """Yield, for each line launched, its index, kernel, clocks, and the counts of the instructions that matter."""
    text = "\n".join(lines) + "\n"
    clocks = [line.split() for line in run("./launch", text=text).splitlines()]
    (NEUTRAL / f"{name}.txt").write_text(text)
    report = NEUTRAL / f"{name}.ncu-rep"
    options = options_.Options(launch_count=len(lines), metrics=METRICS, launches=options_.Launches())
    program = ["sh", "-c", f"./launch < {name}.txt"]
    ncu.collect(machine.find(), program, report, options, TIMEOUT_S, paths.child_environment())
    profiles = reader.read(report)
    if len(profiles) != len(lines):
        raise SystemExit(f"{len(lines)} kernels were launched, {len(profiles)} were profiled")
    for index, (profile, (kernel, cycles)) in enumerate(zip(profiles, clocks, strict=True)):
        rows = [
            (i.sass, i.executed, i.wavefronts, i.ideal)
            for i in profile.instructions
            if i.wavefronts is not None or (i.executed and i.opcode.split(".")[0] in SHOWN)
        ]
        yield index, kernel, int(cycles), rows


def wgmma(folder: Path) -> None:
    """Write wgmma.csv."""
    todo = launches()
    where = compiled(sorted({kernel for kernel, _, _ in todo}, key=lambda kernel: kernel.name))
    lines = [f"{where[kernel.name]} {kernel.name} 1 128 {SHARED} {a.bits} {b.bits} {REPEATS}" for kernel, a, b in todo]
    sides = [f"{side}_{field}" for side in "ab" for field in ("mode", "leading", "stride", "start", "base_offset")]
    with (folder / "wgmma.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["kernel", *sides, "clocks", "sass", "executed", "wavefronts", "ideal"])
        for index, kernel, clocks, counts in measured("wgmma", lines):
            _, a, b = todo[index]
            for sass, *numbers in counts:
                if "GMMA" in sass or index == 0:  # and one control: the stores that clear the tile
                    rows.writerow([kernel, *a.cells(), *b.cells(), clocks, sass, *numbers])


def cluster(folder: Path) -> None:
    """Write cluster.csv."""
    prepare()
    run("nvcc", "-arch=sm_90a", "-cubin", "-o", "cluster.cubin", str(CLUSTER_SOURCE))
    lines = [f"cluster.cubin {kernel} {grid} {threads} 0 {a} {b} 0" for kernel, grid, threads, a, b in CLUSTER]
    with (folder / "cluster.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["kernel", "a", "b", "sass", "executed", "wavefronts", "ideal"])
        for index, kernel, _, counts in measured("cluster", lines):
            rows.writerows([kernel, *CLUSTER[index][3:], *row] for row in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}; all by default")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts:
        PARTS[part](arguments.folder)


PARTS = {"maps": tensor_maps, "wgmma": wgmma, "cluster": cluster}

if __name__ == "__main__":
    main()
