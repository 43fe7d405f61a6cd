"""Arrays of structured dtypes: given as bytes, and the name of the dtype in the file (``--option p=particle``)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ncu_swizzle.catalog.fills import numpy_dtype
from ncu_swizzle.errors import UsageError
from ncu_swizzle.frontends.request import CompileRequest, Given


def elements(argument: Given, request: CompileRequest, module: ModuleType) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return an array's dtype and shape; the last axis of bytes is an element of a structured dtype's."""
    if not argument.record:
        return numpy_dtype(argument.dtype), argument.shape
    dtype = _named(argument, request, module)
    if argument.dtype != "uint8" or argument.shape[-1] != dtype.itemsize:
        outer = argument.shape[:-1] if argument.dtype == "uint8" and argument.shape[1:] else argument.shape
        shape = ",".join(map(str, (*outer, dtype.itemsize)))
        raise UsageError(
            f"{request.name}: {argument.name} is {argument.dtype}{list(argument.shape)}, and {argument.record} has "
            f"{dtype.itemsize} bytes",
            f"its elements as bytes: --arg {argument.name}=uint8[{shape}]",
        )
    return dtype, argument.shape[:-1]


def _named(argument: Given, request: CompileRequest, module: ModuleType) -> np.dtype[Any]:
    """Return a dtype of the file: NumPy's, or Numba's record type. Raises UsageError."""
    from numba import types
    from numba.np import numpy_support

    named = getattr(module, argument.record, None)
    if isinstance(named, types.Record):
        made: np.dtype[Any] = numpy_support.as_dtype(named)
        return made
    if isinstance(named, np.dtype):
        return named
    known = [name for name, thing in vars(module).items() if isinstance(thing, np.dtype | types.Record)]
    raise UsageError(
        f"{request.name}: {argument.record} is no dtype of the file"
        + (f"; its dtypes: {', '.join(known)}" * bool(known)),
        f"--option {argument.name}={known[0]}" if known else f"leave out --option {argument.name}=…",
    )
