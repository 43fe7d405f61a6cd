"""What an emulation is given and what it returns; importing these does not load the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ncu_swizzle.emulate.buffers import Buffer, GlobalAccesses
from ncu_swizzle.emulate.misfits import FollowedTiles
from ncu_swizzle.emulate.requests import AccessRequests

Dim3 = tuple[int, int, int]
CONSTANTS = ("LDC", "ULDC", "LDCU")  # opcodes that load from constant banks
Span = tuple[int, int]  # from the first byte to before the last


@dataclass(frozen=True)
class Launch:
    """A launch configuration, and what is known of the memory that the kernel uses."""

    grid: Dim3
    block: Dim3
    shared_dynamic: int = 0  # bytes
    parameters: bytes = b""  # in the layout of the cubin, from Code.parameter_offset on
    memory: Mapping[int, bytes] = field(default_factory=dict)  # address → content of arrays with known values
    cluster: Dim3 = (1, 1, 1)
    constants: Mapping[int, bytes] = field(default_factory=dict)  # banks that the host fills before the launch
    unknown_constants: Mapping[int, tuple[Span, ...]] = field(default_factory=dict)  # bytes of these that are unknown
    notes: tuple[str, ...] = ()  # what is not known of it
    buffers: tuple[Buffer, ...] = ()  # all that it may access in global memory; empty if that is not to be checked


@dataclass(frozen=True)
class InstructionCounts:
    """One instruction's counts over the whole launch; None if unknown, with a `reason`."""

    offset: int  # bytes from the function's start
    sass: str
    opcode: str
    access: str  # LDS, STS, LDSM, STSM, ATOMS, LDGSTS, …; empty if it does not access shared memory
    executed: int | None
    wavefronts: int | None = None  # also None if `access` is empty
    ideal: int | None = None
    reason: str = ""
    origin: int | None = None  # the offset of the instruction that caused the unknown


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of a launch: one row per instruction by address, and how they were obtained."""

    rows: tuple[InstructionCounts, ...]
    blocks: int  # in the grid
    blocks_run: int  # emulated; every other block behaves like one of these
    classes: int  # groups of blocks that behave alike
    checked: int  # random further blocks, emulated to check the classes
    notes: tuple[str, ...] = ()
    requests: Mapping[int, AccessRequests] = field(default_factory=dict)  # by offset, over the blocks that ran
    global_accesses: GlobalAccesses = GlobalAccesses()
    tiles: FollowedTiles = FollowedTiles()

    @property
    def unknown(self) -> tuple[InstructionCounts, ...]:
        """The shared-memory rows with something unknown."""
        return tuple(row for row in self.rows if row.access and (row.executed is None or row.wavefronts is None))

    @property
    def decisive(self) -> frozenset[str]:
        """The buffers whose contents decide what is unknown, as far as that is known."""
        named = self.global_accesses.buffers
        return frozenset(name for row in self.unknown if row.origin is not None for name in named.get(row.origin, ()))

    @property
    def on_data(self) -> bool:
        """Whether what is unknown may depend on data: not if constants of the launch alone decide it."""
        opcodes = {row.offset: row.opcode.partition(".")[0] for row in self.rows}
        return any(row.origin is None or opcodes.get(row.origin) not in CONSTANTS for row in self.unknown)
