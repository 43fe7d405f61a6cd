"""A kernel written in Python as a family: what can be said of it before its file is imported and compiled.

Its arguments are named after the function's parameters, in any order, and those that the compiler wants at compile time
are among them: ``BM=128``. What is neither a buffer nor has a dtype is a literal of Python's, see `frontends.values`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.catalog import argument_syntax, by_value, fills, launch_limits
from ncu_swizzle.catalog.family import DTYPES, LITERAL, Argument, Family
from ncu_swizzle.errors import UsageError

if TYPE_CHECKING:
    from ncu_swizzle.catalog.spec import KernelSpec

UNKNOWN = ("0", "0", "0")  # a grid or a block whose size is the compiler's to say
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<value>.*)", re.DOTALL)
_SHAPE = re.compile(r"\w+\s*\[[^\]]*\]")
_TYPED = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\s*:.*", re.DOTALL)
_BY_VALUE = ("bytes", "struct", "tensormap")


def family(spec: KernelSpec, source: Path, problem: Mapping[str, int]) -> Family:
    """Return the family of a function in a Python file, without kernels. Raises UsageError."""
    if not spec.entry:
        raise UsageError(f"{source.name}: no function is named", f"name it after the file: {source.name}::FUNCTION")
    for options in (spec.options, *(variant.options for variant in spec.variants)):
        _refuse_foreign(options, source)
    arguments = _arguments(spec.args, spec.args_folder, problem, spec.tolerance)
    block = launch_limits.three(spec.block, "block") if spec.block else UNKNOWN
    grid = launch_limits.three(spec.grid, "grid") if spec.grid else UNKNOWN
    described = replace(spec, grid=spec.grid or "1").as_family(source, spec.entry, block, arguments)
    return replace(described, grid=grid, untrusted=spec.args_checkout is not None and not spec.args_checkout.trusted)


def _refuse_foreign(options: Sequence[str], source: Path) -> None:
    """Raise UsageError for an option of nvcc's, and for one that is not NAME=VALUE."""
    for option in options:
        if not _NAMED.fullmatch(option):
            what = "is for nvcc, which does not compile" if option.startswith("-") else "is not NAME=VALUE:"
            raise UsageError(f"{option} {what} {source.name}", "--option num_warps=8 is for the compiler of a function")


def _arguments(
    texts: Sequence[str], folder: Path, problem: Mapping[str, int], tolerances: Mapping[str, float]
) -> tuple[Argument, ...]:
    """Return the arguments in the order given; a buffer without a fill is random."""
    literal: dict[str, Argument] = {}
    described = []
    for text in texts:
        named = _NAMED.fullmatch(text.strip())
        if named is None:
            raise UsageError(f"the argument {text!r} has no name", f"name the parameter: --arg NAME={text.strip()}")
        name, value = named["name"], named["value"].strip()
        if value.startswith(f"{by_value.MAP}:"):
            described.append(f"{name}={_filled(value)}")
        elif _SHAPE.fullmatch(value):
            _refuse_record(name, value)
            described.append(f"{name}={value}:{fills.RANDOM}")
        elif _SHAPE.match(value) or _is_typed(value) or value.endswith(fills.FILE):
            described.append(text)
        elif name in literal:
            raise UsageError(f"two arguments are called {name!r}", "give each its own name: --arg NAME=…")
        else:
            literal[name] = Argument(name, LITERAL, value=value)
    given = argument_syntax.parse_arguments(described, folder, problem, tolerances)
    if twice := [argument.name for argument in given if argument.name in literal]:
        raise UsageError(f"two arguments are called {twice[0]!r}", "give each its own name: --arg NAME=…")
    order = [text.partition("=")[0].strip() for text in texts]
    return tuple(sorted((*given, *literal.values()), key=lambda argument: order.index(argument.name)))


def _refuse_record(name: str, value: str) -> None:
    """Raise UsageError for a dtype that is none of ours, nor nearly: the file may have a structured one of the name."""
    dtype, _, shape = (part.strip(" ]") for part in value.partition("["))
    known = (*DTYPES, *argument_syntax.ALIASES, *_BY_VALUE)
    if dtype in known or difflib.get_close_matches(dtype, known, n=1):
        return
    raise UsageError(
        f"argument {name}: unknown dtype {dtype!r}",
        f"if it is a dtype of the file, with 16 bytes: --arg {name}=uint8[{shape},16] --option {name}={dtype}",
    )


def _filled(text: str) -> str:
    """Return a tensor map whose matrix is random unless its content is given."""
    matrix, settings = by_value.halves(text.partition(":")[2].strip())
    content = f"{matrix}:{fills.RANDOM}" if _SHAPE.fullmatch(matrix.strip()) else matrix
    return ":".join((by_value.MAP, content, *settings))


def _is_typed(value: str) -> bool:
    """Return whether a text starts with a dtype and a colon; a string of Python's with a colon does not."""
    typed = _TYPED.fullmatch(value)
    if typed is None:
        return False
    known = (*DTYPES, *argument_syntax.ALIASES, *_BY_VALUE)
    return typed["dtype"] in known or bool(difflib.get_close_matches(typed["dtype"], known, n=1, cutoff=0.8))


def overridden(family: Family, options: Sequence[str]) -> tuple[Argument, ...]:
    """Return the family's arguments, those that a variant's options name with the options' values."""
    values = dict(option.split("=", 1) for option in options)
    return tuple(
        replace(argument, value=values[argument.name]) if argument.name in values and not argument.shape else argument
        for argument in family.arguments
    )
