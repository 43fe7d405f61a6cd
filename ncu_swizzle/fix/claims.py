"""What is known of a patch: claims, each held, failed or unknown, with a reason and the line that it is about.

Two of them are made here: about what a block takes of its SM, and so how many blocks fit, and about excess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from ncu_swizzle.certify.verdict import KernelVerdict
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Emulated, Executable
from ncu_swizzle.reports.counts import known_sum
from ncu_swizzle.smem.access import blocks_per_sm


class ClaimState(StrEnum):
    """Whether a claim holds."""

    HELD = "held"
    FAILED = "failed"
    UNKNOWN = "unknown"


class About(StrEnum):
    """What a claim is about."""

    REBUILT = "rebuilt"  # with the same options
    EXCESS = "excess"  # that of the arrays is gone, and all accesses take no more wavefronts
    TRACE = "trace"  # of the described launch: no new hazard, and no results that are known to be others
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
    blocks = blocks_per_sm(f"sm_{binary.cubin.sm}", math.prod(launch.block), attributes.registers, shared)
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


# The excessive wavefronts of both versions: of the arrays whose elements move, and of all accesses.


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A shared array whose elements have new places: its bytes in each version, as the emulator addresses them.

    `least` are the excessive wavefronts of the launch that the mapping leaves, `reason` says why.
    """

    name: str
    before: range
    after: range
    least: int = 0
    reason: str = ""


_excess = partial(Claim, about=About.EXCESS)


def excess_of(emulated: Emulated, spans: Mapping[str, range]) -> Excess:
    """Return the excess of a launch: in all, and that of the instructions that access some bytes, by name."""
    touching: dict[str, list[int | None]] = {name: [] for name in spans}
    accesses = list(emulated.profile.shared())
    for access in accesses:
        requests = emulated.counts.requests.get(access.pc)
        for name, span in spans.items():
            if requests is None:  # what it accesses is not known
                # It may be to any of the arrays: if its excess is unknown too, so is that of each.
                within = access.excessive is None
            else:
                inside = (requests.addresses >= span.start) & (requests.addresses < span.stop)
                within = bool((requests.used & inside).any())
            if within:
                touching[name].append(access.excessive)
    return Excess(
        {name: known_sum(counts) for name, counts in touching.items()},
        known_sum(access.excessive for access in accesses),
        known_sum(access.wavefronts for access in accesses),
    )


def excess_claim(moved: Sequence[Moved], old: Excess, new: Excess) -> Claim:
    """Judge whether the moved arrays have as little excess as promised, and all accesses together take no more.

    An index that is no longer a constant keeps the compiler from holding elements in registers.
    """
    if old.wavefronts is not None and new.wavefronts is not None and new.wavefronts > old.wavefronts:
        more = new.wavefronts - old.wavefronts
        reason = f"all accesses together take {new.wavefronts:,} wavefronts, {more:,} more than before"
        return _excess(state=ClaimState.FAILED, reason=reason)
    for array in moved:
        left, before = new.moved[array.name], old.moved[array.name]
        if left is None:
            reason = f"the wavefronts of some accesses to {array.name} are unknown"
            return _excess(state=ClaimState.UNKNOWN, reason=reason)
        if left > array.least and (before is None or left >= before):
            reason = f"{array.name} still has {left:,} excessive wavefronts in the blocks that ran"
            return _excess(state=ClaimState.FAILED, reason=reason)
    names = ", ".join(
        f"{array.name} from {old.moved[array.name] or 0:,} to {new.moved[array.name]:,} excessive wavefronts"
        f"{f' ({array.reason})' if new.moved[array.name] and array.reason else ''}"
        for array in moved
    )
    taken = "unknown" if new.wavefronts is None else f"{new.wavefronts:,} for {old.wavefronts:,}"
    return _excess(state=ClaimState.HELD, reason=f"{names}; wavefronts of all accesses: {taken}")
