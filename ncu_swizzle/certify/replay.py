"""Replay a counterexample: run both versions in the emulator, and see whether a read gets what another thread wrote.

The checker is asked whether two accesses can meet in one version alone, in any execution that its terms allow. Not all
of them need to happen: a loop's variable may take fewer values than its invariant. So both versions' code, assembled
without optimisation, is executed for one block. A change is refuted if some read gets its bytes from another write than
before, or an access is outside of its array that was inside of it.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.certify.verdict import Counterexample, KernelVerdict, Location, Obstacle, Outcome
from ncu_swizzle.cubin import shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import line_table
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.emulate.accesses import SharedUse
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.opcodes import READ
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.tracing import Version
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import MOST_SHARED, ArgumentValue
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain, disassembly
from ncu_swizzle.smem.access import MOST_THREADS
from ncu_swizzle.smem.operations import WARP, Bools, Ints

REPLAY_S = 20.0
BUFFER = 1 << 20  # bytes of zeros behind every pointer: data are arguments, too, and zeros are as good as any
OTHERWISE = (1024, 64, 7)  # what integers are that the counterexample leaves open, in one launch after the other
NOTHING = -1  # written by no thread
_NUMBER = re.compile(r"parameter (\d+)$")
_TARGET = re.compile(r"^\.target sm_(\d+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ReplayLaunch:
    """One launch of both versions: its shape, the block that is executed, and values of integers by parameter."""

    block: tuple[int, int, int]
    at: tuple[int, int, int]  # the block
    grid: tuple[int, int, int]
    values: Mapping[int, int]
    otherwise: int = OTHERWISE[0]

    @classmethod
    def of(cls, found: Counterexample, shape: tuple[int, int, int] | None, otherwise: int) -> ReplayLaunch:
        """Return the launch that a counterexample is about; of any shape: the smallest with its threads."""
        threads = [access.thread for access in found.accesses]
        own = (found.values.get(f"ntid.{axis}") for axis in "xyz")
        x, y, z = (size or max((t[axis] for t in threads), default=0) + 1 for axis, size in enumerate(own))
        x = x if y * z > 1 or x > WARP else WARP
        columns, rows, layers = (
            max(index + 1, min(found.values.get(f"nctaid.{axis}", 1), 1 << 15))
            for axis, index in zip("xyz", found.block, strict=True)
        )
        named = {int(match[1]): value for name, value in found.values.items() if (match := _NUMBER.search(name))}
        return cls(
            block=shape or (x, y, z),
            at=found.block,
            grid=(columns, rows, layers),
            values=named,
            otherwise=otherwise,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Traced:
    """The accesses to shared memory of one block: by thread, each thread's in the order of execution.

    Columns have one entry per access; `order` is when it was executed.
    """

    thread: Ints
    order: Ints
    address: Ints
    width: Ints
    reads: Bools
    writes: Bools
    pc: Ints
    instructions: tuple[SassInstruction, ...]
    arrays: tuple[SharedArray, ...]
    known: bool  # whether every address is
    cubin: Cubin
    symbol: str
    block: tuple[int, int, int]

    @cached_property
    def kinds(self) -> Ints:
        return self.thread << 8 | self.width << 2 | self.reads << 1 | self.writes

    def sources(self) -> Ints:
        """Return which access wrote each byte of each access before it, [access, byte]; NOTHING if none did."""
        most = int(self.width.max(initial=1))
        inside = np.arange(most) < self.width[:, None]
        number, byte = np.nonzero(inside)
        at, order = self.address[number] + byte, self.order[number]
        by_byte = np.lexsort((order, at))
        number, byte, at = number[by_byte], byte[by_byte], at[by_byte]
        # The last write before each access of the same byte: a running maximum of positions that restarts at each byte.
        position = np.arange(len(at))
        starts = np.maximum.accumulate(np.where(np.diff(at, prepend=-1) != 0, position, 0))
        last = np.maximum.accumulate(np.where(self.writes[number], position, -1))
        before = np.concatenate([[-1], last[:-1]])[: len(at)]
        found = np.full(inside.shape, NOTHING)
        # Not only which access, but which of its bytes.
        source = np.where(before >= starts, number[before] * most + byte[before], NOTHING)
        found[number, byte] = source
        return found

    def array(self) -> Ints:
        """Return the number of the array that each access is in, whole; -1 outside of all."""
        found = np.full(len(self.address), -1)
        for number, array in enumerate(self.arrays):
            inside = (self.address >= array.start) & (self.address + self.width <= array.start + array.size)
            found[inside] = number
        return found

    def line(self, number: int) -> Location | None:
        """Return the innermost source line of an access."""
        instruction = self.instructions[int(self.pc[number])]
        return next(iter(line_table(self.cubin.data, self.symbol).stack(instruction.offset)), None)


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

    def launch(self, shape: ReplayLaunch, dynamic: int) -> Launch:
        """Return the launch with buffers of zeros, and integers as they are given."""
        entry = shared_arrays.entry_in(self.ptx, self.symbol)
        kinds = entry.kinds if entry else ()
        values: list[ArgumentValue] = []
        for number, slot in enumerate(self.cubin.attributes(self.symbol).parameters):
            kind = kinds[number] if number < len(kinds) else "struct"
            value = shape.values.get(number, shape.otherwise)
            if slot.size == emulated_launch.POINTER and kind in ("pointer", ""):
                values.append(ArgumentValue(size=BUFFER, content=bytes(BUFFER), name=f"parameter {number}"))
            elif slot.size in (4, 8) and kind in "usb":
                values.append(ArgumentValue(scalar=(value % (1 << 8 * slot.size)).to_bytes(slot.size, "little")))
            elif slot.size == 4 and kind == "f":
                values.append(ArgumentValue(scalar=struct.pack("<f", 1.0)))
            else:
                values.append(ArgumentValue(scalar=bytes(slot.size)))
        launch = emulated_launch.launch(
            self.cubin, self.symbol, LaunchShape(grid=shape.grid, block=shape.block, shared=dynamic), values
        )
        return replace(launch, buffers=())

    @property
    def most_dynamic(self) -> int:
        """The most bytes of dynamic shared memory that it can be launched with."""
        return MOST_SHARED - self.cubin.attributes(self.symbol).static_shared

    def trace(self, shape: ReplayLaunch, dynamic: int) -> Traced:
        """Run one block, and return its accesses. Raises MemoryFault, and whatever else the emulator raises."""
        text = disassembly(self.cubin, self.toolchain, cached=False)
        code = emulated_launch.code(self.cubin, self.symbol, text)
        version = Version(code, self.launch(shape, dynamic), Clock(timeout_s=REPLAY_S))
        _, trace = version.run(np.array([shape.at]))
        by_thread = np.argsort(trace.accesses.thread, kind="stable")
        pc = trace.accesses.pc[by_thread]
        used = {int(number): SharedUse.of(version.instructions[number]) for number in np.unique(pc)}
        does = [used[number].does for number in pc.tolist()]
        return Traced(
            thread=trace.accesses.thread[by_thread],
            order=by_thread,
            address=trace.accesses.address[by_thread],
            width=np.array([used[number].width for number in pc.tolist()], np.int64),
            reads=np.array([each != "writes" for each in does], bool),
            writes=np.array([each != READ for each in does], bool),
            pc=pc,
            instructions=version.instructions,
            arrays=shared_arrays.shared_arrays(self.cubin, self.symbol, dynamic),
            known=not trace.unknown,
            cubin=self.cubin,
            symbol=self.symbol,
            block=shape.block,
        )


def difference(before: Traced, after: Traced) -> str:
    """Return what the new version does otherwise, in words; empty if nothing, or if it is not known."""
    if not (before.known and after.known) or len(before.kinds) != len(after.kinds):
        return ""
    if (before.kinds != after.kinds).any():
        return ""
    was, now = before.array(), after.array()
    if before.arrays and [array.symbol for array in before.arrays] == [array.symbol for array in after.arrays]:
        for number in np.flatnonzero((was >= 0) & (was != now)).tolist():
            return f"{_who(after, number)} leaves {after.arrays[int(was[number])].name}"
    old, new = before.sources(), after.sources()
    wrong = ((old != new) & before.reads[:, None]).any(axis=1)
    for number in np.flatnonzero(wrong).tolist():
        return f"{_who(after, number)} reads what another access wrote than before"
    return ""


def _who(traced: Traced, number: int) -> str:
    line = traced.line(number)
    where = f", {PurePath(line[0]).name}:{line[1]}" if line else ""
    (x, y, _), thread = traced.block, int(traced.thread[number])
    return f"thread {(thread % x, thread // x % y, thread // (x * y))}{where}"


def differences(
    before: Assembled, after: Assembled, launches: Iterable[ReplayLaunch], dynamic: tuple[int, int] | None
) -> Iterator[str]:
    """Yield for each launch what differs in its block; empty if nothing does, or if the old version fails there.

    `dynamic` are the bytes of dynamic shared memory of each version; None: as many as there can be.
    """
    for launch in launches:
        try:
            old = before.trace(launch, dynamic[0] if dynamic else before.most_dynamic)
        except NcuSwizzleError:  # not a launch that a proof is about, or one that the emulator cannot execute
            yield ""
            continue
        try:
            yield difference(old, after.trace(launch, dynamic[1] if dynamic else after.most_dynamic))
        except MemoryFault as error:
            yield str(error)
        except NcuSwizzleError:
            yield ""


def replayed(
    verdict: KernelVerdict, before: str, after: str, dynamic: tuple[int, int] | None, toolchain: Toolchain
) -> KernelVerdict:
    """Return a refutation if its counterexample, or a launch like it, shows in the emulator; else "not proved"."""
    found = verdict.counterexample
    reason = "a counterexample was found, but not confirmed by the emulator"
    if found is not None:
        launches = (ReplayLaunch.of(found, verdict.block, otherwise) for otherwise in OTHERWISE)
        fitting = (launch for launch in launches if math.prod(launch.block) <= MOST_THREADS)
        old, new = (Assembled(text, verdict.kernel, toolchain) for text in (before, after))
        try:
            if shown := next(filter(None, differences(old, new, fitting, dynamic)), ""):
                return replace(verdict, counterexample=replace(found, what=f"{found.what}; emulated, {shown}"))
        except NcuSwizzleError as error:
            reason = f"{reason}: {error}"
    line = found.accesses[0].line if found and found.accesses else None
    return replace(verdict, outcome=Outcome.UNPROVED, obstacle=Obstacle(reason=reason, line=line))
