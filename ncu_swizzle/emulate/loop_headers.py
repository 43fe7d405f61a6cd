"""What was seen at the first instruction of a loop, and when its iterations are watched again: see `loops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.advance import Advance
from ncu_swizzle.emulate.groups import Group
from ncu_swizzle.emulate.repeats import Repeat
from ncu_swizzle.emulate.together import Movement
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.banks import Bools, Ints

FACTORS = (1, 2, 4, 8, 16)  # of the period, tried one after the other
MOST_WAIT = 12  # log2 of the visits after which a loop is tried again at last
MOST_TRIES = 3  # of a movement that was right before


@dataclass(frozen=True)
class Mark:
    """A visit of a loop from which a period of all threads is followed."""

    visit: int
    step: int
    period: int
    registers: Sequence[Value | None]


@dataclass
class Header:
    """The first instruction of a loop, and what was seen there."""

    numbers: Sequence[int]  # the registers that matter there
    body: frozenset[int]
    warps: Ints | None = None
    mask: Bools | None = None
    samples: list[Ints] = field(default_factory=list)
    visits: int = 0
    resume: int = 0  # the visit from which on it is watched
    failures: int = 0
    factor: int = 1
    hint: tuple[int, Advance | Movement] | None = None  # what was right the last time
    together: bool = False  # whether periods of all threads are watched
    places: list[int] = field(default_factory=list)  # where all threads were
    mark: Mark | None = None
    place: int = 0  # where all threads were when a period began
    duration: int = 0  # basic blocks that a period took
    finished: bool = False  # whether its threads are about to leave it, until it is entered again

    def same(self, group: Group) -> bool:
        """Say whether the same threads were here before."""
        if self.warps is None or self.mask is None or len(self.warps) != len(group.warps):
            return False
        return bool((self.warps == group.warps).all()) and bool((self.mask == group.mask).all())

    def forget(self, group: Group) -> None:
        """Watch other threads from now on."""
        self.warps, self.mask, self.hint = group.warps, group.mask, None
        self.unlearn()

    def unlearn(self) -> None:
        """Forget what was seen of the threads that are watched."""
        self.samples.clear()
        self.places.clear()
        self.mark = None

    def failed(self, repeat: Repeat, left: bool) -> None:
        """Try again, ever more rarely; with another period, unless threads only `left` the loop."""
        self.failures += 1
        self.resume = self.visits + (1 << min(self.failures, MOST_WAIT))
        if self.together and self.hint is not None and self.failures < MOST_TRIES:
            return
        if not left and not self.together:
            self.factor = repeat.stride if repeat.stride > 1 else FACTORS[self.failures % len(FACTORS)]
        self.hint = None
        self.unlearn()

    def entered_again(self) -> bool:
        """Say whether a register that grows in the loop has fallen since the last visit, or the other way round."""
        if self.hint is None or not isinstance(self.hint[1], Movement) or len(self.samples) < 2:
            return False
        step, lanes = self.samples[-1] - self.samples[-2], self.hint[1].changes
        return any(
            number in lanes and int(step[at]) * int(np.sign(lanes[number].sum())) < 0
            for at, number in enumerate(self.numbers)
        )
