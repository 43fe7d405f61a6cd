"""Seeded bugs on a GPU, next to what the emulator says.

``python3 bench/attacks/hazards.py FOLDER [NAME …] [--limit SECONDS]``.

Each kernel of bench/attacks/hazards/ is mutated in its source: a barrier removed, moved, put under a condition, a wait
one stage early, a wrong phase, a missing fence, a wrong count, a tile too small. Every mutant is compiled, run on fresh
inputs next to the original (with a time limit, as it may hang), run under compute-sanitizer's racecheck and synccheck
if that is installed, and judged by the emulator. FOLDER/hazards.json.gz has all of it, and what is there is not done
again; the table that is printed says how many mutants the hardware or compute-sanitizer shows, and how many of those,
and of the others, the emulator reports.

``--only emulator`` (or ``gpu``) does one half: the emulator's needs CUDA's compiler alone. Without NAME, all kernels.
``--cubins FOLDER`` keeps what is compiled, so that both halves judge the same code. bench/attacks/hazards/recorded has
what an H100 said: ``python3 bench/attacks/hazards.py bench/attacks/hazards/recorded --only table``.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin import elf
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.check import tiled
from ncu_swizzle.kernels.toolchain import Toolchain

SOURCES = ROOT / "bench" / "attacks" / "hazards"
COMMON = ROOT / "kernels" / "common"
WGMMA = ROOT / "kernels" / "wgmma" / "wgmma.cuh"
MOST_MUTANTS = 25  # of a kernel
ROUNDS = 8  # launches with other inputs
HANG_S = 8.0  # of a process that runs one mutant
SANITIZED_S = 60.0  # of a process that runs some under compute-sanitizer
TOGETHER = 5  # mutants in such a process
EMULATION_S = 60.0
IN, OUT = 0x7F1000000000, 0x7F0000000000
POISON = 0x7FC00000

# ------------------------------------------------------------------------------------------------- kernels


@dataclass(frozen=True)
class Subject:
    """A kernel, and its launch: floats read and written; `n` of the catalogue's wgmma kernels, by their design."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    read: int
    written: int
    cluster: int = 1
    shared: int = 0
    design: str = ""
    n: int = 0
    columns: int = 0  # rows of a box of B

    @property
    def source(self) -> Path:
        return SOURCES / ("wgmma.cu" if self.design else f"{self.name}.cu")

    @property
    def mutated(self) -> Path:
        return WGMMA if self.design else self.source

    @property
    def small(self) -> tuple[int, int, int]:
        """A grid for compute-sanitizer."""
        return (max(2, self.cluster), 1, 1)


def _plain(name: str, threads: int, read: int, written: int, cluster: int = 1) -> Subject:
    """Return a kernel with 64 blocks, each of which reads and writes so many floats."""
    return Subject(name, (64, 1, 1), (threads, 1, 1), 64 * read, 64 * written, cluster)


SUBJECTS = [
    Subject("transpose", (8, 4, 1), (32, 8, 1), 1 << 16, 1 << 16),
    _plain("reduce_tree", 256, 1024, 2),
    _plain("reduce_warps", 256, 768, 768),
    _plain("scan_steps", 256, 256, 256),
    _plain("scan_tree", 256, 512, 512),
    _plain("histogram", 128, 1024, 128),
    _plain("stencil", 128, 140, 128),
    Subject("gemm_tiled", (8, 8, 1), (16, 16, 1), 2 << 14, 1 << 14),
    Subject("gemm_ahead", (8, 8, 1), (16, 16, 1), 2 << 14, 1 << 14),
    Subject("gemm_async", (8, 8, 1), (128, 1, 1), 2 << 16, 1 << 16),
    Subject("gemm_mbarriers", (8, 8, 1), (96, 1, 1), 2 << 14, 1 << 14),
    _plain("bitonic", 256, 256, 256),
    _plain("softmax", 128, 1024, 1024),
    _plain("attention", 128, 8256, 1024),
    _plain("named", 128, 512, 64),
    _plain("bulk_copy", 128, 1536, 1536),
    _plain("bulk_ring", 160, 2560, 128),
    _plain("mailboxes", 128, 128, 128),
    _plain("cluster_sum", 128, 128, 128, 4),
    _plain("cluster_histogram", 128, 1024, 128, 2),
    *(
        Subject(
            f"wgmma_{name}", (blocks, 1, 1), (threads, 1, 1), 1 << 18, 1 << 17, cluster, shared, design, 512, columns
        )
        for name, blocks, threads, cluster, shared, design, columns in (
            ("in_turn", 16, 128, 1, 32768, "kInTurn", 128),
            ("ring", 16, 128, 1, 65536, "kRing", 128),
            ("specialised", 8, 384, 1, 196608, "kSpecialised", 256),
            ("cluster", 8, 384, 2, 196608, "kCluster", 128),
            ("staged", 4, 384, 2, 229376, "kMatrix", 128),
            ("stored", 4, 384, 2, 229376, "kStored", 128),
        )
    ),
]  # fmt: skip


