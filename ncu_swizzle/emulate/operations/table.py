"""All operations together."""

from __future__ import annotations

from ncu_swizzle.emulate.operations import floating, integer, logic, predicates, special
from ncu_swizzle.emulate.operations.registry import COMPILERS

_MODULES = (floating, integer, logic, predicates, special)


def load() -> int:
    """Return how many opcodes are emulated; importing this module has registered them."""
    return len(COMPILERS)
