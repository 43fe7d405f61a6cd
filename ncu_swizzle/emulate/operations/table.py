"""All operations together."""

from __future__ import annotations

from ncu_swizzle.emulate.operations import extremes
from ncu_swizzle.emulate.operations import floating
from ncu_swizzle.emulate.operations import integer
from ncu_swizzle.emulate.operations import logic
from ncu_swizzle.emulate.operations import predicates
from ncu_swizzle.emulate.operations import scaled
from ncu_swizzle.emulate.operations import special
from ncu_swizzle.emulate.operations.registry import COMPILERS

_MODULES = (extremes, floating, integer, logic, predicates, scaled, special)


def load() -> int:
    """Return how many opcodes are emulated; importing this module has registered them."""
    return len(COMPILERS)
