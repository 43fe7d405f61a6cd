"""What threads do in shared memory, in the order of execution; and the hazards that `races` and `waits` find in it.

An event is one instruction of some warps, or what lets waiting warps continue. Importing this loads no emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any, NamedTuple, Protocol

from ncu_swizzle.base.timeline import Timeline
from ncu_swizzle.smem.operations import Bools, Ints

LOCK = "what a lock or a flag orders that a loop waits for"
MOST_EVENTS = 1 << 19
MOST_EVENT_BYTES = 64 << 20  # of the addresses that they keep
VariableAt = Callable[[int], str]  # what is at a byte of shared memory, such as "tile + 0x10"; empty if not known


class Kind(IntEnum):
    """What happens in an event, and what its data are; arrays have a row for each of its G warps."""

    ACCESS = auto()  # `requests.WarpRequests`, of the block's own shared memory
    MAYBE = auto()  # the same for lanes that may or may not access it
    VALUES = auto()  # words that the next event stores, (words, G, 32), and which of them are known
    REMOTE = auto()  # blocks, addresses, lanes, (G, 32) each: accesses to another block of the cluster
    FILL = auto()  # first bytes and sizes, (G,), that an st.bulk writes, and the lanes that start it
    # Blocks, first bytes, sizes, of the mbarriers blocks and offsets, (n,) each, and which lane starts it, -1 for all.
    COPY_IN = auto()
    READ_OUT = auto()  # first bytes and sizes, (G,), that a bulk copy reads, and the lanes that start it
    TILE = auto()  # chunks that a wgmma reads, one array per warp
    TENSOR = auto()  # what tcgen05 does to shared and tensor memory: for each warp, a `order_steps.TensorUse`
    UNKNOWN = auto()  # an access to an unknown address, or by unknown lanes
    WARP = auto()  # lanes of a warp wait for each other: masks, (G, 32) or (G, 1), of those that do; None: all do
    BARRIER = auto()  # a generation of a barrier ends: its number and count, and which of the warps waited, (G,)
    ARRIVE = auto()  # BAR.ARV: the barrier's number and count
    INITIALISE = auto()  # blocks and offsets of mbarriers
    INVALIDATE = auto()  # the same for mbarriers that are invalidated
    # Arrivals: blocks, offsets, the phases that are complete then, and which lanes arrive; None: all of a warp.
    COUNT = auto()
    # Warps continue whose mbarrier's phase is complete: offsets, complete phases, and masks of lanes; None: all.
    PASS = auto()
    COMMIT = auto()  # copies so far are a group
    AWAIT = auto()  # how many groups of copies may be left
    AWAIT_TILES = auto()  # how many groups of wgmmas may be left
    STORED = auto()  # tcgen05.wait::st
    LOADED = auto()  # offsets of tcgen05.ld that have ended; none where one of them begins
    PROXY = auto()  # fence.proxy.async: masks of the lanes that execute it, (G,); None: all of them
    MEMORY = auto()  # a memory fence: the same
    CLUSTER_ARRIVE = auto()  # how often each warp has arrived, (G,)
    CLUSTER_PASS = auto()
    MISSED = auto()  # possible accesses: why they are not known
    JOIN = auto()  # an order that cannot be followed: why


class Event(NamedTuple):
    kind: Kind
    number: int  # of the instruction
    warps: Ints  # (G,)
    data: Any


class Watcher(Protocol):
    """Observes what warps do, as they do it; `m` is the machine."""

    def issues(self, warps: Ints, first: int, last: int) -> None:
        """Warps, (G,), issue the instructions from the first to the last."""

    def meets(self, warps: Ints, number: int, barrier: int) -> None:
        """Warps come to a barrier of their block."""

    def opens(self, barrier: int, blocks: Bools) -> None:
        """A barrier of some blocks, (B,), is complete."""

    def passes(self, m: Any, warps: Ints, number: int, offsets: Ints, parities: Ints) -> None:
        """Warps that each waited for a phase of an mbarrier continue."""

    def arrives(self, m: Any, selected: Bools, address: Any) -> None:
        """Lanes of the view, (G, 32), arrive at mbarriers, (G, 32)."""

    def copies(self, m: Any, rows: Ints, offsets: Any, sizes: Ints, boxes: Sequence[int]) -> None:
        """Some of the view's warps copy bytes in `rows` of a box; an mbarrier counts each copy."""

    def requests(self, m: Any, number: int, seen: Any) -> None:
        """The view's warps make `WarpRequests`, now `seen.count` times in all."""

    def accesses(self, m: Any, number: int, space: str, address: Any, selected: Bools) -> None:
        """Lanes of the view access global or local memory, as `traffic` names it."""