def parameters(subject: Subject, source: int, target: int) -> list[bytes]:
    """Return the kernel's arguments, with buffers at these addresses."""
    if not subject.design:
        return [struct.pack("<Q", source), struct.pack("<Q", target)]
    n = subject.n
    maps = [
        tiled(at, "float16", (n, n), box, 128).encoded()
        for at, box in ((source, (128, 64)), (source + 2 * n * n, (subject.columns, 64)), (target, (64, 64)))
    ]
    out = maps[2] if subject.design == "kStored" else struct.pack("<Q", target)
    return [maps[0], maps[1], out, struct.pack("<i", n)]


def inputs(subject: Subject, seed: int) -> np.ndarray:
    """Return the floats that a kernel reads; of wgmma two halves each."""
    rng = np.random.default_rng(seed)
    if subject.design:
        return rng.standard_normal(2 * subject.read).astype(np.float16).view(np.float32)
    return rng.standard_normal(subject.read).astype(np.float32)


# ------------------------------------------------------------------------------------------------- mutations


@dataclass(frozen=True)
class Mutant:
    """A source with one change; the original has none."""

    subject: Subject
    kind: str
    line: int  # of the mutated file
    text: str = field(repr=False)
    change: str = ""

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.subject.name} {self.text}".encode()).hexdigest()[:12]


