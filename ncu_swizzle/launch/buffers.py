"""The arguments of a kernel in host and GPU memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncu_swizzle.build import tensor_map
from ncu_swizzle.catalog import by_value, fills
from ncu_swizzle.catalog.family import Argument, Family, Kernel, Problem
from ncu_swizzle.launch.device import cuda

POISON = 0xFF  # every byte of an output before a launch: NaN in all floating-point formats


@dataclass(frozen=True)
class Buffers:
    """The arguments of a family's kernels: the buffers' initial contents on the host, and all arguments on the GPU."""

    inputs: Mapping[str, np.ndarray]
    device: tuple[Any, ...]

    @classmethod
    def upload(cls, family: Family, problem: Problem, inputs: fills.Inputs) -> Buffers:
        """Allocate all buffers and copy the inputs; other outputs stay uninitialized until `reset`."""
        device: list[Any] = []
        for argument in family.arguments:
            if not argument.shape:
                device.append(fills.scalar(argument, problem))
            elif argument.name in inputs:
                device.append(cuda.to_device(_bytes(inputs[argument.name])))
            else:
                device.append(cuda.mem_alloc(fills.size(argument, problem)))
        return cls(inputs, tuple(device))

    def reset(self, family: Family, problem: Problem) -> None:
        """Poison the outputs; those with initial contents get them back."""
        for argument, pointer in zip(family.arguments, self.device, strict=True):
            if argument.output and argument.name in self.inputs:
                cuda.memcpy_htod(pointer, _bytes(self.inputs[argument.name]))
            elif argument.output:
                cuda.memset_d8(pointer, POISON, fills.size(argument, problem))

    def parameters(self, family: Family, kernel: Kernel, problem: Problem) -> list[bytes]:
        """Return the values of the kernel's parameters."""
        given = list(zip(family.arguments, self.device, strict=True))
        addresses = {argument.name: int(pointer) for argument, pointer in given if argument.shape}
        return [
            by_value.pointing(argument, _parameter(argument, value, kernel, problem), addresses)
            for argument, value in given
            if argument.passed
        ]

    def output(self, argument: Argument, family: Family, problem: Problem) -> np.ndarray:
        host = np.empty(fills.shape(argument, problem), fills.numpy_dtype(argument.dtype))
        cuda.memcpy_dtoh(host.view(np.uint8), self.device[family.arguments.index(argument)])
        return host


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def _parameter(argument: Argument, value: Any, kernel: Kernel, problem: Problem) -> bytes:
    boxed = kernel.boxed(argument)
    if boxed.tensor_map:
        shape = fills.shape(argument, problem)
        return tensor_map.encode(tensor_map.tiled(int(value), argument.dtype, shape, boxed.box, boxed.swizzle))
    number = np.uint64(int(value)) if argument.shape else value
    return bytes(number.tobytes())
