"""Random kernels, emulated and counted by ncu.

``python3 bench/figures/random_kernels.py [--seed N] [--count N] [--gpu]``.

Each seed writes a CUDA kernel that uses shared memory in ways that are easily got wrong: loops whose trip count is the
thread's, ternary indices, volatile bytes and shorts, halves, vectors, atomics, shuffles, threads that leave early, and
indices read from global and from shared memory, whose contents are known. Without ``--gpu`` every kernel is emulated
twice, with one block and one iteration standing for others and with all of them run, which must give the same counts.
With ``--gpu`` the same kernels, compiled into one program, run under ncu, and executions, wavefronts and ideal
wavefronts of every access are compared. Differences are printed with their seed, as are kernels that the emulator
refuses; the last line sums up. ``--show SEED`` prints a kernel. Ends with 1 if anything differs or fails.

"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.figures.capture import Measured, by_offset, compare_rows
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch, reader
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain

ARCH = "sm_90"
TIMEOUT_S = 60.0
INPUTS = 4096  # numbers that every kernel reads
IN, OUT = 0x7F0000000000, 0x7F0000100000
WORDS = 1024  # of each shared array in 4 bytes; a power of two, so that indices are cut by a mask
TABLE = 256  # numbers in shared memory that indices are read from
# Elements of shared arrays: how one is made from an integer, and read as one.
TYPES = {
    "unsigned char": ("(unsigned char)({})", "(int)({})"),
    "short": ("(short)({})", "(int)({})"),
    "int": ("{}", "{}"),
    "float": ("(float)({})", "(int)({})"),
    "double": ("(double)({})", "(int)({})"),
    "__half": ("__int2half_rn({})", "__half2int_rn({})"),
    "int2": ("make_int2({}, t)", "({}).x"),
    "float4": ("make_float4((float)({}), 1.f, 2.f, (float)t)", "(int)({}).w"),
}
ATOMICS = (("atomicAdd", "1"), ("atomicAdd", "t"), ("atomicMax", "t"), ("atomicXor", "t"), ("atomicExch", "t"))
VOLATILE = ("unsigned char", "short", "int", "float")
BYTES = {"unsigned char": 1, "short": 2, "__half": 2, "int2": 8, "double": 8, "float4": 16}


@dataclass(frozen=True)
class Array:
    """A shared array of the kernel."""

    name: str
    element: str
    volatile: bool

    @property
    def length(self) -> int:
        return 4 * WORDS // BYTES.get(self.element, 4)

    @property
    def declared(self) -> str:
        return f"__shared__ {'volatile ' * self.volatile}{self.element} {self.name}[{self.length}];"


@dataclass(frozen=True)
class RandomKernel:
    """A kernel's source and its launch."""

    name: str
    text: str
    grid: int
    block: int