# By kind: a pattern, and what takes its place; groups are arguments. The same pattern may be mutated in several ways.
RULES: list[tuple[str, str, str]] = [
    ("barrier removed", r"__syncthreads\(\);", ""),
    ("barrier of the warp alone", r"__syncthreads\(\);", "__syncwarp();"),
    ("barrier under a condition", r"__syncthreads\(\);", "if (threadIdx.x % 64 < 48) { __syncthreads(); }"),
    ("barrier of half of the warps", r"__syncthreads\(\);", "if (threadIdx.x < 64) { __syncthreads(); }"),
    ("harmless: barrier twice", r"__syncthreads\(\);", "__syncthreads(); __syncthreads();"),
    ("warp barrier removed", r"__syncwarp\(\);", ""),
    ("cluster barrier removed", r"ptx::cluster_sync\(\);", ""),
    ("barrier of the block alone", r"ptx::cluster_sync\(\);", "__syncthreads();"),
    ("wait a stage early", r"(?:cp_async|wgmma|store)_wait<([^>]+)>\(\);", r"@_wait<(\1) + 1>();"),
    ("wait removed", r"ptx::(?:cp_async|wgmma|store)_wait<[^>]+>\(\);", ""),
    ("harmless: wait for all", r"(?:cp_async|wgmma|store)_wait<(?!0)([^>]+)>\(\);", r"@_wait<0>();"),
    ("commit removed", r"ptx::(?:cp_async|wgmma|store)_commit\(\);", ""),
    ("mbarrier not waited for", r"ptx::mbarrier_wait\(([^;]+)\);", ""),
    ("wrong phase", r"ptx::mbarrier_wait\(([^;]+), ([^;]+)\);", r"ptx::mbarrier_wait(\1, (\2) ^ 1);"),
    ("arrival removed", r"ptx::(?:mbarrier_arrive|cp_async_arrive|mbarrier_arrive_at)\([^;]+\);", ""),
    ("arrival twice", r"(ptx::mbarrier_arrive\([^;]+\);)", r"\1 \1"),
    ("count too high", r"ptx::mbarrier_init\(([^;]+), ([^;]+)\);", r"ptx::mbarrier_init(\1, (\2) + 1);"),
    ("count too low", r"ptx::mbarrier_init\(([^;]+), ([^;]+)\);", r"ptx::mbarrier_init(\1, ((\2) + 1) / 2);"),
    ("bytes too few", r"mbarrier_arrive_expecting\(([^;]+), ([^;]+)\);", r"mbarrier_arrive_expecting(\1, (\2) / 2);"),
    ("bytes too many", r"mbarrier_arrive_expecting\(([^;]+), ([^;]+)\);", r"mbarrier_arrive_expecting(\1, (\2) + 16);"),
    ("fence removed", r"ptx::(?:fence_async_shared|fence_mbarrier_init|wgmma_fence)\(\);", ""),
    ("named barrier removed", r"(?<![\w:])(?:ptx::barrier_)?sync\((?!int)([^;()]+), ([^;]+)\);", ""),
    (
        "named barrier of another number",
        r"(?<![\w:])((?:ptx::barrier_)?sync)\((?!int)([^;()]+), ([^;]+)\);",
        r"\1((\2) ^ 1, \3);",
    ),
    (
        "named barrier with another count",
        r"(?<![\w:])((?:ptx::barrier_)?sync|arrive)\((?!int)([^;()]+), ([^;]+)\);",
        r"\1(\2, (\3) / 2);",
    ),
    ("named arrival removed", r"(?<![\w:])arrive\((?!int)([^;()]+), ([^;]+)\);", ""),
    ("stages too few", r"% (kStages|D::kStages)", r"% (\1 - 1)"),
    ("a stage too far", r"(?<=< )kStages - 1|(?<== tile \+ )kStages - 1", "kStages"),
    ("ring too long", r"== D::kStages\)", "== D::kStages + 1)"),
    ("tile too small", r"(__shared__[^;]*\[)(k\w+)( \+ 1)?\];", r"\1\2 / 2];"),
    ("stages closer", r"return tiles \+ stage \* kBytes", "return tiles + stage * kBytesA"),
    ("buffers not swapped", r"now = 1 - now;", ""),
    ("one buffer", r"(?<=int now = )item % 2", "0"),
    ("not atomic", r"atomicAdd\(&(.+?), 1\);", r"\1 += 1;"),
    ("not atomic", r"atomicMax\(&most, ([^;]+)\);", r"most = max(most, \1);"),
    ("two threads", r"(threadIdx\.x|t) == 0\)", r"\1 % 64 == 0)"),
    ("half a step", r"(t < half)\)", r"t <= half)"),
    ("neighbour's place", r"\[(t|threadIdx\.x)\] = ", r"[\1 / 2] = "),
    ("release too early", r"release<D>\(ring, previous\);", "release<D>(ring, read.stage);"),
    ("pieces too few", r"piece % kPieces", "0"),
]
MOVES = re.compile(
    r"__syncthreads\(\);|ptx::cluster_sync\(\);|ptx::\w+_(?:wait|commit)|ptx::mbarrier_(?:wait|arrive)|ptx::fence_async"
)


def mutants(subject: Subject) -> list[Mutant]:
    """Return the original, and mutants of all kinds in turn."""
    text = subject.mutated.read_text()
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in (*_replaced(subject, text), *_moved(subject, text)):
        if mutant.text != text:
            by_kind.setdefault(mutant.kind, []).append(mutant)
    chosen: dict[str, Mutant] = {}
    while by_kind and len(chosen) < MOST_MUTANTS:
        for kind in list(by_kind):
            mutant = by_kind[kind].pop(0)
            if len(chosen) < MOST_MUTANTS:
                chosen.setdefault(mutant.text, mutant)
            if not by_kind[kind]:
                del by_kind[kind]
    return [Mutant(subject, "", 0, text), *chosen.values()]


# What a design of the catalogue's wgmma kernels uses: elsewhere in the file, a change would not show.
_PIPELINE = ("Ring", "State", "release", "produce", "consume", "gemm")
PARTS = {
    "kInTurn": ("Ring", "load_tiles", "multiply", "in_turn"),
    "kRing": ("Ring", "State", "load_tiles", "multiply", "release", "ahead"),
    **dict.fromkeys(("kSpecialised", "kCluster"), (*_PIPELINE, "load_tiles", "multiply")),
    **dict.fromkeys(("kMatrix", "kStored"), (*_PIPELINE, "store_staged")),
}


