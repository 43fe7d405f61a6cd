"""What a kernel's buffers hold before a launch, and its scalars: arrays made on the host.

random       floating point: normal random numbers; integers: all values alike; with %K: 0 to K - 1
zeros ones   …
arange       0, 1, 2, … in memory's order; arange%K (or iota%K) begins again after K - 1
NUMBER       the same number everywhere
FILE.npy     what NumPy saved: the buffer's dtype and shape
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.family import Argument, Family
from ncu_swizzle.errors import BadFile, UsageError

FILE = ".npy"
RANDOM, COUNTING = "random", ("arange", "iota")
NAMED = {"zeros": 0, "ones": 1}
KINDS = ("random", "random%K", "zeros", "ones", "arange", "iota%K", "a number", "a file .npy", "out")
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8",
    "uint32", "uint64", "uint16", "uint8", "bool",
)  # fmt: skip
Inputs = dict[str, np.ndarray]
DRAWN = 1 << 16


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype; bfloat16 is that of the package ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return np.dtype(name)


def shape(argument: Argument, problem: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, problem) for size in argument.shape)


def scalar(argument: Argument, problem: Mapping[str, int]) -> np.generic:
    """Return a scalar's value in its dtype; raise UsageError where it does not fit in."""
    dtype = numpy_dtype(argument.dtype)
    if dtype.kind not in "iub":
        try:
            value: float = float(argument.value)
        except ValueError:
            value = evaluate(argument.value, problem)
        return _cast(dtype, value)
    whole = evaluate(argument.value, problem)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not least <= whole <= most:
        raise UsageError(
            f"{whole} is no {argument.dtype}: {least} to {most}", f"another dtype: --arg {argument.name}=int64:{whole}"
        )
    return _cast(dtype, whole)


def _cast(dtype: np.dtype[Any], value: float) -> np.generic:
    number: np.generic = np.full(1, value).astype(dtype)[0]
    return number


def reproducible(argument: Argument) -> bool:
    """Return whether a buffer's content before a launch is the same every time: not random, and not an output's NaN."""
    return bool(argument.fill) and not argument.fill.startswith(RANDOM)


def inputs(family: Family, problem: Mapping[str, int], rng: np.random.Generator) -> Inputs:
    """Return what every buffer holds before a launch, but for outputs that hold NaN then."""
    return {
        argument.name: array(argument, problem, rng)
        for argument in family.arguments
        if argument.shape and (argument.fill or not argument.output)
    }


def array(argument: Argument, problem: Mapping[str, int], rng: np.random.Generator | None = None) -> np.ndarray:
    """Return a buffer's content, in its dtype and shape; `rng` is for those that are not `known`."""
    sizes, dtype = shape(argument, problem), numpy_dtype(argument.dtype)
    kind, _, modulus = argument.fill.partition("%")
    if kind in ("", RANDOM):
        return _random(sizes, dtype, kind, modulus, problem, rng or np.random.default_rng())
    if kind in COUNTING:
        count = np.arange(math.prod(sizes))
        return (count % evaluate(modulus, problem) if modulus else count).astype(dtype).reshape(sizes)
    if kind.endswith(FILE):
        return np.asarray(load(argument.fill)).astype(dtype).reshape(sizes)
    return np.full(sizes, NAMED[kind] if kind in NAMED else _number(kind), dtype)


def _random(
    sizes: tuple[int, ...],
    dtype: np.dtype[Any],
    kind: str,
    modulus: str,
    problem: Mapping[str, int],
    rng: np.random.Generator,
) -> np.ndarray:
    if modulus:
        return rng.integers(evaluate(modulus, problem), size=sizes).astype(dtype)
    if kind and dtype.kind == "b":
        return rng.integers(2, size=sizes).astype(dtype)
    if kind and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, size=sizes, dtype=dtype, endpoint=True)
    if dtype.itemsize == 2 and math.prod(sizes) > DRAWN:
        # A number of 16 bits has no more values than that: drawn once, then chosen among, several times as fast.
        drawn = rng.standard_normal(DRAWN, dtype=np.float32).astype(dtype).view(np.uint16)
        chosen = rng.integers(DRAWN, size=math.prod(sizes), dtype=np.uint16)
        return drawn[chosen].view(dtype).reshape(sizes)
    return rng.standard_normal(sizes, dtype=np.float32).astype(dtype)


def _number(text: str) -> float | int:
    """Return the number that a fill is; raise UsageError where it is none."""
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(text)
    raise UsageError(f"unknown fill {text!r}", f"one of {', '.join(KINDS)}")


def normalized(fill: str, folder: Path) -> str:
    """Return a fill as `array` takes it, a file with its whole path; raise UsageError where there is no such fill."""
    kind, percent, modulus = fill.partition("%")
    if fill.endswith(FILE):
        return str((folder / fill).absolute())
    if kind in (RANDOM, *COUNTING) and bool(percent) == bool(modulus.strip()):
        return fill
    if fill in NAMED:
        return fill
    _number(fill)
    return fill


def load(file: str) -> np.ndarray:
    """Return the array of a .npy file, not yet read into memory; raise BadFile."""
    try:
        array_: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{file} cannot be read: {error}", "numpy.save writes such a file") from error
    return array_


def refuse_unusable(argument: Argument, problem: Mapping[str, int]) -> None:
    """Raise UsageError where a buffer cannot be filled so: a file of another kind, no modulus."""
    if argument.fill.endswith(FILE):
        stored, sizes = load(argument.fill), shape(argument, problem)
        if stored.dtype != numpy_dtype(argument.dtype) or (stored.shape or (1,)) != sizes:
            raise UsageError(
                f"{argument.fill} holds {stored.dtype}{list(stored.shape)}, not {argument.dtype}{list(sizes)}",
                f"--arg {argument.name}={argument.fill} takes it as it is",
            )
    elif "%" in argument.fill:
        modulus = evaluate(argument.fill.partition("%")[2], problem)
        if modulus < 1:
            raise UsageError(f"the fill {argument.fill} counts to {modulus}", "iota%32 counts 0 to 31, and again")
    elif argument.fill and numpy_dtype(argument.dtype).kind in "iub":
        _refuse_out_of_range(argument)


def _refuse_out_of_range(argument: Argument) -> None:
    if argument.fill in (RANDOM, *COUNTING, *NAMED):
        return
    number = _number(argument.fill)
    dtype = numpy_dtype(argument.dtype)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if number != int(number) or not least <= number <= most:
        raise UsageError(f"{argument.fill} is no {argument.dtype}", f"{least} to {most}")
