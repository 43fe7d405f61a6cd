"""Tensors that nobody has made, as CuTe DSL compiles for them, and where their addresses are in a kernel's parameters.

A tensor with a static layout, which is what ``from_dlpack`` makes, is passed as its address; with a dynamic one
(``mark_layout_dynamic``) sizes and strides follow.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ncu_swizzle.catalog.by_value import POINTER
from ncu_swizzle.catalog.family import STRUCT
from ncu_swizzle.catalog.fills import numpy_dtype
from ncu_swizzle.emulate import tensor_map
from ncu_swizzle.frontends.request import Given, KernelParameter

ALIGNED = 16  # bytes, of every tensor, unless an option says otherwise
APART = 1 << 40  # bytes between the addresses of two tensors
WORD = 8
DTYPES = {
    "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32", "float64": "Float64", "int8": "Int8",
    "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint8": "Uint8", "uint16": "Uint16", "uint32": "Uint32",
    "uint64": "Uint64", "bool": "Boolean", "float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2",
}  # fmt: skip
NUMBERS = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}  # by bytes


@dataclass
class Tensors:
    """The tensors among a function's arguments, each at an address of its own."""

    given: Mapping[str, Given]
    align: int = ALIGNED
    dynamic: bool = False
    _passed: list[Any] = field(default_factory=list)  # what the host code reads

    @classmethod
    def of(cls, arguments: Iterable[Given], options: Mapping[str, Any]) -> Tensors:
        """Return the tensors among the arguments, as the options want them."""
        tensors = {argument.name: argument for argument in arguments if argument.shape}
        return cls(tensors, int(options.get("assumed_align", ALIGNED)), bool(options.get("dynamic", False)))

    def made(self, given: Given) -> Any:
        """Return a tensor for the DSL."""
        import cutlass
        from cutlass.cute.runtime import make_fake_tensor

        shape, strides = given.shape, [math.prod(given.shape[axis + 1 :]) for axis in range(len(given.shape))]
        elements = max(1, self.align // numpy_dtype(given.dtype).itemsize)
        sizes, steps = list(shape), list(strides)
        if self.dynamic:
            sizes = [_symbol(32, math.gcd(size, elements)) for size in shape]
            steps = [*(_symbol(64, math.gcd(stride, elements)) for stride in strides[:-1]), 1]
        element = getattr(cutlass, DTYPES[given.dtype])
        tensor = make_fake_tensor(element, tuple(sizes), tuple(steps), assumed_align=self.align)
        layout = f"@Q{len(shape)}i0q{len(shape) - 1}q" if self.dynamic else "@Q"
        numbers = (*shape, *strides[:-1]) if self.dynamic else ()
        content = ctypes.create_string_buffer(struct.pack(layout, self._address(given.name), *numbers))
        self._passed.append(content)
        tensor.__c_pointers__ = lambda: [ctypes.cast(content, ctypes.c_void_p)]
        return tensor

    def parameters(self, contents: Sequence[bytes]) -> tuple[KernelParameter, ...]:
        """Return what the kernel's parameters are, given their bytes; a tensor that only a struct points to is last."""
        passed: list[KernelParameter] = []
        pointed: set[str] = set()
        for number, content in enumerate(map(_settled, contents)):
            names = [self._pointed(word) for word in _words(content)]
            if (
                len(content) == WORD
                and names == [(names[0][0], 0)]
                and names[0][0] not in {each.name for each in passed}
            ):
                passed.append(KernelParameter(names[0][0]))
                continue
            pointed |= {name for name, _ in names if name}
            passed.append(_by_value(f"parameter{number}", content, names))
        direct = {each.name for each in passed}
        return (*passed, *(KernelParameter(name, passed=False) for name in self.given if name in pointed - direct))

    def _address(self, name: str) -> int:
        return APART * (1 + list(self.given).index(name))

    def _pointed(self, word: int) -> tuple[str, int]:
        """Return the tensor that an address is in, and the bytes from its start; no name for another number."""
        for name, given in self.given.items():
            offset = word - self._address(name)
            if 0 <= offset <= math.prod(given.shape) * numpy_dtype(given.dtype).itemsize:
                return name, offset
        return "", 0


def _settled(content: bytes) -> bytes:
    """Return a parameter's bytes; of a tensor map, the DSL writes half and leaves the rest as it was on the stack."""
    return tensor_map.completed(content) if len(content) == tensor_map.BYTES else content


def _symbol(bits: int, multiple: int) -> Any:
    """Return a size that is known when the function is called, and is a multiple of a number."""
    from cutlass.cute.typing import SymInt

    return SymInt(bits, divisibility=multiple)


def _words(content: bytes) -> tuple[int, ...]:
    """Return the words of a parameter that can hold addresses: none of one that is not made of words."""
    return struct.unpack(f"<{len(content) // WORD}Q", content) if len(content) % WORD == 0 else ()


def _by_value(name: str, content: bytes, pointed: Sequence[tuple[str, int]]) -> KernelParameter:
    """Return a parameter of these bytes: a number, or a struct."""
    size = len(content)
    if size in NUMBERS and not any(tensor for tensor, _ in pointed):
        return KernelParameter(name, NUMBERS[size], str(int.from_bytes(content, "little", signed=size >= 4)))
    unit = next(bytes_ for bytes_ in (8, 4, 1) if size % bytes_ == 0)
    fields = []
    for number in range(size // unit):
        tensor, offset = pointed[number] if pointed else ("", 0)
        value = int.from_bytes(content[number * unit : (number + 1) * unit], "little")
        fields.append(f"{POINTER}:{tensor}+{offset}" if tensor else f"uint{8 * unit}:{value}")
    return KernelParameter(name, STRUCT, ",".join(fields))
