"""Kernel arguments as they are typed; and a kernel written in Python as a family, before its file is imported."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ncu_swizzle.base.errors import BadCatalog, Hint, Typed, UsageError, did_you_mean
from ncu_swizzle.kernels import fills, limits
from ncu_swizzle.kernels.family import BYTES, DTYPES, LITERAL, STRUCT, Argument, Family, LaunchTexts
from ncu_swizzle.kernels.limits import undefined

if TYPE_CHECKING:
    from ncu_swizzle.kernels.project import KernelSpec


# The syntax of kernel arguments on the command line (``--arg``) and in ncu-swizzle.toml (``args``).
#
#     [NAME=]DTYPE[SHAPE][:FILL][:out]   a buffer: x=float32[n,n]:random   y=float32[n,n]:out   h=int32[256]:zeros:out
#     [NAME=]FILE.npy                    a buffer with the file's dtype and shape
#     [NAME=]DTYPE:VALUE                 a scalar: n=int32:4096   rows=int64:n*n   eps=float32:1e-5
#     [NAME=]VALUE                       a scalar as a C literal: 4096 is an int; 4096u, 4096ll, 1.5f, 1.5, true
#     [NAME=]nullptr                     a pointer to nothing
#     [NAME=]bytes:SIZE                  a struct by value, all bytes zero: p=bytes:24
#     [NAME=]bytes:FILE                  a struct by value, its bytes from a file: p=bytes:params.bin
#     [NAME=]struct:FIELD,FIELD…         a struct by value, of scalars: p=struct:int32:4,float32:1.5
#     [NAME=]tensormap:BUFFER:box=RxC    a matrix through a CUtensorMap, see `fills`
#
# One argument per kernel parameter, in order. Sizes and integers are expressions over the problem's sizes. `fills`
# lists the possible values of FILL.

EXAMPLE = Typed("--arg x=float32[1024]:random --arg y=float32[1024]:out --arg n=int32:1024")
OUT = "out"
NULLS = ("nullptr", "NULL")
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
            raise _called_alike(argument.name)
        _refuse_unusable(argument, problem)
    return _with_tolerances(arguments, tolerances or {})


def _called_alike(name: str) -> UsageError:
    return UsageError(f"two arguments are called {name!r}", Hint("give each its own name: ", Typed("--arg NAME=…")))


def _argument(text: str, number: int, folder: Path) -> Argument:
    named = _NAME.fullmatch(text.strip())
    given, rest = (named["name"], named["rest"].strip()) if named else ("", text.strip())
    name, label = given or f"arg{number}", f"argument {number} ({text!r})"
    kind, _, value = rest.partition(":")
    if kind.strip() in (STRUCT, fills.MAP):
        parser = fills.struct if kind.strip() == STRUCT else fills.tensor_map
        return parser(name, value, lambda part: _argument(f"{name}={part.strip()}", number, folder))
    if buffer := _BUFFER.fullmatch(rest):
        return _buffer(name, buffer, label, folder)
    scalar = _SCALAR.fullmatch(rest)
    if scalar and scalar["dtype"] == BYTES and scalar["value"].strip():
        return _struct(name, scalar["value"].strip(), folder)
    if rest.endswith(fills.FILE):
        return _file(name, rest, label, folder)
    if scalar and scalar["value"].strip():
        return Argument(name=name, dtype=_dtype(scalar["dtype"], label), value=scalar["value"].strip())
    return _bare_scalar(name, given or (rest if rest.isidentifier() else name), rest, label)


def _struct(name: str, text: str, folder: Path) -> Argument:
    """Return a struct by value: of a size, or with a file's bytes; an expression has no dot, a file mostly does."""
    if not text.isdecimal() and ("." in text or (folder / text).is_file()):
        return Argument(name=name, dtype=BYTES, fill=str((folder / text).absolute()))
    return Argument(name=name, dtype=BYTES, value=text)


