"""Sums of what MUFU makes of consecutive operands, as bench/recording/mufu/operands.cu forms them on a GPU."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 20  # operands


def sum_of_results(function: Callable[[NDArray[np.uint32]], NDArray[np.uint32]], block: int) -> np.uint64:
    """Return the sum over the BLOCK operands from block * BLOCK on."""
    operands = np.uint32(block * BLOCK) + np.arange(BLOCK, dtype=np.uint32)
    with np.errstate(all="ignore"):
        results = function(operands[None])[0]
        x = operands.astype(np.uint64) << np.uint64(32) | results.astype(np.uint64)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return np.add.reduce(x ^ x >> np.uint64(31))
