"""What buffers and scalars hold before a launch; and what to type for unknown contents that decide counts."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import stat
import struct as struct_
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import BadFile, Hint, Typed, UsageError, reason, remedy
from ncu_swizzle.base.files import brief, read_bytes
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.kernels.family import BYTES, ML_DTYPES, STRUCT, Argument, Family, Target
from ncu_swizzle.kernels.limits import evaluate

# What a kernel's buffers and scalars hold before a launch: arrays made on the host.
#
# random       floating point: normally distributed; integers: uniform over all values; random%K: uniform in 0 to K - 1
# zeros ones   …
# arange       0, 1, 2, … in memory order; arange%K (or iota%K) wraps after K - 1
# NUMBER       the same number everywhere
# FILE.npy     an array saved by NumPy, of the buffer's dtype and shape
#
# A struct passed by value is given as its bytes, see `arguments`.

FILE = ".npy"
RANDOM, COUNTING = "random", ("arange", "iota")
NAMED = {"zeros": 0, "ones": 1}
KINDS = ("random", "random%K", "zeros", "ones", "arange", "iota%K", "a number", "a .npy file", "out")
Inputs = dict[str, np.ndarray]
DRAWN = 1 << 16
MOST_ELEMENTS, MOST_LANES = 1 << 18, 1 << 17  # of all buffers, and threads, of a small launch
FLAGS = 4  # small integers that are drawn in place of zeros or ones
MOST_PARAMETER = 32764  # bytes of all parameters together, from CUDA 12.1 on
MOST_BYTES = 1 << 40  # of a buffer: no GPU has as much memory
COPIES = 3  # of an array, while it is made: random numbers and what is counted have another dtype first


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype; those that it lacks come from the package ml_dtypes."""
    if name in ML_DTYPES:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype
    return np.dtype(name)


def is_small(target: Target) -> bool:
    """Return whether a launch is executed on the CPU in some seconds."""
    elements = sum(math.prod(shape(each, target.problem)) for each in target.family.arguments if each.shape)
    return elements <= MOST_ELEMENTS and target.threads <= MOST_LANES


def shape(argument: Argument, problem: Mapping[str, int]) -> tuple[int, ...]:
    """Return a buffer's sizes; raise UsageError if no GPU has as much memory."""
    sizes = tuple(evaluate(size, problem) for size in argument.shape)
    taken = math.prod(sizes) * itemsize(argument)
    if taken > MOST_BYTES:
        raise _oversized(argument, taken, f"{MOST_BYTES:,}, more than any GPU has")
    return sizes


def size(argument: Argument, problem: Mapping[str, int]) -> int:
    """Return a buffer's bytes."""
    return math.prod(shape(argument, problem)) * itemsize(argument)


def itemsize(argument: Argument) -> int:
    """Return the bytes of an element."""
    # NumPy needs another package for these, but not for their size.
    return ML_DTYPES.get(argument.dtype) or np.dtype(argument.dtype).itemsize


def _oversized(argument: Argument, taken: int, limit: str) -> UsageError:
    extents = ",".join(argument.shape)
    return UsageError(
        f"{argument.name}={argument.dtype}[{extents}] has {taken:,} bytes; the limit is {limit}",
        Hint("use smaller sizes: ", Typed("--problem NAME=SIZE")),
    )


def _refuse_more_than_memory(argument: Argument, problem: Mapping[str, int]) -> None:
    """Raise UsageError, before anything is allocated, for content that this machine's memory cannot hold."""
    taken = size(argument, problem)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if taken > memory // COPIES:
        raise _oversized(argument, taken, f"{memory // COPIES:,}, a third of this machine's memory")


def scalar(argument: Argument, problem: Mapping[str, int]) -> np.generic:
    """Return a scalar's value in its dtype, or a struct's bytes; raise UsageError if it does not fit."""
    if argument.dtype == BYTES:
        return np.void(_content(argument, problem))
    if argument.dtype == STRUCT:
        return np.void(packed(_fields(argument, problem)))
    if argument.dtype == POINTER:  # the address of a buffer that is not there yet
        return np.uint64(0)
    dtype = numpy_dtype(argument.dtype)
    if dtype.kind not in "iub":
        try:
            value: float = float(argument.value)
        except ValueError:
            value = evaluate(argument.value, problem)
        _refuse_infinite(argument, argument.value, value)
        return _cast(dtype, value)
    whole = evaluate(argument.value, problem)
    least, most = _range(dtype)
    if not least <= whole <= most:
        raise UsageError(
            f"{whole} does not fit in {argument.dtype}: {least} to {most}",
            Hint(
                Typed(f"--arg {argument.name}={argument.dtype}:{min(max(whole, least), most)}"),
                ", or a larger type in the kernel",
            ),
        )
    return _cast(dtype, whole)


