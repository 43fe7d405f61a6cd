"""What every language refuses in the same words: names, options and a block that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import UsageError, did_you_mean
from ncu_swizzle.frontends import loading
from ncu_swizzle.frontends.request import CompileRequest, Given

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def refuse_inside(inside: str, request: CompileRequest) -> None:
    """Raise UsageError if something is named inside of a function."""
    if inside:
        raise UsageError(f"{request.name}: a function has nothing inside", f"leave out ::{inside}")


def refuse_without_block(request: CompileRequest) -> None:
    """Raise UsageError if the block is not given."""
    if not request.block:
        raise UsageError(f"{request.name} has no block", "--block 128 gives it, one to three sizes")


def refuse_options(options: Iterable[str], known: Iterable[str], compiler: str, request: CompileRequest) -> None:
    """Raise UsageError for an option that the compiler does not have."""
    for name in options:
        if name not in (available := list(known)):
            raise UsageError(
                f"{request.name}: {compiler} has no option {name!r}{did_you_mean(name, available)}",
                f"its options: {', '.join(available[:12])}",
            )


def refuse_unknown(given: Iterable[str], parameters: Iterable[str], request: CompileRequest) -> None:
    """Raise UsageError for an argument that the function does not take."""
    names = list(parameters)
    for name in given:
        if name not in names:
            raise UsageError(
                f"{request.name} has no parameter {name!r}{did_you_mean(name, names)}",
                f"its parameters: {', '.join(names)}",
            )


def lacking(request: CompileRequest, names: Iterable[str], constants: Iterable[str] = ()) -> UsageError:
    """Return the error for parameters without an argument; `constants` are those known to be numbers."""
    missing, numbers = list(names), list(constants)
    shown = " ".join(f"--arg {name}={'64' if name in numbers else 'float32[1024]'}" for name in missing)
    return UsageError(f"{request.name} lacks {', '.join(missing)}", f"{shown}; a tensor has a shape, a number has none")


def not_compiled(request: CompileRequest, error: Exception) -> UsageError:
    """Return the error for a function that its compiler refuses, with what that says."""
    said = _COLOUR.sub("", str(error)).strip("\0 \r\n\t") or type(error).__name__
    at = loading.place(error, Path(request.file))
    return UsageError(f"{request.name} does not compile for {request.arch}:\n{at}{said}", f"fix {request.file}")


def in_order(request: CompileRequest, parameters: Mapping[str, Parameter]) -> list[Given]:
    """Return the arguments in the order of the function's parameters. Raises UsageError."""
    given: dict[str, Any] = {argument.name: argument for argument in request.arguments}
    refuse_unknown(given, parameters, request)
    if missing := [name for name in parameters if name not in given]:
        raise lacking(request, missing)
    return [given[name] for name in parameters]