class Writer:
    """Writes one kernel: `loops` are the counters in scope."""

    def __init__(self, seed: int) -> None:
        self.chance, self.seed = Random(seed), seed
        self.loops: list[str] = []
        self.lines: list[str] = []
        self.names = 0
        elements = self.chance.sample(sorted(TYPES), self.chance.randint(1, 3))
        self.arrays = [
            Array(f"s{number}", element, element in VOLATILE and self.chance.random() < 0.5)
            for number, element in enumerate(elements)
        ]

    def kernel(self) -> RandomKernel:
        """Return the kernel: parts that the whole block runs, with barriers in between."""
        block, grid = self.chance.choice((32, 48, 96, 128, 256)), self.chance.choice((1, 2, 5))
        for _ in range(self.chance.randint(3, 6)):
            self.part()
        if self.chance.random() < 0.5:  # nothing after it waits for the whole block
            self.add(f"if ({self.condition()}) {{ out[blockIdx.x * blockDim.x + t] = acc; return; }}")
            self.statement(0)
        name = f"random_{self.seed}"
        declared = [*(array.declared for array in self.arrays), "__shared__ int counts[1024], table[256];"]
        head = [
            "const int t = threadIdx.x, lane = t & 31, rest = blockDim.x - (t & ~31);",
            "const unsigned warp = rest < 32 ? (1u << rest) - 1 : ~0u;  // its threads",
            "int acc = t;",
            f"for (int i = t; i < {TABLE}; i += blockDim.x) table[i] = in[i * 7 + {self.chance.randrange(64)}];",
            "for (int i = t; i < 1024; i += blockDim.x) counts[i] = 0;",
            "__syncthreads();",
        ]
        body = "\n".join(f"  {line}" for line in (*declared, *head, *self.lines))
        text = (
            f'extern "C" __global__ void {name}(const int* __restrict__ in, int* out) {{\n{body}\n'
            "  out[blockIdx.x * blockDim.x + t] = acc;\n}\n"
        )
        return RandomKernel(name, text, grid, block)

    def add(self, line: str) -> None:
        self.lines.append(line)

    def part(self) -> None:
        """Add what all threads of the block run: their lanes are together, so that they may exchange."""
        kind = self.chance.random()
        if kind < 0.25:
            self.add(f"acc += __shfl_{self.chance.choice(('xor', 'down', 'up'))}_sync(warp, acc, 3);")
        elif kind < 0.4:
            counter = self.begin(f"{self.chance.randint(2, 5)}")
            self.statement(1)
            self.add("__syncthreads();")
            self.end(counter)
        for _ in range(self.chance.randint(1, 4)):
            self.statement(0)
        self.add(self.chance.choice(("__syncthreads();", "__syncthreads();", "__syncwarp();")))

    def begin(self, most: str) -> str:
        counter = f"i{self.names}"
        self.names += 1
        self.add(f"for (int {counter} = 0; {counter} < {most}; ++{counter}) {{")
        self.loops.append(counter)
        return counter

    def end(self, counter: str) -> None:
        self.loops.remove(counter)
        self.add("}")

    def statement(self, depth: int) -> None:
        """Add a statement, perhaps a loop or a branch with others in it."""
        kind = self.chance.random()
        if depth < 3 and kind < 0.15:
            trips = self.chance.choice((f"(t & {self.chance.choice((1, 3, 7))}) + 1", "lane / 5", f"({self.index(8)})"))
            self.nested(self.begin(trips), depth)
        elif depth < 3 and kind < 0.3:
            self.add(f"if ({self.condition()}) {{")
            self.statement(depth + 1)
            if self.chance.random() < 0.5:
                self.add("} else {")
                self.statement(depth + 1)
            self.add("}")
        elif kind < 0.4:
            function, value = self.chance.choice(ATOMICS)
            self.add(f"{function}(&counts[{self.index(1024)}], {value});")
        elif kind < 0.68:
            array = self.chance.choice(self.arrays)
            place, made = f"{array.name}[{self.index(array.length)}]", TYPES[array.element][0]
            self.add(f"{place} = {made.format(self.chance.choice(('t', 'acc & 63', '1', 'lane')))};")
        else:
            array = self.chance.choice(self.arrays)
            self.add(f"acc += {TYPES[array.element][1].format(f'{array.name}[{self.index(array.length)}]')};")

    def nested(self, counter: str, depth: int) -> None:
        for _ in range(self.chance.randint(1, 2)):
            self.statement(depth + 1)
        if self.chance.random() < 0.3:
            self.add(f"if ({self.condition()}) break;")
        self.end(counter)

    def condition(self) -> str:
        number = self.chance.randrange(1, 32)
        return self.chance.choice((
            f"t > {number}", f"lane < {number}", "t & 1",
            f"(t & {number}) == {number & 5}", f"(in[t] & 7) > {number & 7}",
            f"table[t & 255] & {1 << number % 10}", f"blockIdx.x * 3 > lane + {number}",
        ))  # fmt: skip

    def index(self, length: int) -> str:
        """Return an index below the length: of the thread, of counters, or from data that is known."""
        return f"({self.term(2)}) & {length - 1}"

    def term(self, depth: int) -> str:
        number = self.chance.choice((1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 33))
        plain = [
            "t", f"t * {number}", f"lane * {number} + (t >> 5)",
            f"in[(t * {number}) & 4095]", f"table[(t * {number}) & 255]",
            *(f"t + {counter} * {number}" for counter in self.loops), "blockIdx.x * 3 + t",
        ]  # fmt: skip
        if not depth or self.chance.random() < 0.4:
            return self.chance.choice(plain)
        one, other = self.term(depth - 1), self.term(depth - 1)
        return self.chance.choice((
            f"({self.condition()}) ? ({one}) : ({other})", f"({one}) ^ ({other})", f"({one}) + ({other})",
            f"({one}) ^ (({other}) >> {number % 7})", f"table[({one}) & 255]",
        ))  # fmt: skip


def given(count: int = INPUTS) -> Any:
    """Return the input numbers, which the program makes by the same formula."""
    return ((np.arange(count, dtype=np.uint64) * 2654435761 >> 7) & 0xFFFF).astype(np.int32)


