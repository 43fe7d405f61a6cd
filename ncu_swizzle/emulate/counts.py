"""What an emulation takes and returns: records, which load nothing of the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ncu_swizzle.base import codes
from ncu_swizzle.base.traffic import NO_TRAFFIC, Pattern, Traffic
from ncu_swizzle.emulate.events import Hazards
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE
from ncu_swizzle.smem.requests import AccessRequests

Dim3 = tuple[int, int, int]
CONSTANTS = ("LDC", "ULDC", "LDCU")  # opcodes that load from constant banks
Span = tuple[int, int]  # from the first byte to before the last


ARRAY_BYTES = 128 << 20  # of known contents of arrays in global memory, at most
NULL_PAGE = 1 << 16  # bytes, from address 0 on
_NOUNS = {READ: "read", WRITE: "write", ATOMIC: "atomic"}


@dataclass(frozen=True)
class Buffer:
    """A kernel's argument or a global variable: where it starts, and its size in bytes."""

    name: str
    address: int
    size: int


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
    access: str  # its opcode; empty if it does not access shared memory
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


@dataclass(frozen=True, kw_only=True)
class OutOfBounds:
    """What one instruction accesses outside of all buffers: its first such access, and how many more there are."""

    offset: int  # of the instruction, in bytes from the function's start
    does: str  # READ, WRITE or ATOMIC
    width: int  # bytes per thread
    address: int
    buffer: str  # the nearest one; empty for a null pointer
    begin: int  # of the access, in bytes from the buffer's start
    size: int  # of the buffer
    thread: tuple[int, int, int]
    block: tuple[int, int, int]
    times: int  # accesses by a thread, in the blocks that were checked

    @classmethod
    def of(cls, buffers: Sequence[Buffer], *, address: int, width: int, **others: Any) -> Self:
        """Return an access outside of these buffers."""
        buffer = None
        if not 0 <= address < NULL_PAGE:
            near = lambda b: max(b.address - address - width, address - b.address - b.size)  # noqa: E731
            buffer = min(buffers, key=near, default=None)
        name, begin, size = (buffer.name, address - buffer.address, buffer.size) if buffer else ("", 0, 0)
        return cls(address=address, width=width, buffer=name, begin=begin, size=size, **others)

    def __str__(self) -> str:
        """The access as compute-sanitizer would report it: what, where, and which thread."""
        more = f", and {self.times - 1:,} more" if self.times > 1 else ""
        return (
            f"{_NOUNS[self.does]} of {self.width} byte{'s' if self.width > 1 else ''} {self.where}, "
            f"thread {self.thread} of block {self.block}{more}"
        )

    @property
    def where(self) -> str:
        """Where the access is, relative to the nearest buffer."""
        if not self.buffer:
            return f"through a null pointer (address {self.address:#x})"
        past, owner = self.begin - self.size, f"{self.buffer} ({self.size:,} bytes)"
        if self.begin < 0:
            return f"{-self.begin:,} bytes before the start of {owner}"
        if past < 0:
            return f"whose last {past + self.width:,} are past the end of {owner}"
        return f"{past:,} bytes past the end of {owner}" if past else f"right past the end of {owner}"


@dataclass(frozen=True, kw_only=True)
class GlobalAccesses:
    """What a check of the accesses to global memory found; `lacking` says why it was not done, if so."""

    outside: tuple[OutOfBounds, ...] = ()
    blocks: int = 0  # that were checked
    lacking: str = ""
    buffers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # by instruction's offset: where its data is


@dataclass(frozen=True)
class Misfit:
    """One instruction that computes something other than a product of tiles: what is wrong, and what would fit."""

    offset: int  # of the instruction, in bytes from the function's start
    message: str
    code: str = codes.TILE


@dataclass(frozen=True)
class FollowedTiles:
    """What following tiles from tensor maps to wgmma found; `lacking` says why it ended early, if so."""

    misfits: tuple[Misfit, ...] = ()
    followed: int = 0  # wgmmas whose operands were all followed
    lacking: str = ""
    bound: tuple[str, ...] = ()  # which tcgen05.mma take longer to load than to multiply


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
