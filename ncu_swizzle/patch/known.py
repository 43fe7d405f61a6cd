"""What is known of a kernel's source without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.source.sums import Constants
from ncu_swizzle.source.webs import Members


@dataclass(frozen=True, eq=False)
class Known:
    """Answers: the names' values, the sizes of types by name and of elements, and places' distances."""

    constants: Constants
    launched: Constants  # what the launch says, too: blockDim.x, the kernel's integer parameters
    unit_bytes: Mapping[str, int]
    element_bytes: Mapping[int, int]  # by declared identifier
    row_elements: Mapping[int, int]  # of the last dimension
    row_counts: Mapping[int, int]  # of the one before
    offsets: Mapping[int, int]  # from the array, in bytes
    members: Mapping[tuple[int, int], Members]  # of structs, by declaration and by what they are reached through
