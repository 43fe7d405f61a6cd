"""What to type for buffers whose contents decide counts and are not known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence

from ncu_swizzle.catalog.family import Argument
from ncu_swizzle.catalog.fills import reproducible

FAR = 1 << 40  # an address, aligned and far from all buffers
_POINTERS = re.compile("ptr|pointer|addr", re.IGNORECASE)


def options(arguments: Sequence[Argument], decisive: Collection[str] = ()) -> str:
    """Return the options that give known contents to the buffers that decide something.

    If those are not known: to one buffer without, an input of integers before any other. Empty if all contents are.
    """
    chosen = _unknown(arguments, decisive)
    return shlex.join(part for argument in chosen for part in ("--arg", _given(argument)))


def drawable(arguments: Sequence[Argument], decisive: Collection[str] = ()) -> bool:
    """Return whether there are unknown contents that random data can stand for: not if they are addresses."""
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
    """Return a buffer with contents that can be typed: small numbers, or an address that is none of the launch's."""
    fill = str(FAR) if _holds_addresses(argument) else "iota%256"
    return f"{argument.name}={argument.dtype}[{','.join(argument.shape)}]:{fill}{':out' if argument.output else ''}"


def _holds_addresses(argument: Argument) -> bool:
    """Return whether a buffer's name says that it holds pointers: indices have 64 bits, too."""
    return argument.dtype in ("int64", "uint64") and _POINTERS.search(argument.name) is not None