def source(kernels: list[RandomKernel]) -> str:
    """Return a program of all kernels that launches each once."""
    launches = "\n".join(
        f"  cudaMemset(out, 0, 1 << 16); {each.name}<<<{each.grid}, {each.block}>>>(in, out);" for each in kernels
    )
    return (
        "#include <cuda_fp16.h>\n#include <cstdio>\n"
        + "\n".join(each.text for each in kernels)
        + f"\nint main() {{\n  static int host[{INPUTS}];\n"
        f"  for (unsigned long long i = 0; i < {INPUTS}; ++i) host[i] = (int)(((i * 2654435761ull) >> 7) & 0xffff);\n"
        "  int *in, *out; cudaMalloc(&in, sizeof host); cudaMalloc(&out, 1 << 16);\n"
        "  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);\n"
        f"{launches}\n  cudaError_t error = cudaDeviceSynchronize();\n  puts(cudaGetErrorString(error));\n"
        "  return error != cudaSuccess;\n}\n"
    )


def compiled(text: str, folder: Path, *options: str) -> bytes:
    """Compile the program, to a cubin or as asked."""
    file, out = folder / "random.cu", folder / "random.out"
    file.write_text(text, encoding="utf-8")
    nvcc = str(Toolchain().find(NVCC))
    subprocess.run([nvcc, f"-arch={ARCH}", "-w", *options, "-o", str(out), str(file)], check=True)
    return out.read_bytes()


def emulated(cubin: Cubin, text: str, kernel: RandomKernel, thorough: bool = False) -> Counts:
    """Emulate a kernel; `thorough` runs all blocks and every iteration."""
    code = emulated_launch.code(cubin, kernel.name, text)
    launch = Launch(
        grid=(kernel.grid, 1, 1),
        block=(kernel.block, 1, 1),
        parameters=np.array([IN, OUT], np.uint64).tobytes(),
        memory={IN: given().tobytes(), OUT: bytes(1 << 16)},
    )
    return emulate(code, launch, exhaustive=thorough, plain=thorough, timeout_s=TIMEOUT_S)


def counted_by_ncu(folder: Path, count: int) -> list[dict[int, list[Any]]]:
    """Run the program under ncu; return its counts, launch by launch."""
    command = [
        sys.executable,
        "-m",
        "ncu_swizzle",
        "profile",
        "-c",
        str(count),
        "-f",
        "-o",
        "ncu",
        "--",
        "./random.out",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"ncu-swizzle profile: {ended.stderr.strip()[-2000:]}")
    return [by_offset(profile) for profile in reader.read(folder / "ncu" / "report.ncu-rep")]


def counted_in_full(counts: Counts) -> dict[int, list[Any]]:
    """Return the accesses that ran, or may have, in the form of ncu's counts."""
    return {
        row.offset: [row.sass, row.executed, row.wavefronts, row.ideal]
        for row in counts.rows
        if row.access and row.executed != 0
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first kernel; the next ones follow")
    parser.add_argument("--count", type=int, default=40, help="of kernels")
    parser.add_argument("--gpu", action="store_true", help="compare with ncu's counts on this machine's GPU")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a kernel")
    arguments = parser.parse_args()
    if arguments.show is not None:
        print(Writer(arguments.show).kernel().text)
        return
    start, measured, refused = time.perf_counter(), Measured(), 0
    kernels = [Writer(seed).kernel() for seed in range(arguments.seed, arguments.seed + arguments.count)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cubin = Cubin(compiled(source(kernels), folder, "-cubin"), "random.cubin")
        text = Toolchain().disassemble(cubin.data, cubin.name)
        theirs: list[dict[int, list[Any]] | None] = [None] * len(kernels)
        if arguments.gpu:
            compiled(source(kernels), folder)
            theirs = [*counted_by_ncu(folder, len(kernels))]
            if len(theirs) != len(kernels):
                sys.exit(f"ncu counted {len(theirs)} launches of {len(kernels)}")
        for kernel, counts in zip(kernels, theirs, strict=True):
            try:
                ours = emulated(cubin, text, kernel)
                expected = counted_in_full(emulated(cubin, text, kernel, thorough=True)) if counts is None else counts
            except NcuSwizzleError as error:
                refused += 1
                print(f"{kernel.name} REFUSED {type(error).__name__}: {error}", flush=True)
                continue
            known = len(measured.differences)
            compare_rows({row.offset: row for row in ours.rows}, expected, measured)
            for difference in measured.differences[known:]:
                print(f"{kernel.name} DIFFERENT {difference}", flush=True)
    for reason, times in Counter(measured.reasons).most_common():
        print(f"{times:6}  {reason}")
    verdicts = ", ".join(f"{measured.verdicts[verdict]} {verdict}" for verdict in ("equal", "different", "unknown"))
    against = "ncu" if arguments.gpu else "all blocks and iterations"
    print(f"{len(kernels)} kernels against {against}: {verdicts} accesses, {refused} kernels refused, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    sys.exit(bool(measured.verdicts["different"] or refused))


if __name__ == "__main__":
    main()
