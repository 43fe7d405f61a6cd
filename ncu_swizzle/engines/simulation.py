"""What a launch that was emulated would take on an H100: from the cache, or simulated if that is wanted."""

from __future__ import annotations

import math
import typing

from ncu_swizzle.base import cache
from ncu_swizzle.cycles.case import EstimatedCase
from ncu_swizzle.cycles.simulated import Simulated
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.engines import counts_cache, emulated_launch
from ncu_swizzle.engines.emulated_profile import Binary
from ncu_swizzle.engines.settings import ALWAYS, AUTO, NEVER
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain, disassembly
from ncu_swizzle.smem import access

KIND = "cycles"
# Of this package: what decides a simulation besides what decides counts.
SOURCES = ("cycles/*.py", "cycles/*.c", "cycles/*.json")
TOO_LONG = Simulated(
    lacking="executing every iteration of a block, and simulating it, takes more than a few seconds",
    remedy="--cycles always",
)


CAPTURED = Simulated(
    lacking="which of its buffers a captured launch reads, and which it writes, is not known",
    remedy="describe the kernel, see docs/describing-kernels.md",
)


def simulated(
    target: Target, binary: Binary, launch: Launch, counts: Counts, *, wanted: str, toolchain: Toolchain, cached: bool
) -> Simulated | None:
    """Return the launch's simulated cycles, or why they are unknown; None if not wanted, or nothing is excessive.

    `wanted`: NEVER; AUTO: if it is short and there is something to save; COMPARED: if it is short, without a reason if
    there is nothing to save; ALWAYS.
    """
    if wanted == NEVER:
        return None
    case = case_of(target, binary, launch, counts)
    excessive = any(case.excess.values())
    if wanted == AUTO and not excessive:
        return None
    lacking = Simulated(lacking=case.unlike) if case.unlike else TOO_LONG
    if case.unlike or (wanted != ALWAYS and not case.short):
        return lacking if excessive or wanted == ALWAYS else None
    entry = counts_cache.key(binary, launch, (), toolchain, SOURCES) if cached else ""
    if entry and (content := cache.load(KIND, entry)) is not None:
        return typing.cast(Simulated, counts_cache.unpack(Simulated, content))
    from ncu_swizzle.cycles import estimate  # with the emulator, which what is in the cache does not need

    text = disassembly(binary.cubin, toolchain, cached, binary.symbol)
    found = estimate.simulate(emulated_launch.code(binary.cubin, binary.symbol, text), case)
    if entry and found.cycles:
        cache.save(KIND, entry, counts_cache.pack(found))
    return found


def case_of(target: Target, binary: Binary, launch: Launch, counts: Counts) -> EstimatedCase:
    """Return the case to simulate for an emulated launch."""
    cubin, symbol, attributes = binary.cubin, binary.symbol, binary.cubin.attributes(binary.symbol)
    shared = attributes.static_shared + launch.shared_dynamic
    resident = access.blocks_per_sm(f"sm_{cubin.sm}", math.prod(launch.block), attributes.registers, shared)
    return EstimatedCase(
        text=cubin.section(f".text.{symbol}"), launch=launch, counts=counts, sm=cubin.sm, resident=resident,
        buffers=buffers(target),
    )  # fmt: skip


def buffers(target: Target) -> tuple[float, float]:
    """Return the bytes of a launch's inputs and outputs."""
    sizes = [(fills.size(each, target.problem), each.output) for each in target.family.arguments if each.shape]
    read, written = (sum(size for size, output in sizes if output == which) for which in (False, True))
    return float(read), float(written)