def _lines_of(subject: Subject, text: str) -> set[int]:
    """Return the numbers of the lines that may be mutated."""
    lines = text.splitlines()
    if not subject.design:
        return set(range(1, len(lines) + 1))
    chosen: set[int] = set()
    inside = False
    for number, line in enumerate(lines, 1):
        start = re.match(r"(?:template <[^>]*> )?(?:struct (\w+)|__device__ [^(]*?(\w+)\()", line)
        if start:
            inside = (start[1] or start[2]) in PARTS[subject.design]
        elif re.match(r"template|constexpr|using|enum", line):
            inside = False
        if inside:
            chosen.add(number)
    return chosen


def _replaced(subject: Subject, text: str) -> Iterator[Mutant]:
    lines = _lines_of(subject, text)
    for kind, pattern, replacement in RULES:
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            old = text.splitlines()[line - 1].strip()
            if line not in lines or old.startswith(("//", "__device__ void sync", "__device__ void arrive")):
                continue
            new = match.expand(replacement).replace("@", match[0].split("_wait")[0].rpartition("::")[2] or "")
            changed = text[: match.start()] + new + text[match.end() :]
            yield Mutant(subject, kind, line, changed, f"{match[0]} -> {new or 'nothing'}")


def _moved(subject: Subject, text: str) -> Iterator[Mutant]:
    """Yield barriers and waits before the statement, or block of statements, in front of them, or behind the next."""
    allowed = _lines_of(subject, text)
    lines = text.splitlines()
    indent = [len(line) - len(line.lstrip()) for line in lines]
    for at, line in enumerate(lines):
        if at + 1 not in allowed or not MOVES.search(line) or not line.rstrip().endswith(";") or "asm" in line:
            continue
        for step, kind in ((-1, "moved up"), (1, "moved down")):
            there = at + step
            while 0 < there < len(lines) - 1 and indent[there] > indent[at]:
                there += step
            if not 0 < there < len(lines) - 1 or indent[there] != indent[at] or "{" in line:
                continue
            if step < 0 and lines[there].strip().startswith("}"):  # to before the block that ends here
                there -= 1
                while there > 0 and indent[there] > indent[at]:
                    there -= 1
            if step > 0 and lines[there].rstrip().endswith("{"):
                there += 1
                while there < len(lines) - 1 and (indent[there] > indent[at] or lines[there].rstrip().endswith("{")):
                    there += 1
            changed = [*lines]
            moved = changed.pop(at)
            changed.insert(there, moved)
            yield Mutant(subject, kind, at + 1, "\n".join(changed) + "\n", f"{line.strip()} to line {there + 1}")


# ------------------------------------------------------------------------------------------------- compiling


def cubin_of(mutant: Mutant, folder: Path, nvcc: Path) -> Path | None:
    """Compile a mutant; None if it does not compile."""
    target = folder / f"{mutant.subject.name}-{mutant.key}.cubin"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / mutant.subject.source.name
        source.write_text(mutant.subject.source.read_text())
        (Path(scratch) / mutant.subject.mutated.name).write_text(mutant.text)
        design = [f"-DDESIGN={mutant.subject.design}"] if mutant.subject.design else []
        made = Path(scratch) / "made.cubin"
        command = [str(nvcc), "-gencode=arch=compute_90a,code=sm_90a", "-O3", "-lineinfo", "-std=c++17", "-cubin",
                   f"-I{scratch}", f"-I{COMMON}", *design, "-o", str(made), str(source)]  # fmt: skip
        compiled = subprocess.run(command, capture_output=True, text=True, check=False)
        if compiled.returncode:
            (folder / f"{target.stem}.log").write_text(compiled.stderr)
            return None
        made.replace(target)
    return target


# ------------------------------------------------------------------------------------------------- on the GPU


