"""What is known of a patch: claims, each held, failed or unknown, with a reason and the line that it is about.

Two of them are made here: about what a block takes of its SM, and so how many blocks fit, and about excess.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from ncu_swizzle.certify.verdict import KernelVerdict
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray
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
    TRACE = "trace"  # of the described launch: no results that are known to be others, if it is not proved
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

    moved: Mapping[str, int | None] = field(default_factory=dict)  # by array, of a proof: that a patch changes
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


def spans_of(arrays: Iterable[SharedArray]) -> dict[str, range]:
    """Return the bytes of shared arrays by name; those of one name by their numbers, too."""
    spans: dict[str, range] = {}
    met = Counter[str]()
    for array in arrays:
        met[array.name] += 1
        spans[array.name if met[array.name] == 1 else f"{array.name} ({met[array.name]})"] = array.span
    return spans


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


def excess_claim(aimed: Mapping[str, int | None], old: Excess, new: Excess) -> Claim:
    """Judge whether some arrays have less excess than `aimed` says, and all accesses together take no more wavefronts.

    An index that is no longer a constant keeps the compiler from holding elements in registers.
    """
    claim = partial(Claim, about=About.EXCESS)
    if old.wavefronts is not None and new.wavefronts is not None and new.wavefronts > old.wavefronts:
        more = new.wavefronts - old.wavefronts
        reason = f"all accesses together take {new.wavefronts:,} wavefronts, {more:,} more than before"
        return claim(state=ClaimState.FAILED, reason=reason)
    for name, before in aimed.items():
        left = new.moved.get(name)
        if left is None:
            return claim(state=ClaimState.UNKNOWN, reason=f"the wavefronts of some accesses to {name} are unknown")
        if before is not None and left >= before:
            return claim(state=ClaimState.FAILED, reason=f"{name} still has {left:,} excessive wavefronts")
    changes = (
        f"{name} from {_count(old.moved[name])} to {_count(left)} excessive wavefronts"
        for name, left in new.moved.items()
    )  # fmt: skip
    taken = "unknown" if new.wavefronts is None else f"{new.wavefronts:,} for {_count(old.wavefronts)}"
    return claim(state=ClaimState.HELD, reason=f"{', '.join(changes)}; wavefronts of all accesses: {taken}")


def _count(wavefronts: int | None) -> str:
    return "an unknown number" if wavefronts is None else f"{wavefronts:,}"