def _fields(argument: Argument, problem: Mapping[str, int]) -> list[np.generic]:
    values = []
    for number, field in enumerate(fields_of(argument), 1):
        try:
            values.append(scalar(field, problem))
        except UsageError as error:
            raise UsageError(f"field {number}: {error}", "give the field a value of its type") from error
    return values


def _content(argument: Argument, problem: Mapping[str, int]) -> bytes:
    """Return a struct's bytes: those of its file, or zeros."""
    if argument.fill:
        content = read_bytes(Path(argument.fill), "name a file with the struct's bytes")
        taken = len(content)
    else:
        content, taken = b"", evaluate(argument.value, problem)
    if not 1 <= taken <= MOST_PARAMETER:
        raise UsageError(
            f"{taken:,} bytes: the parameters of a kernel have at most {MOST_PARAMETER:,}",
            Hint("as many as the parameter has: ", Typed(f"--arg {argument.name}=bytes:24")),
        )
    return content or bytes(taken)


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    return (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _cast(dtype: np.dtype[Any], value: float) -> np.generic:
    number: np.generic = np.full(1, value).astype(dtype)[0]
    return number


def reproducible(argument: Argument) -> bool:
    """Return whether a buffer holds the same before every launch: neither random numbers nor an output's NaN."""
    return bool(argument.fill) and not argument.fill.startswith(RANDOM)


def varied(argument: Argument) -> Argument:
    """Return a buffer with random numbers in place of one number everywhere; integers are small, as flags are."""
    kind = argument.fill.partition("%")[0]
    if not argument.shape or kind in ("", RANDOM, *COUNTING) or kind.endswith(FILE):
        return argument
    return replace(argument, fill=RANDOM if floating(argument) else f"{RANDOM}%{FLAGS}")


def floating(argument: Argument) -> bool:
    """Return whether a buffer holds floating-point numbers."""
    return argument.dtype in ML_DTYPES or np.dtype(argument.dtype).kind not in "iub"


def inputs(family: Family, problem: Mapping[str, int], rng: np.random.Generator) -> Inputs:
    """Return what each buffer holds before a launch, except for outputs poisoned with NaN."""
    return {
        argument.name: array(argument, problem, rng)
        for argument in family.arguments
        if argument.shape and (argument.fill or not argument.output)
    }


def array(argument: Argument, problem: Mapping[str, int], rng: np.random.Generator | None = None) -> np.ndarray:
    """Return a buffer's content in its dtype and shape; `rng` is for buffers that are not `reproducible`."""
    _refuse_more_than_memory(argument, problem)
    sizes, dtype = shape(argument, problem), numpy_dtype(argument.dtype)
    kind, _, modulus = argument.fill.partition("%")
    if kind in ("", RANDOM):
        return _random(sizes, dtype, kind=kind, modulus=modulus, problem=problem, rng=rng or np.random.default_rng())
    if kind in COUNTING:
        count = np.arange(math.prod(sizes))
        return (count % evaluate(modulus, problem) if modulus else count).astype(dtype).reshape(sizes)
    if kind.endswith(FILE):
        stored = np.ascontiguousarray(load(argument.fill))
        return (stored.view(dtype) if _bits(argument, stored) else stored.astype(dtype)).reshape(sizes)
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
    for read in (parse_integer, float):
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
        if not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116 - the name is a text; a pipe would block
            raise ValueError("it is not a regular file")
        stored: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {reason(error)}", remedy(error, "write it with numpy.save")) from error
    except (ValueError, EOFError, OverflowError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadFile(f"{file} cannot be read: {brief(error)}", "write it with numpy.save") from error
    if not isinstance(stored, np.ndarray):  # an archive of several
        raise BadFile(f"{file} cannot be read: it is not a single array", "write it with numpy.save")
    return stored


def _bits(argument: Argument, stored: np.ndarray) -> bool:
    """Return whether an array holds numbers that NumPy has no dtype for, as unsigned integers of the same bits."""
    return stored.dtype.kind == "u" and stored.dtype.itemsize == ML_DTYPES.get(argument.dtype)


def refuse_unusable(argument: Argument, problem: Mapping[str, int]) -> None:
    """Raise UsageError if the fill does not suit the buffer: another dtype or shape, a bad modulus, out of range."""
    if argument.fill.endswith(FILE):
        stored, sizes = load(argument.fill), shape(argument, problem)
        fits = _bits(argument, stored) or stored.dtype == numpy_dtype(argument.dtype)
        if not fits or (stored.shape or (1,)) != sizes:
            raise UsageError(
                f"{argument.fill} holds {stored.dtype}{list(stored.shape)}, not {argument.dtype}{list(sizes)}",
                Hint(Typed(f"--arg {argument.name}={argument.fill}"), " uses the file's dtype and shape"),
            )
    elif "%" in argument.fill:
        modulus = evaluate(argument.fill.partition("%")[2], problem)
        if modulus < 1:
            raise UsageError(
                f"the fill {argument.fill} has the modulus {modulus}", "iota%32 counts from 0 to 31, then starts over"
            )
    elif argument.fill not in ("", RANDOM, *COUNTING, *NAMED):
        _refuse_out_of_range(argument)


def _refuse_infinite(argument: Argument, text: str, value: float) -> None:
    """Raise UsageError for a number too large for a floating-point dtype; ``inf`` may be typed."""
    with np.errstate(over="ignore"):
        stored = float(_cast(numpy_dtype(argument.dtype), value))
    if math.isinf(stored) and "inf" not in text.lower():
        extents = f"[{','.join(argument.shape)}]" if argument.shape else ""
        raise UsageError(
            f"{text} does not fit in {argument.dtype}",
            Hint(Typed(f"--arg {argument.name}={argument.dtype}{extents}:inf"), ", or a larger type in the kernel"),
        )


def _refuse_out_of_range(argument: Argument) -> None:
    number = _number(argument.fill)
    dtype = numpy_dtype(argument.dtype)
    if dtype.kind not in "iub":
        _refuse_infinite(argument, argument.fill, number)
        return
    least, most = _range(dtype)
    if not math.isfinite(number) or number != int(number) or not least <= number <= most:
        raise UsageError(f"{argument.fill} does not fit in {argument.dtype}", f"{least} to {most}")


# Parameters passed by value that are neither a number nor a pointer: structs, and CUtensorMaps.
#
#     p=struct:int32:4,float32:1.5,bytes:8                  fields in order, aligned as in C
#     m=tensormap:float16[n,k]:random:box=64x64:swizzle=128     a matrix, through a map made for it
#
# Commas and colons need no quotes in a shell. A front end writes fields ``pointer:BUFFER+BYTES`` too.

MAP = "tensormap"
POINTER = "pointer"  # in place of a field's dtype: an address in the buffer that its value names
SWIZZLES = (0, 32, 64, 128)  # bytes
EXAMPLE = "float16[64,64]:random"  # of a matrix
_SETTING = re.compile(r"\s*(box|swizzle)\s*=")
_BOX, _SWIZZLE = re.compile(r"\s*(\d+)\s*[x,]\s*(\d+)\s*"), re.compile(r"\s*(\d+)\s*")

Reader = Callable[[str], Argument]  # of the text of an argument without its name


def struct(name: str, text: str, read: Reader) -> Argument:
    """Return a struct of the fields in a text, each parsed as a separate argument. Raises UsageError."""
    fields = [read(part) for part in text.split(",")]
    for number, field in enumerate(fields, 1):
        if field.shape or field.fill or field.dtype == STRUCT:
            raise UsageError(
                f"argument {name}: field {number} is not a number: a pointer in a struct is one of 8 bytes",
                Hint(Typed(f"--arg {name}=struct:uint64:0,int32:4"), f", or its bytes from a file: {name}=bytes:FILE"),
            )
    return Argument(name=name, dtype=STRUCT, value=",".join(f"{field.dtype}:{field.value}" for field in fields))


def fields_of(argument: Argument) -> list[Argument]:
    """Return the fields of a struct."""
    parts = (part.partition(":") for part in argument.value.split(","))
    return [Argument(name=argument.name, dtype=dtype, value=value) for dtype, _, value in parts]


def packed(values: list[np.generic]) -> bytes:
    """Return a struct's bytes: every field aligned to its size, the whole to its widest field, gaps zero."""
    dtypes = [value.dtype for value in values]
    layout = np.dtype([(f"f{number}", dtype) for number, dtype in enumerate(dtypes)], align=True)
    content = bytearray(layout.itemsize)
    for value, name in zip(values, layout.names or (), strict=True):
        offset = layout.fields[name][1] if layout.fields else 0
        content[offset : offset + value.dtype.itemsize] = value.tobytes()
    return bytes(content)


def pointing(argument: Argument, content: bytes, addresses: Mapping[str, int]) -> bytes:
    """Return a struct's bytes with the addresses of the buffers that its fields point to, all of 8 bytes then."""
    if argument.dtype != STRUCT or f"{POINTER}:" not in argument.value:
        return content
    pointed = bytearray(content)
    for number, field in enumerate(fields_of(argument)):
        if field.dtype == POINTER:
            name, _, offset = field.value.rpartition("+")
            struct_.pack_into("<Q", pointed, number * 8, addresses[name] + int(offset))
    return bytes(pointed)


def halves(text: str) -> tuple[str, list[str]]:
    """Return the matrix of a tensor map's text, and what follows it: box and swizzle."""
    parts = text.split(":")
    first = len(parts)
    while first and _SETTING.match(parts[first - 1]):
        first -= 1
    return ":".join(parts[:first]), parts[first:]


def tensor_map(name: str, text: str, read: Reader) -> Argument:
    """Return a matrix that the kernel gets as a CUtensorMap. Raises UsageError."""
    matrix, settings = halves(text)
    given = {key.strip(): value for key, _, value in (setting.partition("=") for setting in settings)}
    try:
        argument = read(matrix)
    except UsageError as error:
        raise UsageError(str(error), map_hint(name)) from error
    box, swizzle = _BOX.fullmatch(given.get("box", "")), _SWIZZLE.fullmatch(given.get("swizzle", "0"))
    if len(argument.shape) != 2 or box is None or swizzle is None or int(swizzle[1]) not in SWIZZLES:
        raise UsageError(
            f"argument {name} is not a valid tensor map: it takes a matrix, a box of rows x columns, and a swizzle of "
            f"{', '.join(map(str, SWIZZLES))} bytes",
            map_hint(name),
        )
    return replace(argument, tensor_map=True, box=(int(box[1]), int(box[2])), swizzle=int(swizzle[1]))


def map_text(argument: Argument, matrix: str) -> str:
    """Return a tensor map as it is written, given its matrix as that is."""
    rows, columns = argument.box
    return f"{MAP}:{matrix}:box={rows}x{columns}:swizzle={argument.swizzle}"


def map_hint(name: str) -> Typed:
    """Return a tensor map that can be typed."""
    return Typed(f"--arg {name}={MAP}:{EXAMPLE}:box=64x64:swizzle=128")


# What to type for unknown contents.

FAR = 1 << 40  # an address, aligned and far from all buffers
_POINTERS = re.compile("ptr|pointer|addr", re.IGNORECASE)


def options(arguments: Sequence[Argument], decisive: Collection[str] = ()) -> str:
    """Return the options that give known contents to the buffers that decide something.

    If those are not known: to one buffer without, an input of integers before any other. Empty if all contents are.
    """
    chosen = _unknown(arguments, decisive)
    return shlex.join(part for argument in chosen for part in ("--arg", _given(argument)))


def drawable(arguments: Sequence[Argument], decisive: Collection[str] = ()) -> bool:
    """Return whether there are unknown contents that random data can replace: not if they are addresses."""
    unknown = _unknown(arguments, decisive)
    return bool(unknown) and not any(map(_holds_addresses, unknown))


def or_random(arguments: Sequence[Argument], decisive: Collection[str] = ()) -> str:
    """Return what takes random data for unknown contents, after the options; empty if they are addresses."""
    return "; or --sample 1 for random data" if drawable(arguments, decisive) else ""


def _unknown(arguments: Sequence[Argument], decisive: Collection[str]) -> list[Argument]:
    unknown = [argument for argument in arguments if argument.shape and not reproducible(argument)]
    if decisive:
        return [argument for argument in unknown if argument.name in decisive]
    return sorted(unknown, key=lambda argument: (argument.output, argument.dtype[0] not in "iu"))[:1]


def _given(argument: Argument) -> str:
    """Return a buffer with contents that can be typed: small numbers, or an address that is not one of the launch's."""
    fill = str(FAR) if _holds_addresses(argument) else "iota%256"
    return f"{argument.name}={argument.dtype}[{','.join(argument.shape)}]:{fill}{':out' if argument.output else ''}"


def _holds_addresses(argument: Argument) -> bool:
    """Return whether a buffer's name says that it holds pointers: indices have 64 bits, too."""
    return argument.dtype in ("int64", "uint64") and _POINTERS.search(argument.name) is not None
