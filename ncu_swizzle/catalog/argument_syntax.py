"""The syntax of kernel arguments on the command line (``--arg``) and in ncu-swizzle.toml (``args``).

    [NAME=]DTYPE[SHAPE][:FILL][:out]   a buffer: x=float32[n,n]:random   y=float32[n,n]:out   h=int32[256]:zeros:out
    [NAME=]FILE.npy                    a buffer with the file's dtype and shape
    [NAME=]DTYPE:VALUE                 a scalar: n=int32:4096   rows=int64:n*n   eps=float32:1e-5
    [NAME=]VALUE                       a scalar as a C literal: 4096 is an int; 4096u, 4096ll, 1.5f, 1.5, true
    [NAME=]bytes:SIZE                  a struct by value, all bytes zero: p=bytes:24
    [NAME=]bytes:FILE                  a struct by value, its bytes from a file: p=bytes:params.bin
    [NAME=]struct:FIELD,FIELD…         a struct by value, of scalars: p=struct:int32:4,float32:1.5
    [NAME=]tensormap:BUFFER:box=RxC    a matrix through a CUtensorMap, see `by_value`

One argument per kernel parameter, in order. Sizes and integers are expressions over the problem's sizes. `fills` lists
the possible values of FILL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ncu_swizzle.catalog import by_value, fills
from ncu_swizzle.catalog.expressions import undefined
from ncu_swizzle.catalog.family import BYTES, DTYPES, STRUCT, Argument
from ncu_swizzle.errors import BadCatalog, UsageError, did_you_mean

EXAMPLE = "--arg x=float32[1024]:random --arg y=float32[1024]:out --arg n=int32:1024"
OUT = "out"
T = TypeVar("T")

# C's names for NumPy's dtypes.
ALIASES = {
    "float": "float32", "double": "float64", "half": "float16", "__half": "float16", "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "int": "int32", "unsigned": "uint32", "uint": "uint32", "short": "int16", "ushort": "uint16",
    "char": "int8", "uchar": "uint8", "long": "int64", "size_t": "uint64",
}  # fmt: skip

# The suffixes of C's integer literals, and the dtype of each.
SUFFIXES = {"": "int32", "u": "uint32", "l": "int64", "ll": "int64", "ul": "uint64", "ull": "uint64"}
DEFAULT_TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}

_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<rest>.*)", re.DOTALL)
_BUFFER = re.compile(r"(?P<dtype>\w+)\s*\[(?P<shape>[^\]]*)\]\s*(?::(?P<fill>.*))?", re.DOTALL)
_SCALAR = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\s*:(?P<value>.*)", re.DOTALL)
_REAL = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?(?P<single>[fF]?)")
_INTEGER = re.compile(r"(?P<digits>[-+]?\d+)(?P<suffix>[uUlL]*)")


def parse_arguments(
    texts: Sequence[str], folder: Path, problem: Mapping[str, int], tolerances: Mapping[str, float] | None = None
) -> tuple[Argument, ...]:
    """Return the arguments, with file names relative to `folder`. Raises UsageError, which names the argument.

    `tolerances` are the largest allowed relative errors by output; the other outputs get their dtype's default.
    """
    arguments = tuple(_argument(text, number, folder) for number, text in enumerate(texts, 1))
    for argument in arguments:
        if [other.name for other in arguments].count(argument.name) > 1:
            raise UsageError(f"two arguments are called {argument.name!r}", "give each its own name: --arg NAME=…")
        _refuse_unusable(argument, problem)
    return _with_tolerances(arguments, tolerances or {})


def _argument(text: str, number: int, folder: Path) -> Argument:
    named = _NAME.fullmatch(text.strip())
    name, rest = (named["name"], named["rest"].strip()) if named else ("", text.strip())
    label = f"argument {number} ({text!r})"
    kind, _, value = rest.partition(":")
    if kind.strip() in (STRUCT, by_value.MAP):
        made = by_value.struct if kind.strip() == STRUCT else by_value.tensor_map
        given = name or f"arg{number}"
        return made(given, value, lambda part: _argument(f"{given}={part.strip()}", number, folder))
    if buffer := _BUFFER.fullmatch(rest):
        return _buffer(name or f"arg{number}", buffer, label, folder)
    scalar = _SCALAR.fullmatch(rest)
    if scalar and scalar["dtype"] == BYTES and scalar["value"].strip():
        return _struct(name or f"arg{number}", scalar["value"].strip(), folder)
    if rest.endswith(fills.FILE):
        return _file(name or f"arg{number}", rest, label, folder)
    if scalar and scalar["value"].strip():
        dtype = _dtype(scalar["dtype"], label)
        return Argument(name or f"arg{number}", dtype, value=scalar["value"].strip())
    return _bare_scalar(name, number, rest, label)


def _struct(name: str, text: str, folder: Path) -> Argument:
    """Return a struct by value: of a size, or with a file's bytes; an expression has no dot, a file mostly does."""
    if not text.isdecimal() and ("." in text or (folder / text).is_file()):
        return Argument(name, BYTES, fill=str((folder / text).absolute()))
    return Argument(name, BYTES, value=text)


