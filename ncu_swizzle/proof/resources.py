"""What a block takes of its SM: registers, shared memory, and so how many blocks fit.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the occupancy calculator's
granularities: registers are given to a warp in units of 256, shared memory to a block in units of 128 bytes.
"""

from __future__ import annotations

import math

from ncu_swizzle.build.toolchain import ARCH
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.proof.claims import About, Claim, Resources, State
from ncu_swizzle.smem import capacity

SM_REGISTERS, REGISTER_UNIT = 65536, 256
SM_WARPS = {"sm_80": 64, "sm_86": 48, "sm_89": 48, "sm_90": 64, "sm_100": 64, "sm_120": 48}
SM_BLOCKS = {"sm_86": 16, "sm_89": 24, "sm_120": 24}
SHARED_UNIT = 128


def resources(version: Executable) -> Resources:
    """Return what a version takes."""
    binary, launch = version.emulated.binary, version.launch(None)
    attributes = binary.cubin.attributes(binary.symbol)
    arch = f"sm_{binary.cubin.sm}"
    arch = arch if arch in SM_WARPS else ARCH
    warps = -(-math.prod(launch.block) // 32)
    per_warp = -(-max(attributes.registers, 1) * 32 // REGISTER_UNIT) * REGISTER_UNIT
    shared = attributes.static_shared + launch.shared_dynamic + capacity.RESERVED_BYTES
    blocks = min(
        SM_BLOCKS.get(arch, capacity.MOST_BLOCKS),
        SM_WARPS[arch] // warps,
        SM_REGISTERS // per_warp // warps,
        capacity.sm_bytes(arch) // (-(-shared // SHARED_UNIT) * SHARED_UNIT),
    )
    return Resources(attributes.registers, attributes.static_shared, launch.shared_dynamic, blocks)


def claim(before: Resources, after: Resources) -> Claim:
    """State what changes; a block that does not fit at all is refused before it is emulated."""
    state = State.HELD if after.blocks_per_sm else State.FAILED
    return Claim(About.RESOURCES, state, "; ".join(_changes(before, after)))


def _changes(before: Resources, after: Resources) -> list[str]:
    pairs = (
        ("registers per thread", before.registers, after.registers),
        ("bytes of shared memory per block", _shared(before), _shared(after)),
        ("blocks per SM", before.blocks_per_sm, after.blocks_per_sm),
    )
    return [f"{old:,} {what}, as before" if old == new else f"{new:,} {what} for {old:,}" for what, old, new in pairs]


def _shared(taken: Resources) -> int:
    return taken.shared_static + taken.shared_dynamic
