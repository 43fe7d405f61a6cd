"""All operations, registered by import."""

from __future__ import annotations

from ncu_swizzle.emulate.operations import (
    approximations,
    conversions,
    doubles,
    exchange,
    extremes,
    floating,
    halves,
    integer,
    logic,
    predicates,
    products,
    scaled,
    shifts,
    special,
)
from ncu_swizzle.emulate.operations.registry import COMPILERS

_MODULES = (
    approximations,
    conversions,
    doubles,
    exchange,
    extremes,
    floating,
    halves,
    integer,
    logic,
    predicates,
    products,
    scaled,
    shifts,
    special,
)


def load() -> int:
    """Return how many opcodes are emulated."""
    return len(COMPILERS)