class Gpu:
    """The driver, as far as it takes to launch kernels of cubins."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.check(self.cuda.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.cuda.cuCtxSetCurrent(context))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
        return int(pointer.value)

    def function(self, cubin: bytes, name: bytes, shared: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), cubin))
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
        if shared:
            self.check(self.cuda.cuFuncSetAttribute(function, 8, shared))  # dynamic shared memory
        return function

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[bytes],
    ) -> None:
        held = [ctypes.create_string_buffer(argument, len(argument) + 64) for argument in arguments]
        aligned = []
        for buffer, argument in zip(held, arguments, strict=True):  # a tensor map is aligned to 64 bytes
            at = ctypes.addressof(buffer) + 63 & ~63
            ctypes.memmove(at, argument, len(argument))
            aligned.append(at)
        pointers = (ctypes.c_void_p * len(aligned))(*aligned)
        self.check(self.cuda.cuLaunchKernel(function, *grid, *block, shared, None, pointers, None))

    def wait(self) -> None:
        self.check(self.cuda.cuCtxSynchronize())


SCRIBBLE = """
extern "C" __global__ void scribble(unsigned value) {
    extern __shared__ unsigned words[];
    for (int i = threadIdx.x; i < 50 * 1024; i += blockDim.x) { words[i] = value + i; }
    __syncthreads();
    if (words[threadIdx.x] == 12345) { asm volatile("nanosleep.u32 10;"); }
}
"""


def run_on_gpu(task: dict[str, Any]) -> None:
    """Run mutants one after the other, and print a line of JSON for each; a hang is ended by whoever started this."""
    subject = next(each for each in SUBJECTS if each.name == task["subject"])
    gpu = Gpu()
    source, target = gpu.allocate(4 * subject.read), gpu.allocate(4 * subject.written)
    scribble = gpu.function(Path(task["scribble"]).read_bytes(), b"scribble", 200 << 10) if task["scribble"] else None
    for key, path in task["cubins"]:
        print(f"=== {key}", flush=True)
        function = gpu.function(Path(path).read_bytes(), b"kernel", subject.shared)
        grid = subject.small if task["small"] else subject.grid
        digests = []
        for seed in range(task["rounds"]):
            content = inputs(subject, seed)
            gpu.check(
                gpu.cuda.cuMemcpyHtoD_v2(
                    ctypes.c_uint64(source), content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(content.nbytes)
                )
            )
            gpu.check(
                gpu.cuda.cuMemsetD32_v2(
                    ctypes.c_uint64(target), ctypes.c_uint(POISON), ctypes.c_size_t(subject.written)
                )
            )
            if scribble is not None:
                gpu.launch(scribble, (264, 1, 1), (1024, 1, 1), 200 << 10, [struct.pack("<I", 0x3F800000 + 977 * seed)])
            gpu.launch(function, grid, subject.block, subject.shared, parameters(subject, source, target))
            gpu.wait()
            out = np.zeros(subject.written, np.float32)
            gpu.check(
                gpu.cuda.cuMemcpyDtoH_v2(
                    out.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(target), ctypes.c_size_t(out.nbytes)
                )
            )
            digests.append(hashlib.sha256(out.tobytes()).hexdigest()[:16])
        print(json.dumps({"key": key, "digests": digests}), flush=True)


def ended(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Run a command and whatever it starts, no longer than that; the status is None if it was ended."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        return process.returncode, output


def task_of(
    subject: Subject, cubins: Sequence[tuple[str, str]], *, small: bool, rounds: int, scribble: str
) -> list[str]:
    task = {"subject": subject.name, "cubins": list(cubins), "small": small, "rounds": rounds, "scribble": scribble}
    return [sys.executable, str(Path(__file__).resolve()), "--run", json.dumps(task)]


def outcome(subject: Subject, key: str, path: str, scribble: str) -> dict[str, Any]:
    """Return what a mutant does on the GPU: its outputs' digests, or how it failed; nothing if it never started."""
    status, output = ended(task_of(subject, [(key, path)], small=False, rounds=ROUNDS, scribble=scribble), HANG_S)
    for line in output.splitlines():
        if line.startswith("{"):
            return {"digests": json.loads(line)["digests"]}
    if f"=== {key}" not in output:
        print(f"{subject.name} {key} did not start: {output.strip()[-200:]}", flush=True)
        return {}
    return {"failed": "hangs" if status is None else output.strip().splitlines()[-1][:200]}


HEADS = re.compile(
    r"^========= +((?:Error|Warning|Info|Barrier error|Race|Potential|Divergent|Missing|Invalid).*)$", re.M
)


