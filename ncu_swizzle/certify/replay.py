"""Replay a counterexample: run both versions in the emulator, and see whether they leave other results.

The solver's counterexample is one of an abstraction: a loop's variable may take fewer values than its invariant allows.
So both versions' code, assembled without optimisation, is executed for the block of the counterexample, with the same
random data. A change is refuted if the new version then stores something else, or leaves its arrays.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import thread_time

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.certify.verdict import Counterexample, KernelVerdict, ProofObstacle, ProofOutcome
from ncu_swizzle.cubin import shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.execution import Execution, difference, left_behind
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import MOST_SHARED, ArgumentValue
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain, disassembly
from ncu_swizzle.smem.access import MOST_THREADS

REPLAY_S = 10.0  # of all launches of both versions
BUFFER = 1 << 20  # bytes behind every pointer
OTHERWISE = (1024, 64, 7)  # what integers are that the counterexample leaves open, in one launch after the other
Shape = tuple[int, int, int]
_NUMBER = re.compile(r"parameter (\d+)$")
_TARGET = re.compile(r"^\.target sm_(\d+)", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Assembled:
    """One version's kernel, assembled as it is."""

    ptx: str
    symbol: str
    toolchain: Toolchain

    @cached_property
    def cubin(self) -> Cubin:
        old = (match := _TARGET.search(self.ptx)) and int(match[1]) < int(ARCH.removeprefix("sm_"))
        arch = ARCH if old else ""  # the emulator executes no older code
        return Cubin(self.toolchain.assemble(self.ptx.encode(), "kernel.ptx", arch, level=0), "kernel.ptx")

    def launch(
        self, grid: Shape, block: Shape, dynamic: int | None, given: Mapping[int, int], otherwise: int
    ) -> Launch:
        """Return a launch with integers as they are given by number, or else the other one; what buffers hold is drawn.

        `dynamic` are the bytes of dynamic shared memory, None for as many as there can be.
        """
        entry = shared_arrays.entry_in(self.ptx, self.symbol)
        kinds = entry.kinds if entry else ()
        values: list[ArgumentValue] = []
        attributes = self.cubin.attributes(self.symbol)
        for number, slot in enumerate(attributes.parameters):
            kind = kinds[number] if number < len(kinds) else "struct"
            if slot.size == emulated_launch.POINTER and kind in ("pointer", ""):
                values.append(ArgumentValue(size=BUFFER, name=f"parameter {number}"))
                continue
            scalar = bytes(slot.size)
            if slot.size in (4, 8) and kind in "usb":
                scalar = (given.get(number, otherwise) % (1 << 8 * slot.size)).to_bytes(slot.size, "little")
            elif slot.size == 4 and kind == "f":
                scalar = struct.pack("<f", 1.0)
            values.append(ArgumentValue(scalar=scalar))
        shared = MOST_SHARED - attributes.static_shared if dynamic is None else dynamic
        shape = LaunchShape(grid=grid, block=block, shared=shared)
        return replace(emulated_launch.launch(self.cubin, self.symbol, shape, values), buffers=())

    def executed(self, launch: Launch, blocks: Collection[tuple[int, ...]], number: int, limit_s: float) -> Execution:
        """Execute some blocks on the memory of a draw, with zeros in shared memory. Raises one of `faults`."""
        text = disassembly(self.cubin, self.toolchain, cached=False)
        code = emulated_launch.code(self.cubin, self.symbol, text)
        return left_behind(code, launch, np.array(sorted(blocks), np.int64), number, Clock(timeout_s=limit_s))


def _shown(found: Counterexample, block: Shape, versions: Sequence[Assembled], dynamic: Sequence[int | None]) -> str:
    """Return what differs in launches like the counterexample; empty if nothing does in time."""
    columns, rows, layers = (
        max(index + 1, min(found.values.get(f"nctaid.{axis}", 1), 1 << 15))
        for axis, index in zip("xyz", found.block, strict=True)
    )
    given = {int(match[1]): value for name, value in found.values.items() if (match := _NUMBER.search(name))}
    until = thread_time() + REPLAY_S
    for otherwise, number in itertools.product(OTHERWISE, range(2)):  # data are floats, or integers
        seen: list[Execution] = []
        for version, shared in zip(versions, dynamic, strict=True):
            launch = version.launch((columns, rows, layers), block, shared, given, otherwise)
            try:
                seen.append(version.executed(launch, {found.block}, number, until - thread_time()))
            except NcuSwizzleError as error:  # the old version fails there, or the emulator cannot execute it
                if seen and not isinstance(error, MemoryFault):
                    raise
                if seen:
                    return str(error)
                break
        if len(seen) == len(versions) and (text := difference(*seen)):
            return text
    return ""


def replayed(
    verdict: KernelVerdict, before: str, after: str, dynamic: tuple[int, int] | None, toolchain: Toolchain
) -> KernelVerdict:
    """Return a refutation if its counterexample, or a launch like it, shows in the emulator; else "not proved".

    `dynamic` are the bytes of dynamic shared memory of each version, if they are known.
    """
    found, shape = verdict.counterexample, verdict.block
    reason = "a counterexample was found, but not confirmed by the emulator"
    if found is not None and shape is not None and math.prod(shape) <= MOST_THREADS:
        versions = [Assembled(text, verdict.kernel, toolchain) for text in (before, after)]
        try:
            if shown := _shown(found, shape, versions, dynamic or (None, None)):
                return replace(verdict, counterexample=replace(found, what=f"{found.what}; emulated, {shown}"))
        except NcuSwizzleError as error:
            reason = f"{reason}: {error}"
    line = found.accesses[0].line if found and found.accesses else None
    return replace(verdict, outcome=ProofOutcome.UNPROVED, obstacle=ProofObstacle(reason=reason, line=line))
