"""The instructions that access shared memory, and how many words or lanes each of the 32 banks serves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.base.errors import UsageError, did_you_mean

# PTX names without ``.sync.aligned.m8n8`` and the like.
WARP = 32
LINE = 128  # bytes of a bank row, 32 banks of 4: the most that one wavefront moves
ROW = 16  # bytes of a matrix row, which a lane of ldmatrix or stmatrix addresses

LOAD, STORE, LDMATRIX, STMATRIX, ATOMIC, COPY = "load", "store", "ldmatrix", "stmatrix", "atomic", "copy"

_PLAIN = re.compile(r"(ld|st)\.shared\.(?:v([24])\.)?[bfsu](8|16|32|64)")
_PLAIN_TYPES = {"u8": 1, "u16": 2, "b32": 4, "v2.b32": 8, "v4.b32": 16, "b64": 8}
_REDUCTIONS = ("add.u32", "and.b32", "or.b32", "max.u32")
_ATOMICS = (*_REDUCTIONS, "max.s32", "min.u32", "min.s32", "xor.b32", "inc.u32", "dec.u32", "exch.b32", "cas.b32")
_WIDE_ATOMICS = ("exch.b64", "cas.b64")
ZERO_FILL = ".zfill"  # of cp.async whose source size is in a register
SPIN = "atoms.cast.spin"  # the 32-bit compare-and-swap of a floating-point atomic's loop
ADD_ONE = "atoms.popc.inc"  # compiled from adding the constant 1; it has no PTX name


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One instruction: ``width_bytes`` per lane, ``lanes`` per phase. Only lanes of one phase conflict."""

    name: str
    kind: str
    width_bytes: int
    lanes: int

    @property
    def addressed(self) -> int:
        """The number of lanes, from lane 0 on, that give an address: 8 per matrix, or the whole warp."""
        matrices = re.search(r"matrix\.x([124])", self.name)
        return 8 * int(matrices[1]) if matrices else WARP

    @property
    def phases(self) -> tuple[range, ...]:
        """The lanes of each phase."""
        return tuple(range(first, first + self.lanes) for first in range(0, self.addressed, self.lanes))


