"""What a proof consists of: claims, each held, failed or unknown, with a reason and the line that it is about.

One of them is about what a block takes of its SM: registers, shared memory, and so how many blocks fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.kernels.toolchain import ARCH
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
    MEANING = "meaning"  # the same elements in the same order, and the same results
    RESOURCES = "resources"  # registers, shared memory, occupancy
    OUTPUTS = "outputs"  # on the GPU: bit-identical
    SANITIZER = "sanitizer"  # on the GPU: compute-sanitizer finds nothing
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


class Unplaced(Exception):
    """The accesses do not say where the elements went; `unknown` if they cannot be compared at all."""

    def __init__(self, reason: str, unknown: bool = False) -> None:
        super().__init__(reason)
        self.claim = Claim(
            about=About.MEANING, state=ClaimState.UNKNOWN if unknown else ClaimState.FAILED, reason=reason
        )


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
    compared: tuple[str, ...] = ()  # in words: what was compared, of how many blocks

    @property
    def state(self) -> ClaimState:
        """Failed if a claim failed, else unknown if one is, else held."""
        states = {claim.state for claim in self.claims}
        return next((state for state in (ClaimState.FAILED, ClaimState.UNKNOWN) if state in states), ClaimState.HELD)

    @property
    def held(self) -> bool:
        return self.state is ClaimState.HELD

    @property
    def obstacle(self) -> Claim | None:
        """The first claim that does not hold."""
        return next((claim for claim in self.claims if not claim.held), None)

    def claim(self, about: About) -> Claim | None:
        """Return the claim about something, if there is one."""
        return next((claim for claim in self.claims if claim.about is about), None)


# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the occupancy calculator's
# granularities: registers are given to a warp in units of 256, shared memory to a block in units of 128 bytes.
SM_REGISTERS, REGISTER_UNIT = 65536, 256
SM_WARPS = {"sm_80": 64, "sm_86": 48, "sm_89": 48, "sm_90": 64, "sm_100": 64, "sm_120": 48}
SM_BLOCKS = {"sm_86": 16, "sm_89": 24, "sm_120": 24}
SHARED_UNIT = 128


def resources_of(version: Executable) -> Resources:
    """Return what a version takes."""
    binary, launch = version.emulated.binary, version.launch(None)
    attributes = binary.cubin.attributes(binary.symbol)
    arch = f"sm_{binary.cubin.sm}"
    arch = arch if arch in SM_WARPS else ARCH
    warps = -(-math.prod(launch.block) // 32)
    # 33 registers per thread are 1,056 per warp, of which 1,280 are allocated.
    per_warp = -(-max(attributes.registers, 1) * 32 // REGISTER_UNIT) * REGISTER_UNIT
    # The driver's own bytes count too: a block of 32 KiB takes 33 of the SM's.
    shared = attributes.static_shared + launch.shared_dynamic + access.RESERVED_BYTES
    blocks = min(
        SM_BLOCKS.get(arch, access.MOST_BLOCKS),
        SM_WARPS[arch] // warps,
        # Each of the SM's four sub-cores has a quarter of the registers, for warps of its own.
        4 * (SM_REGISTERS // 4 // per_warp) // warps,
        access.sm_bytes(arch) // (-(-shared // SHARED_UNIT) * SHARED_UNIT),
    )
    return Resources(
        registers=attributes.registers,
        shared_static=attributes.static_shared,
        shared_dynamic=launch.shared_dynamic,
        blocks_per_sm=blocks,
    )


def claim(before: Resources, after: Resources) -> Claim:
    """State what changes; a block that does not fit at all is refused before it is emulated."""
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
