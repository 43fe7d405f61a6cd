"""Tables of what is refused, and in which words."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError

Row = TypeVar("Row")


def refused(call: Callable[..., object], *arguments: object, **keywords: object) -> str:
    """Return the error of a call as it is printed, after its type's name; "accepted" if there is none."""
    try:
        call(*arguments, **keywords)
    except NcuSwizzleError as error:
        return f"{type(error).__name__}: {error}\n  try: {error.hint}"
    return "accepted"


def unlike(expected: Mapping[Row, str], said: Callable[[Row], str]) -> dict[Row, str]:
    """Return what is said of each row where the expected pattern is not in it."""
    texts = {row: said(row) for row in expected}
    return {row: text for row, text in texts.items() if not re.search(expected[row], text)}


def accepted(call: Callable[[Any], object], *inputs: Any, match: str = "") -> list[str]:
    """Return the inputs that are not refused by a UsageError with a hint, and in words that match."""
    wrong = []
    for given in inputs:
        try:
            call(given)
        except UsageError as error:
            if re.search(match, str(error)) and error.hint:
                continue
        wrong.append(repr(given)[:100])
    return wrong