def _bare_scalar(name: str, number: int, text: str, label: str) -> Argument:
    """Return a scalar without a dtype; a bare name of a size also names the argument."""
    usual = name or (text if text.isidentifier() else f"arg{number}")
    if text in ("true", "false"):
        return Argument(name or f"arg{number}", "bool", value=str(int(text == "true")))
    if real := _REAL.fullmatch(text):
        return Argument(usual, "float32" if real["single"] else "float64", value=text.rstrip("fF"))
    if (integer := _INTEGER.fullmatch(text)) and integer["suffix"].lower() in SUFFIXES:
        return Argument(usual, SUFFIXES[integer["suffix"].lower()], value=integer["digits"])
    if not text or ":" in text or "[" in text or "=" in text:
        raise UsageError(f"{label} is not a valid argument", EXAMPLE)
    return Argument(usual, "int32", value=text)


def _buffer(name: str, match: re.Match[str], label: str, folder: Path) -> Argument:
    shape = tuple(size.strip() for size in match["shape"].split(","))
    if not all(shape):
        raise UsageError(f"{label} has an empty size in its shape", f"--arg {name}=float32[1024]:random")
    fill, output = _ending((match["fill"] or "").strip())
    dtype = _dtype(match["dtype"], label)
    if match["fill"] is None:
        raise UsageError(
            f"{label} does not say how to fill the buffer",
            f"--arg {name}={dtype}[{','.join(shape)}]:random for an input, :out for an output; also "
            f"{', '.join(fills.KINDS)}",
        )
    if fill or not output:
        fill = _labelled(lambda: fills.normalized(fill, folder), label)
    return Argument(name, dtype, shape, output=output, fill=fill)


def _ending(text: str) -> tuple[str, bool]:
    """Return the fill of a buffer, and whether the buffer is an output."""
    if text == OUT:
        return "", True
    return (text.removesuffix(f":{OUT}"), True) if text.endswith(f":{OUT}") else (text, False)


def _file(name: str, text: str, label: str, folder: Path) -> Argument:
    fill = _labelled(lambda: fills.normalized(text, folder), label)
    array = _labelled(lambda: fills.load(fill), label)
    return Argument(name, _dtype(array.dtype.name, label), tuple(map(str, array.shape or (1,))), fill=fill)


def _dtype(name: str, label: str) -> str:
    dtype = ALIASES.get(name, name)
    if dtype == BYTES:
        raise UsageError(f"{label}: bytes are a struct passed by value", "--arg p=bytes:24, or a file: p=bytes:FILE")
    if dtype not in DTYPES:
        raise UsageError(
            f"{label}: unknown dtype {name!r}{did_you_mean(name, (*DTYPES, *ALIASES))}",
            f"one of {', '.join(DTYPES)}; for example {EXAMPLE}",
        )
    return dtype


def _labelled(read: Callable[[], T], label: str) -> T:
    try:
        return read()
    except UsageError as error:
        raise UsageError(f"{label}: {error}", error.hint) from error


def _refuse_unusable(argument: Argument, problem: Mapping[str, int]) -> None:
    """Raise UsageError if a size or a value of the argument is invalid for this problem."""
    try:
        if not argument.shape:
            fills.scalar(argument, problem)
            return
        sizes = fills.shape(argument, problem)
        if min(sizes) < 1:
            raise UsageError(f"the shape {list(sizes)} is empty", "every size must be at least 1: --problem NAME=SIZE")
        fills.refuse_unusable(argument, problem)
    except (BadCatalog, UsageError) as error:
        hint = undefined(error) if isinstance(error, BadCatalog) else _spelled(error, argument).hint
        raise UsageError(f"argument {argument.name}: {error}", hint) from error


def _spelled(error: UsageError, argument: Argument) -> UsageError:
    return by_value.of_map(error, argument) if argument.box else error


def text_of(argument: Argument) -> str:
    """Return an argument as it is written."""
    if not argument.shape:
        return f"{argument.name}={argument.dtype}:{argument.value or argument.fill}"
    ending = ":".join([*([argument.fill] if argument.fill else []), *([OUT] if argument.output else [])])
    buffer = f"{argument.dtype}[{','.join(argument.shape)}]:{ending or fills.RANDOM}"
    return f"{argument.name}={by_value.map_text(argument, buffer) if argument.box else buffer}"


def _with_tolerances(arguments: Sequence[Argument], tolerances: Mapping[str, float]) -> tuple[Argument, ...]:
    outputs = [argument.name for argument in arguments if argument.output]
    for name in tolerances:
        if name not in outputs:
            raise UsageError(
                f"tolerance: {name!r} is not an output",
                f"outputs: {', '.join(outputs) or 'none; y=float32[n]:out is one'}",
            )
    return tuple(
        replace(argument, tolerance=tolerances.get(argument.name, DEFAULT_TOLERANCE.get(argument.dtype, 0.0)))
        if argument.output
        else argument
        for argument in arguments
    )
