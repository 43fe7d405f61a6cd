"""What a kernel's buffers and scalars hold before a launch: arrays made on the host.

random       floating point: normally distributed; integers: uniform over all values; random%K: uniform in 0 to K - 1
zeros ones   …
arange       0, 1, 2, … in memory order; arange%K (or iota%K) wraps after K - 1
NUMBER       the same number everywhere
FILE.npy     an array saved by NumPy, of the buffer's dtype and shape
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
KINDS = ("random", "random%K", "zeros", "ones", "arange", "iota%K", "a number", "a .npy file", "out")
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8",
    "uint32", "uint64", "uint16", "uint8", "bool",
)  # fmt: skip
Inputs = dict[str, np.ndarray]
DRAWN = 1 << 16


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype; bfloat16 comes from the package ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return np.dtype(name)


def shape(argument: Argument, problem: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, problem) for size in argument.shape)


def scalar(argument: Argument, problem: Mapping[str, int]) -> np.generic:
    """Return a scalar's value in its dtype; raise UsageError if it does not fit."""
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
            f"{whole} does not fit in {argument.dtype}: {least} to {most}",
            f"use another dtype: --arg {argument.name}=int64:{whole}",
        )
    return _cast(dtype, whole)


def _cast(dtype: np.dtype[Any], value: float) -> np.generic:
    number: np.generic = np.full(1, value).astype(dtype)[0]
    return number


def reproducible(argument: Argument) -> bool:
    """Return whether a buffer holds the same before every launch: neither random numbers nor an output's NaN."""
    return bool(argument.fill) and not argument.fill.startswith(RANDOM)


def inputs(family: Family, problem: Mapping[str, int], rng: np.random.Generator) -> Inputs:
    """Return what each buffer holds before a launch, except for outputs poisoned with NaN."""
    return {
        argument.name: array(argument, problem, rng)
        for argument in family.arguments
        if argument.shape and (argument.fill or not argument.output)
    }


def array(argument: Argument, problem: Mapping[str, int], rng: np.random.Generator | None = None) -> np.ndarray:
    """Return a buffer's content in its dtype and shape; `rng` is for buffers that are not `reproducible`."""
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
        # 16 bits have no more values than that: draw them once, then pick from them, which is several times faster.
        drawn = rng.standard_normal(DRAWN, dtype=np.float32).astype(dtype).view(np.uint16)
        chosen = rng.integers(DRAWN, size=math.prod(sizes), dtype=np.uint16)
        return drawn[chosen].view(dtype).reshape(sizes)
    return rng.standard_normal(sizes, dtype=np.float32).astype(dtype)


def _number(text: str) -> float | int:
    """Return a numeric fill's value; raise UsageError if it is not a number."""
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(text)
    raise UsageError(f"unknown fill {text!r}", f"one of {', '.join(KINDS)}")


def normalized(fill: str, folder: Path) -> str:
    """Return a fill as `array` takes it, a file with its absolute path; raise UsageError for an unknown fill."""
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
    """Return the array in a .npy file, memory-mapped; raise BadFile."""
    try:
        stored: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{file} cannot be read: {error}", "write it with numpy.save") from error
    return stored


def refuse_unusable(argument: Argument, problem: Mapping[str, int]) -> None:
    """Raise UsageError if the fill does not suit the buffer: another dtype or shape, a bad modulus, out of range."""
    if argument.fill.endswith(FILE):
        stored, sizes = load(argument.fill), shape(argument, problem)
        if stored.dtype != numpy_dtype(argument.dtype) or (stored.shape or (1,)) != sizes:
            raise UsageError(
                f"{argument.fill} holds {stored.dtype}{list(stored.shape)}, not {argument.dtype}{list(sizes)}",
                f"--arg {argument.name}={argument.fill} uses the file's dtype and shape",
            )
    elif "%" in argument.fill:
        modulus = evaluate(argument.fill.partition("%")[2], problem)
        if modulus < 1:
            raise UsageError(
                f"the fill {argument.fill} has the modulus {modulus}", "iota%32 counts from 0 to 31, then starts over"
            )
    elif argument.fill and numpy_dtype(argument.dtype).kind in "iub":
        _refuse_out_of_range(argument)


def _refuse_out_of_range(argument: Argument) -> None:
    if argument.fill in (RANDOM, *COUNTING, *NAMED):
        return
    number = _number(argument.fill)
    dtype = numpy_dtype(argument.dtype)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if number != int(number) or not least <= number <= most:
        raise UsageError(f"{argument.fill} does not fit in {argument.dtype}", f"{least} to {most}")
