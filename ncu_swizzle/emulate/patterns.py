"""How a warp's accesses lie in global memory: their distances, and whether there are gaps.

It explains counted sectors; it decides none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.traffic import Pattern
from ncu_swizzle.emulate.accesses import access_width, memory_operands
from ncu_swizzle.emulate.counts import Dim3
from ncu_swizzle.emulate.dependence import BLOCK_AXES, EVERY, NOTHING, Steps, Tag
from ncu_swizzle.emulate.effects import Effects, address_reads
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.machine import coordinates
from ncu_swizzle.smem.operations import WARP, Bools, Ints

MANY = 2  # strides along an axis from which on they are not one


class Neighbours:
    """The threads of a block that are neighbours along threadIdx.x, .y and .z: in a warp, and from warp to warp."""

    def __init__(self, block: Dim3) -> None:
        x, y, z = block
        number = np.arange(x * y * z)
        threads = np.stack(coordinates(number, block))  # (3, threads)
        full = threads[:, : len(number) // WARP * WARP].reshape(3, -1, WARP)
        warp = full if full.size else threads[:, None, :]
        apart = warp - warp[:, :, :1]
        self.pairs: list[tuple[Ints, Ints]] = []  # of lanes, (i, j)
        for axis in np.eye(3, dtype=np.int64):
            steps = warp[:, 0, None, :] - warp[:, 0, :, None]  # (3, i, j)
            first, second = np.nonzero((steps == axis[:, None, None]).all(axis=0))
            # Useless if other warps of the block are laid out differently.
            alike = (apart == apart[:, :1]).all()
            self.pairs.append((first, second) if alike else (first[:0], second[:0]))
        # By axis: how many threads further on a neighbour is, if it is in another warp and each warp has one.
        self.further = [0, x if x % WARP == 0 and y > 1 else 0, x * y if x * y % WARP == 0 and z > 1 else 0]

    def across(self, axis: int, number: Ints, addresses: Ints) -> Ints:
        """Return the bytes between first threads of warps that are neighbours, given their numbers and addresses."""
        further = self.further[axis]
        if not further or len(number) < MANY:
            return number[:0]
        at = np.minimum(np.searchsorted(number, number + further), len(number) - 1)
        beside = number[at] == number + further
        apart: Ints = addresses[at[beside]] - addresses[beside]
        return apart


@dataclass(kw_only=True)
class LanePattern:
    """What all requests of an instruction have in common so far."""

    width: int
    strides: tuple[set[int], set[int], set[int]] = field(default_factory=lambda: (set(), set(), set()))
    blocks: set[Steps | None] = field(default_factory=set)  # bytes from block to block, along x, y and z
    loops: set[int] = field(default_factory=set)  # and from iteration to iteration
    unaligned: bool = False  # a request without gaps takes more sectors than are ideal
    gaps: bool = False  # and so does one that leaves bytes out
    bits: int = 0  # that are set in any address
    tag: Tag | None = None  # of the request before

    def follow(self, tag: Tag | None) -> None:
        """Add how addresses depend on the block."""
        if len(self.blocks) < MANY and (tag is not self.tag or not self.blocks):
            self.tag = tag
            affine = tag is not None and tag.coefficients is not None and tag.stride[:BLOCK_AXES] == EVERY[:BLOCK_AXES]
            steps = NOTHING if tag is None else tag.coefficients if affine else None
            self.blocks.add(steps and steps[:BLOCK_AXES])

    def see(self, lanes: Ints, selected: Bools, excessive: Bools, neighbours: Neighbours) -> None:
        """Add N requests: byte addresses, (N, 32), 0 for lanes that are not selected; `excessive`, (N,)."""
        for strides, (first, second) in zip(self.strides, neighbours.pairs, strict=True):
            if len(strides) < MANY:
                both = selected[:, first] & selected[:, second]
                strides.update(np.unique((lanes[:, second] - lanes[:, first])[both])[:MANY].tolist())
        self.bits |= int(np.bitwise_or.reduce(lanes, axis=None))
        if excessive.any():
            lanes, selected = lanes[excessive], selected[excessive]
            ordered = np.sort(
                np.where(selected, lanes, np.where(selected, lanes, 0).max(axis=1, keepdims=True)), axis=1
            )
            dense = (np.diff(ordered, axis=1) <= self.width).all(axis=1)
            self.unaligned |= bool(dense.any())
            self.gaps |= not dense.all()

    def plus(self, other: LanePattern) -> LanePattern:
        """Return what both have in common."""
        x, y, z = (one | another for one, another in zip(self.strides, other.strides, strict=True))
        return LanePattern(
            width=self.width, strides=(x, y, z), blocks=self.blocks | other.blocks, loops=self.loops | other.loops,
            unaligned=self.unaligned or other.unaligned, gaps=self.gaps or other.gaps, bits=self.bits | other.bits,
        )  # fmt: skip

    @property
    def summary(self) -> Pattern:
        """The pattern that a profile keeps: each stride that is the same everywhere."""
        x, y, z, loop = (next(iter(seen)) if len(seen) == 1 else None for seen in (*self.strides, self.loops))
        steps = next(iter(self.blocks)) if len(self.blocks) == 1 else None
        block_x, block_y, block_z = steps or (None, None, None)
        return Pattern(
            width=self.width, x=x, y=y, z=z, block_x=block_x, block_y=block_y, block_z=block_z, loop=loop,
            unaligned=self.unaligned, gaps=self.gaps,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- vectors

VECTORS = 16, 8  # bytes of vector loads and stores
# Other threads may write between accesses on both sides of these; a .STRONG or .MMIO access stands alone.
_SEPARATING = frozenset(("ATOM", "ATOMG", "BAR", "CCTL", "ERRBAR", "FENCE", "MEMBAR", "RED", "REDG", "SYNCS"))


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Instructions that access neighbouring bytes, the lowest first, and the bytes that they access together."""

    size: int
    numbers: tuple[int, ...]

    def pattern_of(self, number: int, pattern: Pattern, first: LanePattern, sectors: int) -> Pattern:
        """Return the pattern of one of its instructions, given that of the first, and the sectors of the vector."""
        if first.bits % self.size:
            return pattern
        return replace(pattern, vector=self.size, vector_sectors=sectors if number == self.numbers[0] else None)


