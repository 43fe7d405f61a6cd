"""Judge products that are added up: they have the same rows, and K of A and of B advance together.

A chain is what one warpgroup adds up in the same registers, until these are written otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.operand_reading import Origin, linear

Pair = tuple[Origin, Origin]
Key = tuple[int, int]  # the first warp of a warpgroup, and the first register of its results
Say = Callable[[int, str, str], None]  # records a misfit: the instruction's offset, its kind, the message
Doubt = Callable[[str], None]


def distances(first: Origin, here: Origin) -> set[int]:
    """Return how many elements `here` is from `first` along K: as coordinates count them, and as memory does."""
    step = np.where(first.moving | here.moving, 0, here.at[0] - first.at[0])
    tensor = first.copy.tensor
    sizes = first.copy.scaled(tensor.sizes, first.element)
    found = {int(linear(step[None], first.along | (step != 0), sizes)[0])}
    pitch = math.gcd(*np.diff(first.addresses()).tolist())
    bytes_ = int(step[: len(tensor.sizes)] @ np.array([first.element, *tensor.strides]))
    return found | ({bytes_ // pitch} if pitch and bytes_ % pitch == 0 else set())


def together(first: Pair, here: Pair) -> bool:
    """Say whether A and B are as far from where they were along K."""
    if any(before.copy.map_at != now.copy.map_at for before, now in zip(first, here, strict=True)):
        return True
    return bool(distances(first[0], here[0]) & distances(first[1], here[1]))


@dataclass
class _Chain:
    """The products that a warpgroup has added up, and where K of A and B did not advance together."""

    products: list[Pair] = field(default_factory=list)
    apart: tuple[int, Pair, Pair] | None = None  # the instruction, and the two products

    def first(self, here: Pair) -> Pair | None:
        """Return the first product of the same tensors."""
        maps = [side.copy.map_at for side in here]
        return next((pair for pair in self.products if [side.copy.map_at for side in pair] == maps), None)

    def twice(self, side: int) -> bool:
        """Say whether an operand has the same element along K in several products."""
        seen: set[tuple[int, ...]] = set()
        for pair in self.products:
            origin = pair[side]
            here = {(origin.copy.map_at, *at) for at in origin.at[:, ~origin.moving].tolist()}
            if seen & here:
                return True
            seen |= here
        return False


class Chains:
    """All chains of a run."""

    def __init__(self, say: Say, doubt: Doubt) -> None:
        self.say, self.doubt = say, doubt
        self.open: dict[Key, _Chain] = {}

    def add(self, key: Key, offset: int, here: Pair) -> Pair:
        """Judge a product by those that it is added to; return the first of these, or itself."""
        chain = self.open.setdefault(key, _Chain())
        first = chain.first(here)
        if first is not None:
            rows = all(before.row == now.row for before, now in zip(first, here, strict=True))
            fits = together(first, here)
            if not rows and fits and 0 in distances(first[0], here[0]):
                self.end(key)  # K begins anew: the next tile of the result
                chain, first = self.open.setdefault(key, _Chain()), None
            elif not rows:
                self._other_rows(offset, first, here, fits)
            elif not fits and chain.apart is None:
                chain.apart = offset, first, here
        chain.products.append(here)
        return first or here

    def _other_rows(self, offset: int, first: Pair, here: Pair, fits: bool) -> None:
        if not fits:
            self.doubt("whether products of different rows may be added up, as where K goes on differs in A and B")
            return
        side = 0 if first[0].row != here[0].row else 1
        before, now = (_element(pair[side]) for pair in (first, here))
        self.say(
            offset,
            f"rows {'AB'[side]}",
            f"wgmma adds up products of different rows: {'AB'[side]} begins with element {now}, and did with {before} "
            "in the first of them; the box's coordinates across K have to stay the same",
        )

    def end(self, key: Key) -> None:
        """End a chain: its registers are written otherwise."""
        chain = self.open.pop(key, None)
        if chain is None or chain.apart is None:
            return
        if chain.twice(0) and chain.twice(1):
            self.doubt("in which order K is added up: both operands have the same elements several times")
            return
        offset, first, here = chain.apart
        (a, b), (a0, b0) = (tuple(map(_element, pair)) for pair in (here, first))
        self.say(
            offset,
            "K",
            f"wgmma adds up products in which A and B are not side by side along K: A begins with element {a} and B "
            f"with {b}, after {a0} and {b0} in the first of them; both have to advance alike",
        )

    def touched(self, warps: list[int], first: int, end: int) -> None:
        """End the chains whose registers an instruction of these warps writes."""
        for key in [key for key in self.open if key[0] in warps and first <= key[1] < end]:
            self.end(key)

    def finish(self) -> None:
        """End all chains."""
        for key in [*self.open]:
            self.end(key)


def _element(origin: Origin) -> str:
    return origin.copy.named(origin.at[0], origin.element)