def _bare_scalar(name: str, usual: str, text: str, label: str) -> Argument:
    """Return a scalar without a dtype; a bare name of a size also names the argument, as `usual` says."""
    if text in NULLS:
        return Argument(name=name, dtype=fills.POINTER, value=text)
    if text in ("true", "false"):
        return Argument(name=name, dtype="bool", value=str(int(text == "true")))
    if real := _REAL.fullmatch(text):
        return Argument(name=usual, dtype="float32" if real["single"] else "float64", value=text.rstrip("fF"))
    if (integer := _INTEGER.fullmatch(text)) and integer["suffix"].lower() in SUFFIXES:
        return Argument(name=usual, dtype=SUFFIXES[integer["suffix"].lower()], value=integer["digits"])
    if not text or ":" in text or "[" in text or "=" in text:
        raise UsageError(f"{label} is not a valid argument", EXAMPLE)
    return Argument(name=usual, dtype="int32", value=text)


def _buffer(name: str, match: re.Match[str], label: str, folder: Path) -> Argument:
    shape = tuple(size.strip() for size in match["shape"].split(","))
    if not all(shape):
        raise UsageError(f"{label} has an empty size in its shape", Typed(f"--arg {name}=float32[1024]:random"))
    fill, output = _ending((match["fill"] or "").strip())
    dtype = _dtype(match["dtype"], label)
    if match["fill"] is None:
        raise UsageError(
            f"{label} does not say how to fill the buffer",
            Hint(
                Typed(f"--arg {name}={dtype}[{','.join(shape)}]:random"),
                f" for an input, :out for an output; also {', '.join(fills.KINDS)}",
            ),
        )
    if fill or not output:
        fill = _labelled(lambda: fills.normalized(fill, folder), label)
    return Argument(name=name, dtype=dtype, shape=shape, output=output, fill=fill)


def _ending(text: str) -> tuple[str, bool]:
    """Return the fill of a buffer, and whether the buffer is an output."""
    if text == OUT:
        return "", True
    return (text.removesuffix(f":{OUT}"), True) if text.endswith(f":{OUT}") else (text, False)


def _file(name: str, text: str, label: str, folder: Path) -> Argument:
    fill = _labelled(lambda: fills.normalized(text, folder), label)
    array = _labelled(lambda: fills.load(fill), label)
    return Argument(
        name=name, dtype=_dtype(array.dtype.name, label), shape=tuple(map(str, array.shape or (1,))), fill=fill
    )


def _dtype(name: str, label: str) -> str:
    dtype = ALIASES.get(name, name)
    if dtype == BYTES:
        raise UsageError(
            f"{label}: bytes are a struct passed by value", Hint(Typed("--arg p=bytes:24"), ", or a file: p=bytes:FILE")
        )
    if dtype not in DTYPES:
        raise UsageError(
            f"{label}: unknown dtype {name!r}{did_you_mean(name, (*DTYPES, *ALIASES))}",
            Hint(f"one of {', '.join(DTYPES)}; for example ", EXAMPLE),
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
            raise UsageError(
                f"the shape {list(sizes)} is empty",
                Hint("every size must be at least 1: ", Typed("--problem NAME=SIZE")),
            )
        fills.refuse_unusable(argument, problem)
    except (BadCatalog, UsageError) as error:
        hint = undefined(error) if isinstance(error, BadCatalog) else error.hint
        if argument.box and hint.startswith("--arg "):  # of the matrix alone
            hint = fills.map_hint(argument.name)
        raise UsageError(f"argument {argument.name}: {error}", hint) from error


def text_of(argument: Argument) -> str:
    """Return an argument as it is written."""
    if argument.dtype == fills.POINTER:
        return f"{argument.name}={NULLS[0]}"
    if not argument.shape:
        return f"{argument.name}={argument.dtype}:{argument.value or argument.fill}"
    ending = ":".join([*([argument.fill] if argument.fill else []), *([OUT] if argument.output else [])])
    buffer = f"{argument.dtype}[{','.join(argument.shape)}]:{ending or fills.RANDOM}"
    return f"{argument.name}={fills.map_text(argument, buffer) if argument.box else buffer}"


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


# A kernel written in Python as a family: what is known before its file is imported and compiled.
#
# Its arguments are named after the function's parameters, in any order, and those that the compiler wants at compile
# time are among them: ``BM=128``. What is neither a buffer nor has a dtype is a literal of Python's, see
# `frontends.contract`.

UNKNOWN: tuple[str, ...] = ("0", "0", "0")  # a grid or a block whose size is the compiler's to say
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<value>.*)", re.DOTALL)
_SHAPE = re.compile(r"\w+\s*\[[^\]]*\]")
_TYPED = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\s*:.*", re.DOTALL)
_BY_VALUE = ("bytes", "struct", "tensormap")