def vectors(flow: Flow, effects: Sequence[Effects]) -> Mapping[int, Vector]:
    """Return the vector that each load or store in global memory may be part of, by instruction.

    They have the opcode, the guard, and the registers of the address in common, which nothing writes in between.
    """
    all_vectors = [vector for leader in flow.leaders for vector in _of_block(flow, effects, leader)]
    return {number: vector for vector in all_vectors for number in vector.numbers}


def _of_block(flow: Flow, effects: Sequence[Effects], leader: int) -> Iterator[Vector]:
    places: dict[object, dict[int, int]] = {}  # by what they have in common: instructions by offset
    for number in range(leader, flow.last[leader] + 1):
        instruction = flow.instructions[number]
        addressed = memory_operands(instruction) if instruction.opcode in ("LDG", "STG") else []
        if addressed and not instruction.never and not instruction.has("STRONG", "MMIO"):
            memory = instruction.operands[addressed[0]]
            common = instruction.mnemonic, instruction.guard, replace(memory, offset=0, text="")
            places.setdefault(common, {}).setdefault(memory.offset, number)
        writes = -1 if instruction.opcode in _SEPARATING else effects[number].writes
        for key, at in list(places.items()):
            if writes & address_reads(flow.instructions[next(iter(at.values()))]):
                yield from _runs(flow, places.pop(key))
    for at in places.values():
        yield from _runs(flow, at)


def _runs(flow: Flow, at: dict[int, int]) -> Iterator[Vector]:
    width = access_width(flow.instructions[next(iter(at.values()))])
    for size in VECTORS:
        for offset in sorted(at):
            run = range(offset, offset + size, width)
            if len(run) > 1 and all(place in at for place in run):
                yield Vector(size=size, numbers=tuple(at.pop(place) for place in run))
