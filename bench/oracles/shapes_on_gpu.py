"""Launch GEMMs of tests/data/emulate/shapes.cu on this machine's GPU, and compare each with what the oracle foretells.

    python -m bench.oracles.shapes_on_gpu CUBIN COUNT

prints a line for every launch that differs, then how many agree. Nothing that would hang or fault is launched.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.gemms import SHARED, ShapeCase, bases, mutations
from bench.oracles.tile_oracle import buffer_of, matrices, operand_bytes, outcome

DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
REACH = SHARED - 4096  # bytes from the base: what a descriptor may read without a fault


class Gpu:
    """CUDA's driver, as far as it is needed."""

    def __init__(self, cubin: Path) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self.module), cubin.read_bytes())

    def call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.driver, name)(*arguments):
            raise SystemExit(f"{name} returned {status}")

    def buffer(self, content: bytes) -> ctypes.c_uint64:
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(len(content)))
        self.call("cuMemcpyHtoD_v2", at, content, ctypes.c_size_t(len(content)))
        return at

    def launch(self, case: ShapeCase, given: list[bytes]) -> None:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, case.kernel.encode())
        self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, SHARED)
        # The driver reads a tensor map at its own alignment.
        kept = [ctypes.create_string_buffer(content, len(content)) for content in given]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(one) for one in kept))
        block = 128 * case.gemm.groups
        self.call("cuLaunchKernel", function, 2, 2, 1, block, 1, 1, SHARED, None, pointers, None)
        self.call("cuCtxSynchronize")


def computed(gpu: Gpu, case: ShapeCase) -> bool:
    """Launch a case; say whether its results are right."""
    gemm = case.gemm
    a, b = matrices(gemm)
    contents = [buffer_of(gemm.kind, m, how).tobytes() for m, how in zip((a, b), case.arrangements, strict=True)]
    expected = (a @ b.T).astype(np.int32 if gemm.kind == "s8" else np.float32)
    buffers = [gpu.buffer(content) for content in (*contents, bytes([0xFF]) * expected.nbytes)]
    gpu.launch(case, case.arguments(*(at.value for at in buffers)))
    found = np.empty_like(expected)
    gpu.call("cuMemcpyDtoH_v2", found.ctypes.data_as(ctypes.c_void_p), buffers[2], ctypes.c_size_t(found.nbytes))
    for at in buffers:
        gpu.call("cuMemFree_v2", at)
    return np.array_equal(found, expected)


def harmless(case: ShapeCase) -> bool:
    """Say whether a case ends, and reads nothing outside of the block's shared memory."""
    gemm = case.gemm
    if outcome(gemm, case.arrangements) not in ("right", "wrong") or gemm.expected != gemm.brought:
        return False
    for side, rows, across in ((gemm.a, 64 * gemm.groups, gemm.across[0]), (gemm.b, gemm.columns, gemm.across[1])):
        fields = side.start, side.leading, side.stride, side.base_offset, side.mode
        last = operand_bytes(*fields, rows, across, 2).max() + gemm.base + side.at + (gemm.stages - 1) * side.stage
        last += max(side.group, 0) + gemm.steps * max(side.pair, side.further) + side.boxes * side.apart
        if last >= REACH:
            return False
    return True


def chosen(count: int) -> Iterator[ShapeCase]:
    choose = random.Random(7)
    for base in bases():
        yield base
        yield from choose.sample(list(mutations(base)), count)


def launched(cubin: Path, case: ShapeCase) -> str:
    """Return what came of a case in a process of its own, as a fault would end all launches of one."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if computed(Gpu(cubin), case) else 1)
        except SystemExit:
            os._exit(2)
    return ("right", "wrong", "fault")[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def main(cubin: str, count: str) -> None:
    agree, differ = 0, 0
    for case in filter(harmless, chosen(int(count))):
        said, found = outcome(case.gemm, case.arrangements), launched(Path(cubin), case)
        alike = found == said or (found == "fault" and said == "wrong")
        agree, differ = agree + alike, differ + (not alike)
        if not alike or found == "fault":
            print(f"{case.label}: the oracle says {said}, the GPU {found}", flush=True)
    print(f"{agree} agree, {differ} differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
