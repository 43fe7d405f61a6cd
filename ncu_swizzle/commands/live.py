"""A function of the caller's own, with tensors and numbers, as the texts that describe a kernel.

The function is compiled in another process, from its file. Tensors go there as files, with what they hold; a text such
as ``"float16[2048,2048]"`` describes one that does not exist yet.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import Texts, listed
from ncu_swizzle.kernels.family import ML_DTYPES
from ncu_swizzle.kernels.options import KernelDescription

_SHAPED = re.compile(r"\s*\w+\s*\[[^\]]*\]")


@dataclass(frozen=True, kw_only=True)
class LiveKernel:
    """A function with its arguments by parameter, and the compiler's options."""

    function: Any
    passed: Mapping[str, Any]
    options: Mapping[str, Any]
    outputs: tuple[str, ...] = ()

    @property
    def entry(self) -> str:
        """The function as it is named on the command line."""
        return entry_of(self.function)

    def description(self, typed: KernelDescription, folder: Path) -> KernelDescription:
        """Return what was typed, with its arguments; contents of tensors go to files in the folder."""
        texts = tuple(f"{name}={self._text(name, value, folder)}" for name, value in self.passed.items())
        tuning = (*typed.tuning, *(f"{name}={value}" for name, value in self.options.items()))
        return replace(typed, launch=replace(typed.launch, args=texts), tuning=tuning)

    def _text(self, name: str, value: Any, folder: Path) -> str:
        """Return an argument as it is typed after its name."""
        out = ":out" if name in self.outputs else ""
        if isinstance(value, str) and _SHAPED.match(value):
            return value if ":" in value or not out else f"{value}{out}"
        if not is_tensor(value):
            return value if isinstance(value, str) else repr(value)
        dtype, shape = _dtype(value), tuple(value.shape) or (1,)
        if out:
            return f"{dtype}[{','.join(map(str, _laid(value, shape)))}]{out}"
        if str(getattr(value, "device", "")) == "meta":
            return f"{dtype}[{','.join(map(str, shape))}]"
        array = _bits(value)
        file = folder / f"{name}.npy"
        np.save(file, array)
        return f"{dtype}[{','.join(map(str, array.shape))}]:{file}"


def is_function(kernel: object) -> TypeGuard[Callable[..., Any]]:
    """Return whether this is a function, and not a kernel's name or file."""
    return not isinstance(kernel, str | Path)


def live_kernel(kernel: object, outputs: Texts, keywords: dict[str, Any], known: Sequence[str]) -> LiveKernel | None:
    """Return a function with its arguments, taken out of the keywords; None for anything else.

    They go by position or name; a keyword that is not `known` is one of them, or an option of its compiler. A grid that
    is a function of them stays in the keywords as what it returns.
    """
    if not is_function(kernel):
        if isinstance(kernel, str) and "\n" in kernel:  # lines are those of the file that holds it
            raise UsageError(
                "the kernel is a text of several lines, and no name",
                "write CUDA C++ to a .cu file, and name that",
            )
        return None
    args = keywords.pop("args", ())
    plain = _plain(kernel)
    names = list(inspect.signature(plain).parameters)
    if isinstance(args, Mapping):
        passed = dict(args)
    else:
        values = [args] if isinstance(args, str) else list(args)
        if len(values) > len(names):
            raise UsageError(
                f"{plain.__name__} takes {len(names)} arguments, {len(values)} were given", ", ".join(names)
            )
        passed = dict(zip(names, values, strict=False))
    own = {name: keywords.pop(name) for name in list(keywords) if name in names or name not in known}
    passed |= {name: value for name, value in own.items() if name in names}
    options = {name: value for name, value in own.items() if name not in names}
    grid = keywords.get("grid", "")
    if not isinstance(grid, str):
        blocks = grid({**passed, **options}) if callable(grid) else grid
        keywords["grid"] = ",".join(map(str, np.atleast_1d(blocks)))
    return LiveKernel(function=kernel, passed=passed, options=options, outputs=listed(outputs))


def entry_of(function: Any) -> str:
    """Return a function as ``FILE::NAME``; raise UsageError for one that no file holds."""
    plain = _plain(function)
    file, name = Path(plain.__code__.co_filename), plain.__qualname__
    if not file.is_file():
        raise UsageError(
            f"{name} is in no file: {file}", "write it to one: in a notebook, %%writefile kernels.py, then import it"
        )
    # The variables that hold it: maybe another function made it.
    bound = [variable for variable, thing in plain.__globals__.items() if thing is function]
    if "." in name and not bound:
        raise UsageError(f"{name} is defined inside of another function or class", "define it at the top of its file")
    return f"{file}::{name if name in bound or not bound else bound[0]}"


def is_tensor(value: object) -> bool:
    """Return whether a value is an array or a tensor."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def _plain(function: Any) -> Any:
    """Return the Python function inside of its decorators."""
    plain = inspect.unwrap(function)
    for _ in range(10):
        if hasattr(plain, "__code__"):
            return plain
        plain = getattr(plain, "py_func", None) or getattr(plain, "fn", None)
    raise UsageError(
        f"{type(function).__name__} is neither a kernel's name nor a function",
        "give the name of a kernel, a file, or a function decorated by triton.jit, cute.jit or numba.cuda.jit",
    )


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _laid(tensor: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tensor's memory, which is flat if there are gaps between its rows."""
    strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else None
    if strides is None:
        return shape
    # Row-major: the stride of a dimension is the product of the sizes behind it.
    usual = tuple(itertools.accumulate((1, *reversed(shape[1:])), lambda total, size: total * size))[::-1]
    if tuple(strides) == usual or math.prod(shape) <= 1:
        return shape
    # From the first element to the last one, gaps included.
    return (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)),)


def _bits(tensor: Any) -> np.ndarray:
    """Return a tensor's memory as a NumPy array; types that NumPy lacks become unsigned integers."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor)
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    host = tensor.detach()
    laid = _laid(host, tuple(host.shape))
    flat = host if laid == tuple(host.shape) else host.as_strided(laid, (1,))
    if bytes_ := ML_DTYPES.get(_dtype(tensor)):
        import torch

        # NumPy has no such dtype, so the bits go over as integers; int16, which every PyTorch has, unlike uint16.
        integers = flat.cpu().contiguous().view({1: torch.uint8, 2: torch.int16}[bytes_]).numpy()
        return np.atleast_1d(integers.view({1: np.uint8, 2: np.uint16}[bytes_]))
    return np.atleast_1d(flat.cpu().contiguous().numpy())
