"""What is known of a patch: claims, each held, failed or unknown, with a reason and the line that it is about.

One of them is about what a block takes of its SM: registers, shared memory, and so how many blocks fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ncu_swizzle.certify.verdict import KernelVerdict
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.smem import access


class ClaimState(StrEnum):
    """Whether a claim holds."""

    HELD = "held"
    FAILED = "failed"
    UNKNOWN = "unknown"


class About(StrEnum):
    """What a claim is about."""

    REBUILT = "rebuilt"  # with the same options
    EXCESS = "excess"  # that of the arrays is gone, and no access has more than before
    TRACE = "trace"  # of the described launch: no new hazard, and the same results
    MEANING = "meaning"  # elements move, and nothing else changes, in every launch
    RESOURCES = "resources"  # registers, shared memory, occupancy
    OUTPUTS = "outputs"  # on the GPU: bit-identical
    TIME = "time"  # on the GPU: no slower


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim. `reason` is a sentence without its full stop; `line` is in the old source."""

    about: About
    state: ClaimState
    reason: str
    line: Location | None = None

    @property
    def held(self) -> bool:
        return self.state is ClaimState.HELD


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a block of a kernel takes, and how many fit on an SM."""

    registers: int  # per thread
    shared_static: int  # bytes
    shared_dynamic: int
    blocks_per_sm: int

    @property
    def shared(self) -> int:
        return self.shared_static + self.shared_dynamic


@dataclass(frozen=True)
class Excess:
    """The excessive wavefronts of a launch: actual minus ideal; None if unknown."""

    moved: Mapping[str, int | None] = field(default_factory=dict)  # by array that has moved
    total: int | None = None
    wavefronts: int | None = None  # actual ones, of all accesses


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The claims, in the order of `About`, and the figures behind them."""

    claims: tuple[Claim, ...]
    before: Excess = Excess()
    after: Excess = Excess()
    resources_before: Resources | None = None
    resources_after: Resources | None = None
    covers: tuple[str, ...] = ()  # in words: what is proved, what that assumes, and what not
    kernels: tuple[KernelVerdict, ...] = ()  # of everything that is compiled from what changes

    @property
    def state(self) -> ClaimState:
        """Failed if a claim failed, else unknown if one is, else held."""
        states = {claim.state for claim in self.claims}
        return next((state for state in (ClaimState.FAILED, ClaimState.UNKNOWN) if state in states), ClaimState.HELD)

    @property
    def held(self) -> bool:
        return self.state is ClaimState.HELD

    @property
    def offered(self) -> bool:
        """Whether only its meaning is unknown: a patch to look at, which is not proved."""
        return all(claim.held for claim in self.claims if claim.about is not About.MEANING) and not any(
            claim.state is ClaimState.FAILED for claim in self.claims
        )

    @property
    def obstacle(self) -> Claim | None:
        """The first claim that does not hold."""
        return next((claim for claim in self.claims if not claim.held), None)

    def failed(self, about: About) -> bool:
        """Return whether its claim about this is refuted."""
        return any(claim.about is about and claim.state is ClaimState.FAILED for claim in self.claims)


def resources_of(version: Executable) -> Resources:
    """Return what a version takes."""
    binary, launch = version.emulated.binary, version.launch(None)
    attributes = binary.cubin.attributes(binary.symbol)
    shared = attributes.static_shared + launch.shared_dynamic
    blocks = access.blocks_per_sm(f"sm_{binary.cubin.sm}", math.prod(launch.block), attributes.registers, shared)
    return Resources(
        registers=attributes.registers,
        shared_static=attributes.static_shared,
        shared_dynamic=launch.shared_dynamic,
        blocks_per_sm=blocks,
    )


def claim(before: Resources, after: Resources) -> Claim:
    """State which resources change; a block that cannot be resident is refused before it is emulated."""
    pairs = (
        ("registers per thread", before.registers, after.registers),
        ("bytes of shared memory per block", before.shared, after.shared),
        ("blocks per SM", before.blocks_per_sm, after.blocks_per_sm),
    )
    changes = [
        f"{old:,} {what}, as before" if old == new else f"{new:,} {what} for {old:,}" for what, old, new in pairs
    ]
    state = ClaimState.HELD if after.blocks_per_sm else ClaimState.FAILED
    return Claim(about=About.RESOURCES, state=state, reason="; ".join(changes))
