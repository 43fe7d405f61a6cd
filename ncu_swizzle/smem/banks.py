"""Count how many words or lanes each of the 32 banks serves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.smem.operations import LINE, Operation

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WORD = 4  # bytes of a bank's word


def phase_degrees(operation: Operation, lanes: Ints, mask: Bools) -> Ints:
    """Return (N, phases): the degree of each phase, 0 if none of its lanes is active."""
    used = slice(operation.addressed)
    shape = (len(lanes) * len(operation.phases), operation.lanes)
    per_phase = degrees(lanes[:, used].reshape(shape), mask[:, used].reshape(shape), operation.width_bytes)
    return per_phase.reshape(len(lanes), len(operation.phases))


def degrees(lanes: Ints, mask: Bools, width: int) -> Ints:
    """Return (N,): how many different words the active lanes touch in the busiest bank.

    A wide access touches adjacent words in adjacent banks; each such run of banks counts as one.
    """
    unit = max(width, WORD)
    banks = LINE // unit
    ordered = np.sort(np.where(mask, lanes // unit, -1), axis=1)
    first = np.flatnonzero(new_values(ordered))
    return _busiest(first // lanes.shape[1], ordered.ravel()[first] & (banks - 1), len(lanes), banks)


def new_values(ordered: Ints) -> Bools:
    """Mark the first occurrence of each value of 0 or more in ascending rows."""
    new: Bools = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return new


def most_lanes(lanes: Ints, mask: Bools, width: int = WORD) -> Ints:
    """Return (N,): how many active lanes the busiest bank serves, serialized even at the same address."""
    banks = LINE // width
    request, lane = np.nonzero(mask)
    return _busiest(request, lanes[request, lane] // width % banks, len(lanes), banks)


def _busiest(request: Ints, bank: Ints, requests: int, banks: int) -> Ints:
    counts = np.bincount(request * banks + bank, minlength=requests * banks)
    busiest: Ints = counts.reshape(requests, banks).max(axis=1)
    return busiest


def paired(lanes: Ints, mask: Bools, strictly: bool = False) -> Bools:
    """Mark the requests in which every lane i has the address of lane i^1, or every lane that of lane i^2.

    Inactive lanes match any lane; with `strictly`, only inactive ones.
    """
    pairs = np.zeros(len(lanes), bool)
    for distance in (1, 2):
        partner = np.arange(lanes.shape[1]) ^ distance
        both = mask & mask[:, partner]
        alone = (mask != mask[:, partner]) & strictly
        pairs |= ((lanes == lanes[:, partner]) | ~both).all(axis=1) & ~alone.any(axis=1)
    return pairs


def one_address(lanes: Ints, mask: Bools) -> Bools:
    """Mark the requests in which all active lanes have the same address."""
    highest = np.where(mask, lanes, -1).max(axis=1, keepdims=True)
    same: Bools = ((lanes == highest) | ~mask).all(axis=1)
    return same
