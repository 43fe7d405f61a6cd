"""A function of the caller's own that computes what a kernel should: called with tensors, or refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import brief


def answer(reference: Callable[..., Any], passed: Mapping[str, Any]) -> Any:
    """Return what the reference returns for the arguments that it takes by name. Raises UsageError."""
    wanted = _wanted(reference, passed)
    for name in wanted:
        if isinstance(passed[name], str) and "[" in passed[name]:
            raise UsageError(
                f"the reference takes {name}, and {name} is {passed[name]!r}, which holds nothing",
                f"pass a tensor as {name}",
            )
    try:
        return reference(**{name: passed[name] for name in wanted})
    except Exception as error:
        raise UsageError(
            f"the reference failed: {type(error).__name__}: {brief(error)}", f"it was called with {', '.join(wanted)}"
        ) from error


def _wanted(reference: Callable[..., Any], passed: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a reference takes; raise UsageError for one that the kernel does not have."""
    parameters = inspect.signature(reference).parameters.values()
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return list(passed)
    named = [each for each in parameters if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY)]
    unknown = [each.name for each in named if each.name not in passed and each.default is Parameter.empty]
    if unknown or len(named) < len(parameters):
        what = ", ".join(unknown) or "arguments by position"
        raise UsageError(
            f"the reference takes {what}, and the kernel's arguments are passed by name",
            f"it may take {', '.join(passed)}",
        )
    return [each.name for each in named if each.name in passed]


def refuse_unlike(answers: Mapping[str, Any], passed: Mapping[str, Any], outputs: Sequence[str]) -> None:
    """Raise UsageError for an answer that is no output of the kernel, or has another shape."""
    for name, values in answers.items():
        if name not in outputs:
            raise UsageError(
                f"the reference returns {name}, which is not among the outputs: {', '.join(outputs) or 'none named'}",
                f'outputs="{name}"',
            )
        given, made = getattr(passed.get(name), "shape", None), getattr(values, "shape", None)
        if given is not None and tuple(made or ()) != tuple(given):
            raise UsageError(
                f"the reference returns {name} as {_by(made)}, and the kernel writes {_by(given)}",
                "return an array of the output's shape",
            )


def _by(shape: Any) -> str:
    return "x".join(map(str, shape)) if shape else "a number"