def sanitized(
    subject: Subject, tool: str, cubins: Sequence[tuple[str, str]], sanitizer: str, until: float
) -> dict[str, Any]:
    """Return what a tool of compute-sanitizer reports of each mutant that it reached, by key: its messages' heads."""
    found: dict[str, Any] = {}
    left = list(cubins)
    options = ["--racecheck-report", "analysis"] if tool == "racecheck" else []
    while left and time.monotonic() < until:
        task = task_of(subject, left, small=True, rounds=1, scribble="")
        limit_s = min(SANITIZED_S, max(1.0, until - time.monotonic()))
        status, output = ended([sanitizer, "--tool", tool, *options, "--print-limit", "2000", *task], limit_s)
        parts = re.split(r"^=== (\w+)$", output, flags=re.MULTILINE)
        reached = dict(zip(parts[1::2], parts[2::2], strict=True))
        if not reached:
            print(f"{tool} of {subject.name} did not start: {output.strip()[-300:]}", flush=True)
            break
        for key, text in reached.items():
            heads = [head.strip() for head in HEADS.findall(text)]
            found[key] = {"messages": heads[:12], "count": len(heads), "ended": '{"key"' in text}
        last = found[parts[-2]]
        if not last["ended"]:
            last["ended"] = "killed" if status is None else "failed"
            if status is None and limit_s < SANITIZED_S:  # by our limit, not the mutant's
                del found[parts[-2]]
        left = [(key, path) for key, path in left if key not in reached]
    return found


# ------------------------------------------------------------------------------------------------- by the emulator


def judged(subject: Subject, path: str) -> dict[str, Any]:
    """Return what the emulator says of a cubin."""
    from ncu_swizzle.emulate.run import emulate

    start, cubin = time.process_time(), Cubin(Path(path).read_bytes(), "kernel")
    toolchain = Toolchain(timeout_s=EMULATION_S)
    code = emulated_launch.code(cubin, "kernel", toolchain.disassemble(cubin.data, cubin.name))
    launch = Launch(
        grid=subject.grid,
        block=subject.block,
        shared_dynamic=subject.shared,
        parameters=elf.pack(cubin, "kernel", parameters(subject, IN, OUT)).tobytes(),
        cluster=(subject.cluster, 1, 1),
        memory={} if subject.design else {IN: inputs(subject, 0).tobytes()},
    )
    text = hashlib.sha256("\n".join(each.text for each in code.instructions).encode()).hexdigest()[:16]
    answer: dict[str, Any] = {"code": text}
    try:
        counts = emulate(code, launch, races=True, timeout_s=EMULATION_S)
    except NcuSwizzleError as error:
        kind = type(error).__name__
        answer |= {"error": f"{kind}: {error}", "codes": [kind] * (kind in ("MemoryFault", "Stuck", "Circling"))}
    else:
        answer |= {
            "codes": sorted({each.code for each in (*counts.hazards.found, *counts.tiles.misfits)}),
            "hazards": [_brief(hazard, counts) for hazard in counts.hazards.found][:20],
            "lacking": list(counts.hazards.lacking),
            "blocks": counts.hazards.blocks,
        }
    return answer | {"seconds": round(time.process_time() - start, 2)}


def _brief(hazard: Any, counts: Any) -> str:
    sass = {row.offset: row.sass for row in counts.rows}
    parties = " | ".join(f"{p.does} {p.offset:#x} {sass.get(p.offset, '')} {p.thread or ''}" for p in hazard.parties)
    return f"{hazard.code} {hazard.block} {hazard.place} {parties} {hazard.what}"


# ------------------------------------------------------------------------------------------------- all of it