@dataclass
class EventLog:
    """The events of a run; how many of them have happened is in the state, so that it can go back."""

    events: list[Event] = field(default_factory=list)
    nbytes: int = 0
    full: bool = False

    def add(self, event: Event, happened: int, nbytes: int = 0) -> None:
        """Add an event after those that have happened."""
        if len(self.events) > happened:  # the run went back
            del self.events[happened:]
        self.nbytes += nbytes
        self.full |= len(self.events) >= MOST_EVENTS or self.nbytes > MOST_EVENT_BYTES
        if not self.full:
            self.events.append(event)


@dataclass(frozen=True, kw_only=True)
class Party:
    """One side of a hazard: what it does, at which instruction, and which thread, if one is known."""

    offset: int  # of the instruction, in bytes from the function's start
    does: str
    thread: tuple[int, int, int] | None = None
    mbarrier: int | None = None  # in shared memory: what `does` is followed by

    @property
    def who(self) -> str:
        return f"thread {self.thread}" if self.thread else "a warp"

    def in_words(self, variable_at: VariableAt) -> str:
        """Describe what it does."""
        return self.does if self.mbarrier is None else f"{self.does} {_mbarrier(self.mbarrier, variable_at)}"


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """Two unordered accesses to one byte, or a wait that cannot end."""

    code: str
    parties: tuple[Party, ...]  # the later one first
    block: tuple[int, int, int]
    what: str  # what is wrong, in words, which follow the `mbarrier`, or the one that the first party waits for
    mbarrier: int | None = None
    byte: int | None = None  # of shared memory, that both access
    place: str = ""  # what both access elsewhere

    def described(self, lines: Sequence[str], variable_at: VariableAt = lambda _: "") -> str:
        """Describe it; `lines` are those of the parties, empty if not known."""
        first, *others = self.parties
        if self.byte is None and not self.place:
            what = self.what
            if self.mbarrier is not None:
                what = f"{_mbarrier(self.mbarrier, variable_at)} {what}"
            elif first.mbarrier is not None:
                what = f"{first.who} {first.in_words(variable_at)}, {what}"
            sites = [f" at {line}" if line else "" for line in lines[1:]]
            told = [f"{it.who} {it.in_words(variable_at)}{at}" for it, at in zip(others, sites, strict=True)]
            meanwhile = f"; meanwhile, {', '.join(told)}" if told else ""
            return f"{what}{meanwhile} (block {self.block})"
        (earlier,) = others
        place = self.place
        if self.byte is not None:
            place = f"byte {self.byte:#x} of shared memory{_named(self.byte, variable_at)}"
        there = f" at {lines[1]}" if lines[1] and lines[1] != lines[0] else " on the same line" if lines[1] else ""
        done = f"{first.who} {first.does} {place}, which {earlier.who} {earlier.does}{there}"
        return f"{done}: {self.what} (block {self.block})"


def _mbarrier(at: int, variable_at: VariableAt) -> str:
    return f"the mbarrier at {at:#x}{_named(at, variable_at)}"


def _named(at: int, variable_at: VariableAt) -> str:
    return f" ({variable})" if (variable := variable_at(at)) else ""


@dataclass(frozen=True, kw_only=True)
class Hazards:
    """The hazards of a launch, and in how many blocks they were looked for.

    `lacking` says what could not be followed, and at which byte of the code, if any.
    """

    found: tuple[Hazard, ...] = ()
    blocks: int = 0
    lacking: Mapping[str, int | None] = field(default_factory=dict)
    timeline: Timeline | None = None  # of the first block

    def unfollowed(self, line_of: Callable[[int], str] = lambda _: "") -> tuple[str, ...]:
        """Describe what could not be followed, each with its line."""
        lines = ((what, "" if at is None else line_of(at)) for what, at in self.lacking.items())
        return tuple(dict.fromkeys(f"{what} ({line})" if line else what for what, line in lines))
