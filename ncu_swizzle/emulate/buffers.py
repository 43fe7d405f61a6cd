"""The buffers in global memory that a launch was given, and accesses outside of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READ, WRITE, ATOMIC = "read", "write", "atomic"


@dataclass(frozen=True)
class Buffer:
    """A kernel's argument or a global variable: where it starts, and its size in bytes."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class OutOfBounds:
    """What one instruction accesses outside of all buffers: its first such access, and how many more there are."""

    offset: int  # of the instruction, in bytes from the function's start
    kind: str  # READ, WRITE or ATOMIC
    width: int  # bytes per thread
    address: int
    buffer: str  # the nearest one; empty for a null pointer
    begin: int  # of the access, in bytes from the buffer's start
    size: int  # of the buffer
    thread: tuple[int, int, int]
    block: tuple[int, int, int]
    times: int  # accesses by a thread, in the blocks that were checked

    def __str__(self) -> str:
        """The access as compute-sanitizer would report it: what, where, and which thread."""
        more = f", and {self.times - 1:,} more" if self.times > 1 else ""
        return (
            f"{self.kind} of {self.width} byte{'s' if self.width > 1 else ''} {self._where}, "
            f"thread {self.thread} of block {self.block}{more}"
        )

    @property
    def _where(self) -> str:
        if not self.buffer:
            return f"through a null pointer (address {self.address:#x})"
        past, owner = self.begin - self.size, f"{self.buffer} ({self.size:,} bytes)"
        if self.begin < 0:
            return f"{-self.begin:,} bytes before the start of {owner}"
        if past < 0:
            return f"whose last {past + self.width:,} are past the end of {owner}"
        return f"{past:,} bytes past the end of {owner}" if past else f"right past the end of {owner}"


@dataclass(frozen=True)
class GlobalAccesses:
    """What a check of the accesses to global memory found; `lacking` says why there was none, if so."""

    outside: tuple[OutOfBounds, ...] = ()
    blocks: int = 0  # that were checked
    lacking: str = ""
    buffers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # by instruction's offset: where its data is
