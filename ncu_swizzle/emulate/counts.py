"""Constant banks at a launch: bank 0 as the driver fills it with sizes, addresses and parameters, and what is unknown.

Offsets are in bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.traffic import NO_TRAFFIC, Pattern, Traffic
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.contents import Buffer, GlobalAccesses
from ncu_swizzle.emulate.events import Hazards
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, PARAMETER_WINDOW, STACK_TOP
from ncu_swizzle.emulate.tile_record import FollowedTiles
from ncu_swizzle.smem.access import ALLOCATED
from ncu_swizzle.smem.operations import Bools
from ncu_swizzle.smem.requests import AccessRequests

# What an emulation takes and returns; importing these does not load the emulator.


Dim3 = tuple[int, int, int]
CONSTANTS = ("LDC", "ULDC", "LDCU")  # opcodes that load from constant banks
Span = tuple[int, int]  # from the first byte to before the last


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch configuration, and what is known about the memory that the kernel uses."""

    grid: Dim3
    block: Dim3
    shared_dynamic: int = 0  # bytes
    parameters: bytes = b""  # in the layout of the cubin, from Code.parameter_offset on
    memory: Mapping[int, bytes] = field(default_factory=dict)  # address → content of arrays with known values
    cluster: Dim3 = (1, 1, 1)
    constants: Mapping[int, bytes] = field(default_factory=dict)  # banks that the host fills before the launch
    unknown_constants: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)  # bytes of these that are unknown
    notes: tuple[str, ...] = ()  # what is not known about it
    buffers: tuple[Buffer, ...] = ()  # all that it may access in global memory; empty if unchecked
    uncompared: str = ""  # the part of global memory that the race check leaves out


@dataclass(frozen=True)
class Cause:
    """Why a count is unknown: the reason, its code, and the offset of the instruction that caused it."""

    reason: str
    code: str
    origin: int | None = None


@dataclass(frozen=True, kw_only=True)
class InstructionCounts:
    """One instruction's counts over the whole launch; None if unknown, with a `reason` and its code."""

    offset: int  # bytes from the function's start
    sass: str
    opcode: str
    access: str  # LDS, STS, LDSM, STSM, ATOMS, LDGSTS, …; empty if it does not access shared memory
    executed: int | None
    wavefronts: int | None = None  # also None if `access` is empty
    ideal: int | None = None
    reason: str = ""
    code: str = ""  # of the reason, see `base.codes`
    origin: int | None = None  # the offset of the instruction that caused the unknown
    traffic: Traffic = NO_TRAFFIC
    traffic_unknown: Cause | None = None  # why some of it is unknown, if so
    # Of its requests to global memory; it explains counts, and only an iteration that represents others knows its loop.
    pattern: Pattern | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Counts:
    """The counts of a launch: one row per instruction by address, and how they were obtained."""

    rows: tuple[InstructionCounts, ...]
    blocks: int  # in the grid
    blocks_run: int  # emulated; every other block behaves like one of these
    classes: int  # groups of blocks that behave alike
    checked: int  # random further blocks, emulated to check the classes
    notes: tuple[str, ...] = ()
    requests: Mapping[int, AccessRequests] = field(default_factory=dict)  # by offset, over the blocks that ran
    # By offset, of accesses whose counts are unknown: all requests that some of the lanes may make, see `supposed`.
    supposed: Mapping[int, AccessRequests] = field(default_factory=dict)
    remote: Mapping[int, int] = field(default_factory=dict)  # by offset: ways of conflicts in another block's memory
    global_accesses: GlobalAccesses = GlobalAccesses()
    tiles: FollowedTiles = FollowedTiles()
    hazards: Hazards = Hazards()

    @property
    def unknown(self) -> tuple[InstructionCounts, ...]:
        """The shared-memory rows with something unknown."""
        return tuple(row for row in self.rows if row.access and (row.executed is None or row.wavefronts is None))

    @property
    def decisive(self) -> frozenset[str]:
        """The buffers known to decide what is unknown."""
        named = self.global_accesses.buffers
        return frozenset(name for row in self.unknown if row.origin is not None for name in named.get(row.origin, ()))

    @property
    def on_data(self) -> bool:
        """Whether something unknown depends on data, and not on the launch's constants, on time or a missing rule."""
        opcodes = {row.offset: row.opcode.partition(".")[0] for row in self.rows}
        on_data = (row for row in self.unknown if row.code == codes.DATA)
        return any(row.origin is None or opcodes.get(row.origin) not in CONSTANTS for row in on_data)


STACK_AT = 0x28  # of sm_70 to sm_90, where the two words before it are what cvta.local adds
LOCAL_WINDOW_AT = 0x20
DYNAMIC_AT = 0x2C  # %dynamic_smem_size, to sm_90
PARAMETERS_SM90 = 0x210  # where parameters begin on sm_90
RESERVED_AT = 0x68  # %reserved_smem_offset_0 and _1: both 0 on an H100, with any static and dynamic shared memory


def bank_0(code: Code, launch: Launch) -> tuple[bytes, Bools]:
    """Return the bank, and which of its bytes are known."""
    size = max(code.parameter_offset + len(launch.parameters), PARAMETERS_SM90)
    content, known = bytearray(size), np.zeros(size, bool)

    def put(offset: int, layout: str, *values: float | bytes) -> None:
        struct.pack_into(layout, content, offset, *values)
        known[offset : offset + struct.calcsize(layout)] = True

    at = code.launch_constants
    put(at.block, "<3I", *launch.block)
    put(at.grid, "<3I", *launch.grid)
    put(at.stack, "<I", STACK_TOP)
    if at.stack == STACK_AT:
        put(LOCAL_WINDOW_AT, "<Q", LOCAL_WINDOW << 32)
    if code.parameter_offset <= PARAMETERS_SM90 and launch.shared_dynamic % ALLOCATED == 0:
        put(DYNAMIC_AT, "<I", launch.shared_dynamic)
    if code.parameter_offset == PARAMETERS_SM90:
        put(RESERVED_AT, "<Q", 0)
    if cluster := at.cluster:
        blocks = math.prod(launch.cluster)
        if blocks > 1:
            put(cluster.explicit, "<I", 1)
        put(cluster.parameters, "<Q", PARAMETER_WINDOW + code.parameter_offset)
        for back in {0, cluster.second}:
            put(cluster.extents - back, "<3I", *launch.cluster)
            put(cluster.clusters - back, "<3I", *(g // c for g, c in zip(launch.grid, launch.cluster, strict=True)))
            put(cluster.size - back, "<I", blocks)
            if cluster.second and launch.shared_dynamic % ALLOCATED == 0:
                put(cluster.dynamic - back, "<I", launch.shared_dynamic)
            for axis, extent in enumerate(launch.cluster):  # only exact inverses
                if extent & extent - 1 == 0:
                    put(cluster.inverses - back + 4 * axis, "<f", 1 / extent)
    put(code.parameter_offset, f"{len(launch.parameters)}s", launch.parameters)
    return bytes(content), known


def known_constants(code: Code, launch: Launch) -> dict[int, Bools]:
    """Return which bytes are known, for each of the module's banks with unknown bytes."""
    unknown = {**dict.fromkeys(launch.constants, ()), **launch.unknown_constants}
    masks = {}
    for bank, spans in {**code.unknown_constants, **unknown}.items():
        if spans:
            mask = masks[bank] = np.ones(len(launch.constants.get(bank, code.constants.get(bank, b""))), bool)
            for first, end in spans:
                mask[first:end] = False
    return masks
