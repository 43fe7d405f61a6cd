"""Load a compiled kernel and launch it: once for its output, once under ncu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ncu_swizzle.build import argument_check
from ncu_swizzle.catalog import launch_limits
from ncu_swizzle.catalog.family import Family, Kernel, Problem
from ncu_swizzle.cubin import parameters, symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import UsageError
from ncu_swizzle.launch.buffers import Buffers
from ncu_swizzle.launch.device import cuda
from ncu_swizzle.ncu import gpu


@dataclass(frozen=True)
class ReadyKernel:
    """A kernel ready to launch: calling it launches it once, asynchronously. It keeps its buffers alive."""

    function: Any
    parameters: np.void
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int  # bytes of dynamic shared memory
    buffers: Buffers

    def __call__(self) -> None:
        given = (self.parameters,) if self.parameters.itemsize else ()
        self.function(*given, grid=self.grid, block=self.block, shared=self.shared)


def launcher(family: Family, kernel: Kernel, problem: Problem, code: bytes, buffers: Buffers) -> ReadyKernel:
    """Load the kernel and lay out its parameters. Raises UsageError if the arguments or the launch do not fit."""
    if family.cluster:
        raise UsageError(
            f"{kernel.name} is launched in clusters of {'x'.join(map(str, family.cluster))} blocks; its cubin does not "
            "say so, and PyCUDA launches no others",
            "--engine emulated computes its wavefronts; ncu-swizzle profile -- python3 PROGRAM measures a program's",
        )
    cubin = Cubin(code, family.source(kernel).name)
    name = kernel.entry if family.shipped else symbols.find(cubin, kernel.entry)
    values = buffers.parameters(family, kernel, problem)
    if not family.shipped:
        sizes, source = [len(value) for value in values], partial(argument_check.declaring_text, family, kernel)
        passed = [argument for argument in family.arguments if argument.passed]
        argument_check.refuse_mismatch(cubin, name, passed, sizes, source)
    function = cuda.module_from_buffer(code).get_function(name)
    grid, block = family.geometry(kernel, problem)
    shared = family.shared_memory(kernel, problem)
    launch_limits.refuse_oversized(kernel.name, block, shared, _limits(function))
    function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
    return ReadyKernel(function, parameters.pack(cubin, name, values), grid, block, shared, buffers)


def _limits(function: Any) -> launch_limits.Limits:
    attribute = cuda.function_attribute
    return launch_limits.Limits(
        threads=function.get_attribute(attribute.MAX_THREADS_PER_BLOCK),
        shared=gpu.shared_memory_per_block(),
        static=function.get_attribute(attribute.SHARED_SIZE_BYTES),
    )


def profile_once(launch: Callable[[], Any], family: Family, problem: Problem) -> None:
    """Launch inside the range that ncu's ``--profile-from-start off`` waits for, with freshly reset buffers."""
    launch()  # warm, outside the range
    if isinstance(launch, ReadyKernel):
        launch.buffers.reset(family, problem)
    cuda.Context.synchronize()
    cuda.start_profiler()
    launch()
    cuda.Context.synchronize()
    cuda.stop_profiler()
