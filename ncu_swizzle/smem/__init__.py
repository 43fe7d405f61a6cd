"""Models shared memory: which banks an access touches, how many wavefronts it takes, which layouts avoid conflicts.
It needs only NumPy and no GPU; it imports no other room.
"""

from __future__ import annotations

from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import Operation
from ncu_swizzle.smem.suggestions import Suggestion, suggest
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Table, XorMatrix
from ncu_swizzle.smem.wavefronts import Wavefronts, wavefronts

__all__ = [
    "Access",
    "BankMap",
    "Constraints",
    "Layout",
    "Mapping",
    "Operation",
    "Padding",
    "Suggestion",
    "Swizzle",
    "Table",
    "Wavefronts",
    "XorMatrix",
    "suggest",
    "wavefronts",
]