def family(spec: KernelSpec, source: Path, problem: Mapping[str, int]) -> Family:
    """Return the family of a function in a Python file, without kernels. Raises UsageError."""
    launch = spec.launch
    if not launch.entry:
        raise UsageError(f"{source.name}: no function is named", f"name it after the file: {source.name}::FUNCTION")
    for options in (spec.options, *(variant.options for variant in spec.variants)):
        _refuse_foreign(options, source)
    arguments = _arguments(launch.args, spec.args_folder, problem, spec.tolerance)
    block = limits.three(launch.block, "block") if launch.block else UNKNOWN
    grid = limits.three(launch.grid, "grid") if launch.grid else UNKNOWN
    texts = LaunchTexts(grid=grid, block=block, shared=launch.shared or "0")
    described = spec.as_family(source, launch.entry, texts, arguments)
    return replace(described, untrusted=spec.args_checkout is not None and not spec.args_checkout.trusted)


def _refuse_foreign(options: Sequence[str], source: Path) -> None:
    """Raise UsageError for an option of nvcc's, and for one that is not NAME=VALUE."""
    for option in options:
        if not _NAMED.fullmatch(option):
            what = "is for nvcc, which does not compile" if option.startswith("-") else "is not NAME=VALUE:"
            raise UsageError(
                f"{option} {what} {source.name}",
                Hint(Typed("--option num_warps=8"), " is for the compiler of a function"),
            )


def _arguments(
    texts: Sequence[str], folder: Path, problem: Mapping[str, int], tolerances: Mapping[str, float]
) -> tuple[Argument, ...]:
    """Return the arguments in the order given; a buffer without a fill is random."""
    literal: dict[str, Argument] = {}
    described = []
    for text in texts:
        named = _NAMED.fullmatch(text.strip())
        if named is None:
            raise UsageError(
                f"the argument {text!r} has no name", Hint("name the parameter: ", Typed(f"--arg NAME={text.strip()}"))
            )
        name, value = named["name"], named["value"].strip()
        if value.startswith(f"{fills.MAP}:"):
            described.append(f"{name}={_filled(value)}")
        elif _SHAPE.fullmatch(value):
            _refuse_record(name, value)
            described.append(f"{name}={value}:{fills.RANDOM}")
        elif _SHAPE.match(value) or _is_typed(value) or value.endswith(fills.FILE):
            described.append(text)
        elif name in literal:
            raise _called_alike(name)
        else:
            literal[name] = Argument(name=name, dtype=LITERAL, value=value)
    given = parse_arguments(described, folder, problem, tolerances)
    if twice := [argument.name for argument in given if argument.name in literal]:
        raise _called_alike(twice[0])
    order = [text.partition("=")[0].strip() for text in texts]
    return tuple(sorted((*given, *literal.values()), key=lambda argument: order.index(argument.name)))


def _refuse_record(name: str, value: str) -> None:
    """Raise UsageError for a dtype that is not one of ours, nor close to one: the file may have a structured one."""
    dtype, _, shape = (part.strip(" ]") for part in value.partition("["))
    types = (*DTYPES, *ALIASES, *_BY_VALUE)
    if dtype in types or difflib.get_close_matches(dtype, types, n=1):
        return
    raise UsageError(
        f"argument {name}: unknown dtype {dtype!r}",
        Hint(
            "if it is a dtype of the file, with 16 bytes: ",
            Typed(f"--arg {name}=uint8[{shape},16] --option {name}={dtype}"),
        ),
    )


def _filled(text: str) -> str:
    """Return a tensor map whose matrix is random unless its content is given."""
    matrix, settings = fills.halves(text.partition(":")[2].strip())
    content = f"{matrix}:{fills.RANDOM}" if _SHAPE.fullmatch(matrix.strip()) else matrix
    return ":".join((fills.MAP, content, *settings))


def _is_typed(value: str) -> bool:
    """Return whether a text starts with a dtype and a colon; a string of Python's with a colon does not."""
    typed = _TYPED.fullmatch(value)
    if typed is None:
        return False
    types = (*DTYPES, *ALIASES, *_BY_VALUE)
    return typed["dtype"] in types or bool(difflib.get_close_matches(typed["dtype"], types, n=1, cutoff=0.8))
