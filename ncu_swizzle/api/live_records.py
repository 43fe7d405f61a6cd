"""Arrays of structured dtypes: passed on as bytes, with the name of their dtype in the function's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ncu_swizzle.errors import UsageError


def is_record(value: object) -> bool:
    """Return whether a value is an array whose elements have fields."""
    fields = getattr(getattr(value, "dtype", None), "names", None)
    return fields is not None and hasattr(value, "shape") and not isinstance(value, np.generic)


def as_bytes(array: Any) -> np.ndarray:
    """Return an array's bytes, those of an element along the last axis."""
    held = np.ascontiguousarray(array)
    return held.view(np.uint8).reshape(*held.shape, held.dtype.itemsize)


def names(passed: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """Return what the file calls the dtypes of such arrays, by argument. Raises UsageError for one without a name."""
    dtypes = {name: thing for name, thing in known.items() if isinstance(thing, np.dtype)}
    found = {}
    for name, value in passed.items():
        if not is_record(value):
            continue
        fitting = [own for own, dtype in dtypes.items() if dtype == value.dtype]
        if not fitting:
            raise UsageError(
                f"{name} has a structured dtype without a name in the function's file",
                "assign it there: particle = np.dtype([…])",
            )
        found[name] = fitting[0]
    return found
