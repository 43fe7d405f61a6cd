"""All operations, registered by import."""

from __future__ import annotations

from ncu_swizzle.emulate.operands import COMPILERS
from ncu_swizzle.emulate.operations import (
    conversions,
    doubles,
    exchange,
    floating,
    halves,
    integer,
    logic,
    predicates,
    products,
    shifts,
    special,
)

_MODULES = (
    special,
    conversions,
    doubles,
    exchange,
    integer,
    floating,
    halves,
    integer,
    logic,
    predicates,
    products,
    shifts,
    shifts,
    special,
)


def load() -> int:
    """Return how many opcodes are emulated."""
    return len(COMPILERS)