def find(name: str) -> Operation:
    """Return the operation with this name; a type of the same size (f32 for b32) also works. Raises UsageError."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if match := _PLAIN.fullmatch(name):
        width = int(match[2] or 1) * int(match[3]) // 8
        for operation in _BY_NAME.values():
            if operation.width_bytes == width and operation.name.startswith(f"{match[1]}.shared."):
                return operation
    raise UsageError(f"unknown operation {name!r}{did_you_mean(name, NAMES, cutoff=0.5)}", f"one of {', '.join(NAMES)}")


def _operations() -> Iterator[Operation]:
    rows = [
        *((f"ld.shared.{kind}", LOAD, width) for kind, width in _PLAIN_TYPES.items()),
        *((f"st.shared.{kind}", STORE, width) for kind, width in _PLAIN_TYPES.items()),
        *(
            (f"{opcode}.x{count}{transposed}", opcode, ROW)
            for opcode in (LDMATRIX, STMATRIX)
            for count in (1, 2, 4)
            for transposed in ("", ".trans")
        ),
        *((f"atom.shared.{kind}", ATOMIC, 4) for kind in _ATOMICS),
        *((f"red.shared.{kind}", ATOMIC, 4) for kind in _REDUCTIONS),
        *((f"atom.shared.{kind}", ATOMIC, 8) for kind in _WIDE_ATOMICS),
        *((name, ATOMIC, 4) for name in (ADD_ONE, SPIN)),
        *((f"cp.async.ca.{width}", COPY, width) for width in (4, 8, 16)),
        *((f"cp.async.cg.16{form}", COPY, 16) for form in ("", ZERO_FILL)),
    ]
    for name, kind, width in rows:
        # A phase has as many lanes as one wavefront has bytes for.
        yield Operation(name=name, kind=kind, width_bytes=width, lanes=min(WARP, LINE // width))


_BY_NAME = {operation.name: operation for operation in _operations()}
NAMES = tuple(_BY_NAME)


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

WORD = 4  # bytes of a bank's word


def phase_degrees(operation: Operation, lanes: Ints, mask: Bools) -> Ints:
    """Return (N, phases): the degree of each phase, 0 if none of its lanes is active."""
    used = slice(operation.addressed)
    shape = (len(lanes) * len(operation.phases), operation.lanes)
    # (N, lanes) becomes (N * phases, lanes of a phase): lanes of different phases do not conflict.
    per_phase = degrees(lanes[:, used].reshape(shape), mask[:, used].reshape(shape), operation.width_bytes)
    return per_phase.reshape(len(lanes), len(operation.phases))


def degrees(lanes: Ints, mask: Bools, width: int) -> Ints:
    """Return (N,): how many different words the active lanes touch in the busiest bank.

    A wide access touches adjacent words in adjacent banks; each such run of banks counts as one.
    """
    # Addresses are multiples of the width, so lanes of 8 or 16 bytes use whole runs of 2 or 4 banks: two runs are the
    # same or disjoint, and conflict as single banks do.
    unit = max(width, WORD)
    banks = LINE // unit
    ordered = np.sort(np.where(mask, lanes // unit, -1), axis=1)
    # Each different unit counts once, because one read is broadcast to all lanes that ask for it.
    first = np.flatnonzero(new_values(ordered))
    return _busiest(first // lanes.shape[1], ordered.ravel()[first] & (banks - 1), len(lanes), banks)


def new_values(ordered: Ints) -> Bools:
    """Mark the first occurrence of each value of 0 or more in ascending rows, (N, L)."""
    new: Bools = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return new


def first_lanes(addresses: Ints, active: Bools) -> Bools:
    """Mark the lowest active lane of each address, (N, 32)."""
    # Address and lane in one number, 5 bits for the lane: sorted, the lanes of an address are neighbours, lowest first.
    ordered = np.sort(np.where(active, addresses << 5 | np.arange(WARP), -1), axis=1)
    request, position = np.nonzero(new_values(ordered >> 5))
    firsts = np.zeros(active.shape, bool)
    firsts[request, ordered[request, position] & 31] = True
    return firsts


def most_lanes(lanes: Ints, mask: Bools, width: int = WORD) -> Ints:
    """Return (N,): how many active lanes the busiest bank serves, serialized even at the same address."""
    banks = LINE // width
    request, lane = np.nonzero(mask)
    return _busiest(request, lanes[request, lane] // width % banks, len(lanes), banks)


def _busiest(request: Ints, bank: Ints, requests: int, banks: int) -> Ints:
    # One histogram for all requests: bin request * banks + bank.
    counts = np.bincount(request * banks + bank, minlength=requests * banks)
    busiest: Ints = counts.reshape(requests, banks).max(axis=1)
    return busiest


def have_paired_addresses(lanes: Ints, mask: Bools, strictly: bool = False) -> Bools:
    """Mark the requests, (N,), in which every lane i has the address of lane i^1, or every lane that of lane i^2.

    Inactive lanes match any lane; with `strictly`, only inactive ones.
    """
    pairs = np.zeros(len(lanes), bool)
    for distance in (1, 2):
        partner = np.arange(lanes.shape[1]) ^ distance
        both = mask & mask[:, partner]
        alone = (mask != mask[:, partner]) & strictly
        pairs |= ((lanes == lanes[:, partner]) | ~both).all(axis=1) & ~alone.any(axis=1)
    return pairs


def have_one_address(lanes: Ints, mask: Bools) -> Bools:
    """Mark the requests, (N,), in which all active lanes have the same address."""
    highest = np.where(mask, lanes, -1).max(axis=1, keepdims=True)
    same: Bools = ((lanes == highest) | ~mask).all(axis=1)
    return same
