"""What a proof consists of: claims, each held, failed or unknown, with a reason and the line that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ncu_swizzle.cubin.location import Location


class State(StrEnum):
    """Whether a claim holds."""

    HELD = "held"
    FAILED = "failed"
    UNKNOWN = "unknown"


class About(StrEnum):
    """What a claim is about."""

    REBUILT = "rebuilt"  # with the same options
    EXCESS = "excess"  # that of the arrays is gone, and no access has more than before
    MEANING = "meaning"  # the same elements in the same order, and the same results
    RESOURCES = "resources"  # registers, shared memory, occupancy
    OUTPUTS = "outputs"  # on the GPU: bit-identical
    SANITIZER = "sanitizer"  # on the GPU: compute-sanitizer finds nothing
    TIME = "time"  # on the GPU: no slower


@dataclass(frozen=True)
class Claim:
    """One claim. `reason` is a sentence without its full stop; `line` is in the old source."""

    about: About
    state: State
    reason: str
    line: Location | None = None

    @property
    def held(self) -> bool:
        return self.state is State.HELD


@dataclass(frozen=True)
class Resources:
    """What a block of a kernel takes, and how many fit on an SM."""

    registers: int  # per thread
    shared_static: int  # bytes
    shared_dynamic: int
    blocks_per_sm: int


@dataclass(frozen=True)
class Excess:
    """The excessive wavefronts of a launch: actual minus ideal; None if unknown."""

    moved: Mapping[str, int | None] = field(default_factory=dict)  # by array that has moved
    total: int | None = None
    wavefronts: int | None = None  # actual ones, of all accesses


@dataclass(frozen=True)
class Proof:
    """The claims, in the order of `About`, and the figures behind them."""

    claims: tuple[Claim, ...]
    before: Excess = Excess()
    after: Excess = Excess()
    resources_before: Resources | None = None
    resources_after: Resources | None = None
    compared: tuple[str, ...] = ()  # in words: what was compared, of how many blocks

    @property
    def state(self) -> State:
        """Failed if a claim failed, else unknown if one is, else held."""
        states = {claim.state for claim in self.claims}
        return next((state for state in (State.FAILED, State.UNKNOWN) if state in states), State.HELD)

    @property
    def held(self) -> bool:
        return self.state is State.HELD

    @property
    def obstacle(self) -> Claim | None:
        """The first claim that does not hold."""
        return next((claim for claim in self.claims if not claim.held), None)

    def claim(self, about: About) -> Claim | None:
        """Return the claim about something, if there is one."""
        return next((claim for claim in self.claims if claim.about is about), None)
