"""All operations, registered by import."""

from __future__ import annotations

from ncu_swizzle.emulate.operations import extremes, floating, integer, logic, predicates, products, scaled, special
from ncu_swizzle.emulate.operations.registry import COMPILERS

_MODULES = (extremes, floating, integer, logic, predicates, products, scaled, special)


def load() -> int:
    """Return how many opcodes are emulated."""
    return len(COMPILERS)
