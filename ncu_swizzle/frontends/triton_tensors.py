"""Tensors and tensor descriptors that nobody has made, as Triton and Gluon compile for them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ncu_swizzle.catalog.fills import numpy_dtype
from ncu_swizzle.frontends.request import Given


@dataclass(frozen=True)
class Dtype:
    """A dtype, which prints its name as PyTorch's do."""

    name: str

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return numpy_dtype(self.name).itemsize

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Shaped:
    """What Triton asks of a tensor before it compiles: dtype, address, shape, strides."""

    def __init__(self, given: Given) -> None:
        self.dtype = Dtype(given.dtype)
        self.shape = given.shape

    def data_ptr(self) -> int:
        """Return an address as aligned as the launch's."""
        return 1 << 20

    def stride(self, axis: int | None = None) -> Any:
        """Return the strides in elements, of a tensor that is contiguous."""
        strides = tuple(math.prod(self.shape[number + 1 :]) for number in range(len(self.shape)))
        return strides if axis is None else strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """Return the shape, or one of its sizes."""
        return self.shape if axis is None else self.shape[axis]

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize


def descriptor(given: Given, gluon: bool) -> Any:
    """Return the descriptor of a tensor; Gluon's has a layout, of the swizzle given or the widest that fits the box."""
    base, box = Shaped(given), list(given.box)
    if not gluon:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(base, list(base.shape), list(base.stride()), box)
    from triton.experimental.gluon import nvidia
    from triton.experimental.gluon.language import NVMMASharedLayout

    bits = 8 * base.element_size()
    layout = NVMMASharedLayout.get_default_for(box, SimpleNamespace(primitive_bitwidth=bits))
    if given.swizzle:
        layout = NVMMASharedLayout(swizzle_byte_width=given.swizzle, element_bitwidth=bits, rank=len(box))
    return nvidia.hopper.TensorDescriptor(base, list(base.shape), list(base.stride()), box, layout)


def as_descriptor(name: str, tensor: Shaped) -> str:
    """Return an argument as a tensor descriptor, whose box is the block's shape."""
    sizes = (*tensor.shape, 1, 1)[:2]
    box = "x".join(str(min(64, size)) for size in sizes)
    return f"{name}=tensormap:{tensor.dtype.name}[{','.join(map(str, sizes))}]:box={box}"