class Results:
    """The file of results, saved as they come."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hazards.json.gz"
        self.kernels: dict[str, dict[str, dict[str, Any]]] = {}
        if self.path.exists():
            self.kernels = json.loads(gzip.decompress(self.path.read_bytes()))
        self._saved = time.monotonic()

    def row(self, mutant: Mutant) -> dict[str, Any]:
        rows = self.kernels.setdefault(mutant.subject.name, {})
        return rows.setdefault(mutant.key, {"kind": mutant.kind, "line": mutant.line, "change": mutant.change})

    def save(self, now: bool = False) -> None:
        if now or time.monotonic() - self._saved > 10:
            text = json.dumps(self.kernels, indent=0).encode()
            unfinished = self.path.with_suffix(".part")
            unfinished.write_bytes(gzip.compress(text, mtime=0))
            unfinished.replace(self.path)
            self._saved = time.monotonic()


def shown(original: dict[str, Any], row: dict[str, Any]) -> str:
    """Return how the hardware or compute-sanitizer shows a bug; empty if neither does."""
    ran = row.get("gpu", {})
    if "failed" in ran:
        return "hang" if ran["failed"] == "hangs" else "fails"
    expected = original.get("gpu", {}).get("digests")
    if expected and "digests" in ran and ran["digests"] != expected:
        return "output"
    for tool in ("racecheck", "synccheck"):
        if _told(row, tool) and not _told(original, tool):  # it does not know all that orders accesses
            return tool
    return ""


def unsettled(row: dict[str, Any], alone: bool) -> bool:
    """Return whether a mutant is to run: it has not, or, alone, hangs although the emulator finds nothing."""
    ran = row.get("gpu", {})
    doubtful = ran.get("failed") == "hangs" and not ran.get("alone") and "emulator" in row and not ours(row)
    return not ran or (alone and doubtful)


def _told(row: dict[str, Any], tool: str) -> bool:
    return any(not message.startswith("Info") for message in row.get(tool, {}).get("messages", []))


HEAD = (
    "kernel", "mutants", "output", "hang, fails", "racecheck, synccheck", "reported of these", "reported of others",
    "original",
)  # fmt: skip


def ours(row: dict[str, Any]) -> list[str]:
    """Return the codes that the emulator reports."""
    return list(row.get("emulator", {}).get("codes", []))


def table(results: Results) -> None:
    """Print the mutants of each kernel: how many are shown, and how many of those, and of the others, are reported."""
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name, rows in results.kernels.items():
        original = next((row for row in rows.values() if not row["kind"]), {})
        plain = original.get("emulator", {}).get("code")
        bugs = [row for row in rows.values() if row["kind"] and row.get("cubin")]
        if plain:
            bugs = [row for row in bugs if row.get("emulator", {}).get("code") != plain]  # the change shows in the code
        kinds = [shown(original, row) for row in bugs]
        reported = [bool(ours(row)) for row in bugs]
        both = sum(bool(kind) and found for kind, found in zip(kinds, reported, strict=True))
        columns = [
            len(bugs),
            kinds.count("output"),
            kinds.count("hang") + kinds.count("fails"),
            kinds.count("racecheck") + kinds.count("synccheck"),
            f"{both} of {len(bugs) - kinds.count('')}",
            f"{sum(reported) - both} of {kinds.count('')}",
            " ".join(ours(original)) or "none",
        ]
        print(f"| {name} | {' | '.join(map(str, columns))} |")
        for kind, row in zip(kinds, bugs, strict=True):
            if bool(kind) != bool(ours(row)):
                said = " ".join(ours(row)) or "not reported"
                print(f"    {kind or 'not shown':9} {said:20} line {row['line']}: {row['kind']}: {row['change'][:90]}")


def every(
    pool: Any, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], until: float, told: str
) -> Iterator[tuple[Any, Any]]:
    """Run jobs, whose first item is what they are for, until the time is up; yield each as it ends."""
    from concurrent.futures import as_completed

    start, futures = time.monotonic(), {}
    for what, *arguments in jobs:
        futures[pool.submit(work, *arguments)] = what
    for number, future in enumerate(as_completed(futures)):
        if time.monotonic() > until:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"{told}: the time is up after {number} of {len(jobs)}", flush=True)
            return
        try:
            yield futures[future], future.result()
        except Exception as error:  # one that crashes is a result, too
            yield futures[future], {"error": f"CRASH {type(error).__name__}: {error}", "codes": []}
    print(f"{told}: {len(jobs)} in {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=("compile", "gpu", "emulator", "table"))
    parser.add_argument("--cubins", type=Path, default=Path(tempfile.gettempdir()) / "hazards-cubins", metavar="FOLDER")
    parser.add_argument("--again", action="store_true", help="ask the emulator again")
    arguments = parser.parse_args()
    if arguments.run:
        run_on_gpu(json.loads(arguments.run))
        return
    start = time.monotonic()
    until = start + arguments.limit
    folder: Path = arguments.folder
    cubins = arguments.cubins.resolve()
    for each in (folder, cubins):
        each.mkdir(parents=True, exist_ok=True)
    results = Results(folder)
    if arguments.only == "table":
        table(results)
        return
    subjects = [subject for subject in SUBJECTS if not arguments.names or subject.name in arguments.names]
    all_mutants = [mutant for subject in subjects for mutant in mutants(subject)]
    print(f"{len(all_mutants) - len(subjects)} mutants of {len(subjects)} kernels", flush=True)
    nvcc = Toolchain().find("nvcc")
    paths: dict[str, Path] = {}
    with ThreadPoolExecutor(arguments.workers) as pool:
        jobs = [(mutant, mutant, cubins, nvcc) for mutant in all_mutants]
        for mutant, path in every(pool, cubin_of, jobs, until, "compiled"):
            results.row(mutant)["cubin"] = isinstance(path, Path)
            if isinstance(path, Path):
                paths[mutant.key] = path
    results.save(now=True)
    ready = [mutant for mutant in all_mutants if mutant.key in paths]
    if arguments.only == "compile":
        return
    if arguments.only != "emulator":
        on_gpu(ready, paths, results, arguments.workers, until)
    if arguments.only != "gpu":
        again = [mutant for mutant in ready if arguments.again or "emulator" not in results.row(mutant)]
        with ProcessPoolExecutor(arguments.workers) as pool:
            jobs = [(mutant, mutant.subject, str(paths[mutant.key])) for mutant in again]
            for mutant, answer in every(pool, judged, jobs, until, "emulated"):
                results.row(mutant)["emulator"] = answer
                results.save()
    results.save(now=True)
    table(results)
    print(f"{time.monotonic() - start:.0f} s")


def on_gpu(ready: Sequence[Mutant], paths: dict[str, Path], results: Results, workers: int, until: float) -> None:
    """Run all mutants that have not run, then under compute-sanitizer those that end with the original's output."""
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(max(1, 3 * workers // 4)) as pool:
        source, scribble = Path(scratch) / "scribble.cu", Path(scratch) / "scribble.cubin"
        source.write_text(SCRIBBLE)
        subprocess.run(
            [str(Toolchain().find("nvcc")), "-arch=sm_90", "-cubin", "-o", str(scribble), str(source)], check=True
        )
        alone = ThreadPoolExecutor(1)  # what hangs, or does not start, may have waited for others that hang
        for crew, told in ((pool, "run"), (alone, "run alone")):
            new = [mutant for mutant in ready if unsettled(results.row(mutant), crew is alone)]
            jobs = [(mutant, mutant.subject, mutant.key, str(paths[mutant.key]), str(scribble)) for mutant in new]
            for mutant, answer in every(crew, outcome, jobs, until, told):
                if answer:
                    results.row(mutant)["gpu"] = {**answer, "alone": crew is alone}
                    results.save()
    results.save(now=True)
    installed = (
        *Path("/usr/local").glob("cuda*/bin/compute-sanitizer"),
        *Path("/opt/nvidia").glob("*/*/compute-sanitizer"),
    )
    sanitizer = shutil.which("compute-sanitizer") or next(map(str, installed), "")
    if not sanitizer:
        print("compute-sanitizer is not installed", flush=True)
        return
    originals = {mutant.subject.name: results.row(mutant) for mutant in ready if not mutant.kind}
    for tool in ("racecheck", "synccheck"):
        jobs = []
        for subject in SUBJECTS:
            original = originals.get(subject.name, {})
            asked = [
                (mutant.key, str(paths[mutant.key]))
                for mutant in ready
                if mutant.subject == subject and tool not in (row := results.row(mutant))
                if "digests" in row.get("gpu", {}) and not shown(original, row)
            ]
            for at in range(0, len(asked), TOGETHER):
                jobs.append((subject.name, subject, tool, asked[at : at + TOGETHER], sanitizer, until))
        with ThreadPoolExecutor(max(1, 3 * workers // 4)) as pool:
            for name, found in every(pool, sanitized, jobs, until, tool):
                for key, answer in found.items():
                    if key in results.kernels[name]:
                        results.kernels[name][key][tool] = answer
                results.save()
        results.save(now=True)


if __name__ == "__main__":
    main()
