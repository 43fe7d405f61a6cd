"""The whole state of an emulation of some blocks: one `State`, which can be copied and compared.

B blocks run side by side, with W warps in all, those of the first block first; a warp has 32 lanes. Whatever changes
while they run is a field here, but for the requests that are counted (`accesses.RequestLog` takes those back itself)
and the clock. So going back to an earlier moment means taking over a copy's fields, whichever there are.
"""

from __future__ import annotations

import copy
import functools
import hashlib
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes, Repeats
from ncu_swizzle.emulate.dependence import Steps, Tag
from ncu_swizzle.emulate.events import Hazard
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.access import RESERVED_BYTES
from ncu_swizzle.smem.operations import Bools, Ints


class Decided(StrEnum):
    """What the values of registers decide of an instruction: as the reason why something is unknown, in words."""

    ADDRESS = "its address"
    PREDICATE = "whether its predicate holds"
    HOW_OFTEN = "how often it runs"


@dataclass(frozen=True)
class Unknown:
    """Why something is unknown, and the index of the instruction that caused it.

    `code` is one of `base.codes`; empty if the instruction's kind decides it.
    """

    reason: str
    origin: int | None
    code: str = ""


# ---------------------------------------------------------------------------------------------- threads


@dataclass(frozen=True, eq=False)
class Group:
    """Threads at the same instruction: at most one diverged part of each warp."""

    pc: int  # the index of their instruction
    warps: Ints  # (G,)
    mask: Bools  # (G, 32)

    def part(self, chosen: Bools) -> Group:
        """Return the threads of some of the warps, (G,)."""
        return Group(self.pc, self.warps[chosen], self.mask[chosen])


@dataclass(frozen=True, eq=False, kw_only=True)
class AtBarrier:
    """Threads that wait at a barrier of their block (BAR)."""

    group: Group
    barrier: int
    count: int  # of threads that it waits for; 0 for the whole block
    vote: Value | None = None  # (G, 32), of BAR.RED
    mode: str = ""  # how votes are combined


@dataclass(frozen=True, eq=False, kw_only=True)
class AtPhaseCheck:
    """Warps that wait for a phase of an mbarrier (SYNCS.PHASECHK): `selected` lanes, (G, 32), execute the check."""

    group: Group
    selected: Bools
    offset: Ints  # (G,): of each warp's barrier in shared memory
    parity: Ints  # (G,)
    result: int | None  # the predicate's register

    def part(self, chosen: Bools) -> AtPhaseCheck:
        """Return some of the warps, (G,)."""
        arrays = {name: getattr(self, name)[chosen] for name in ("selected", "offset", "parity")}
        return replace(self, group=self.group.part(chosen), **arrays)


# ---------------------------------------------------------------------------------------------- memory


@dataclass(kw_only=True)
class LocalWord:
    """A word of all threads' local memory; `known` has a bit per byte."""

    bits: Bits  # (W, 32) uint32
    known: Bits  # (W, 32) uint8
    origin: int | None = None
    tag: Tag | None = None

    @classmethod
    def nothing(cls, warps: int) -> LocalWord:
        """Return a word that has not been written yet."""
        return cls(bits=np.zeros((warps, 32), np.uint32), known=np.zeros((warps, 32), np.uint8))

    def write(self, warps: Ints, lanes: Bools, byte: Bits, value: Value, size: int) -> None:
        """Write `size` bytes from byte `byte` on, (G, 32), in some lanes, (G, 32), of some warps, (G,)."""
        shift = np.uint32(8) * byte
        # (G, 32): each lane may write another byte of the word. `hole` are its bits, `touched` has a bit per byte.
        hole = np.uint32((1 << 8 * size) - 1) << shift
        touched = np.uint8((1 << size) - 1) << byte.astype(np.uint8)
        old, sure = self.bits[warps], self.known[warps]
        self.bits[warps] = np.where(lanes, (old & ~hole) | (value.bits << shift & hole), old)
        now_known = np.where(np.asarray(value.known), sure | touched, sure & ~touched)
        self.known[warps] = np.where(lanes, now_known, sure)
        if value.known is not True:
            self.origin = value.origin


@dataclass(kw_only=True)
class Barrier:
    """The mbarriers at one address, one per block, all (B,): phases, pending arrivals, transaction counts.

    PTX ISA, "mbarrier".
    """

    expected: Ints  # arrivals of a phase
    pending: Ints  # of the current phase
    transactions: Ints  # bytes that it still waits for; negative if they come first
    phase: Ints  # parity of the current phase
    unsure: Bools  # whether an arrival was unknown: it may complete at any time
    blurred: Bools  # whether bytes were unknown: it completes once nothing else can happen
    completed: Ints = field(compare=False)  # phases so far, of which the parity alone decides

    def complete(self, blocks: Ints) -> None:
        """Start the next phase in these blocks."""
        self.phase[blocks] ^= 1
        self.pending[blocks] = self.expected[blocks]
        self.transactions[blocks] = 0
        self.blurred[blocks] = False
        self.completed[blocks] += 1


@dataclass
class Barriers:
    """All mbarriers, by their offset in shared memory."""

    blocks: int
    at: dict[int, Barrier] = field(default_factory=dict)
    changed: bool = True  # since all waits last timed out
    # (B,): the first phase of the mbarrier in reserved memory by which the blocks of a pair allocate tensor memory
    # together. No code initialises it: the even block is to pass its first wait, the odd one is to wait for the even.
    reserved: Ints | None = None
    # Arrivals of tcgen05.commit that are still to come: the instruction, the mbarrier's offset, the blocks.
    commits: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)

    def _barrier(self, offset: int) -> Barrier:
        """Return the barriers at an offset to change them; uninitialised ones are unknown."""
        self.changed = True
        if offset not in self.at:
            reserved = self._is_reserved(offset)
            expected, pending = (np.full(self.blocks, int(reserved)) for _ in range(2))
            transactions, phase, completed = (np.zeros(self.blocks, np.int64) for _ in range(3))
            self.at[offset] = Barrier(
                expected=expected,
                pending=pending,
                transactions=transactions,
                phase=phase if self.reserved is None or not reserved else self.reserved.copy(),
                unsure=np.full(self.blocks, not reserved),
                blurred=np.zeros(self.blocks, bool),
                completed=completed,
            )
        return self.at[offset]

    def _is_reserved(self, offset: int) -> bool:
        return self.reserved is not None and offset < RESERVED_BYTES

    def followed(self, offset: int, block: int) -> Barrier | None:
        """Return the barriers at an offset if this block's is fully known; None if not."""
        barrier = self.at.get(offset)
        return None if barrier is None or barrier.unsure[block] or barrier.blurred[block] else barrier

    def initialise(self, offset: int, blocks: Ints, count: Ints) -> None:
        """Start the first phase of the barrier in these blocks."""
        barrier = self._barrier(offset)
        barrier.expected[blocks] = barrier.pending[blocks] = count
        barrier.transactions[blocks] = barrier.phase[blocks] = 0
        barrier.unsure[blocks] = barrier.blurred[blocks] = False

    def update(self, offset: int, blocks: Ints, arrivals: Ints, transactions: Ints, drop: bool = False) -> None:
        """Add arrivals and expected bytes, one row each; a block may be named repeatedly.

        `drop`: the arrivals are not expected again in later phases.
        """
        barrier = self._barrier(offset)
        if drop:
            np.subtract.at(barrier.expected, blocks, arrivals)
        # With -=, a block that is named several times would be counted once.
        np.subtract.at(barrier.pending, blocks, arrivals)
        np.add.at(barrier.transactions, blocks, transactions)
        # No phase has more arrivals than it expects: if more were counted, nothing is known about the barrier from then
        # on. A phase is complete when neither arrivals nor bytes are pending (PTX ISA, "mbarrier").
        barrier.unsure |= barrier.pending < 0
        touched = np.unique(blocks)
        sure = ~barrier.unsure[touched] & ~barrier.blurred[touched]
        done = (barrier.pending[touched] == 0) & (barrier.transactions[touched] == 0) & sure
        barrier.complete(touched[done])

    def doubt(self, blocks: Ints, offset: int | None = None) -> None:
        """Record that something unknown happened to the barrier, or to any of these blocks."""
        for barrier in self.at.values() if offset is None else (self._barrier(offset),):
            barrier.unsure[blocks] = True
        self.changed = True

    def blur(self, offset: int, blocks: Ints) -> None:
        """Record that an unknown number of bytes was expected or has arrived."""
        self._barrier(offset).blurred[blocks] = True

    def settle(self) -> None:
        """Complete the phases that wait for bytes alone, now that every copy has been issued and no thread can run."""
        for barrier in self.at.values():
            done = np.flatnonzero(barrier.blurred & (barrier.pending == 0) & ~barrier.unsure)
            if len(done):
                barrier.complete(done)
                self.changed = True

    def phase(self, offset: int, block: int) -> int | None:
        """Return how many phases of a block's barrier have completed; None if that is not known."""
        barrier = self.followed(offset, block)
        return None if barrier is None else int(barrier.completed[block])

    def lacking(self, offset: int, block: int) -> int:
        """Return the bytes that are missing (negative: too many) if nothing else keeps a phase from completing."""
        barrier = self.followed(offset, block)
        return 0 if barrier is None or barrier.pending[block] else int(barrier.transactions[block])

    def passed(self, offset: int, blocks: Ints, parity: Ints) -> Bools:
        """Return whether the phase of this parity is complete in each of these blocks, (n,); False if unsure."""
        fresh = offset not in self.at and self._is_reserved(offset)
        barrier = self._barrier(offset) if fresh else self.at.get(offset)
        if barrier is None:
            return np.zeros(len(blocks), bool)
        # The phase of a parity is over once the current one has the other parity.
        complete: Bools = (barrier.phase[blocks] != parity) & ~barrier.unsure[blocks]
        return complete


# ---------------------------------------------------------------------------------------------- the whole


def _part(start: Any = MISSING, *, compare: bool = True) -> Any:
    """Return a field of `State` that no caller passes: `start` is its value, or makes it; otherwise `begin` does."""
    if start is MISSING:
        return field(init=False, compare=compare)
    if callable(start):
        return field(default_factory=start, init=False, compare=compare)
    return field(default=start, init=False, compare=compare)


@dataclass(eq=False, repr=False, kw_only=True)
class State:
    """Everything that changes while blocks run.

    Two states are equal if what follows is the same, registers aside: callers know how those may
    differ. Counts and records are not compared.
    """

    live: Bools = _part()  # (W, 32): lanes that exist and have not exited
    registers: list[Value | None] = _part(compare=False)  # predicates, too; by the numbers of `effects`
    voted: Value | None = _part(None)  # what BAR.RED returned, until B2R reads it
    # Local memory by address / 4, and the instruction that stored to an unknown address of it.
    local: dict[int, LocalWord] = _part(dict)
    local_lost: int | None = _part(None)
    # By array in global memory, bytes that stores have overwritten; where the unknown address of one came from.
    overwritten: dict[int, Bools] = _part(dict)
    lost_by: int | None = _part(None)
    asked: Bools = _part()  # (B,): blocks that took a ticket
    # Shared memory, (B, bytes), if its contents are followed: zeros until something known is stored there.
    shared: Bits = _part(compare=False)
    shared_known: Bools = _part(compare=False)
    shared_written: bool = _part(False)
    shared_origin: int | None = _part(None)
    shared_tag: Tag | None = _part(None)  # of all words but those in `shared_tags`
    shared_tags: dict[int, list[Tag | None]] = _part(dict)  # by byte and block, of words that single lanes wrote
    unordered: int | None = _part(None)  # the wait after which the order of accesses is unknown
    # By block and word: the thread, from 1, that swapped it since the block's last barrier, and by what.
    claims: tuple[Ints, Ints] | None = _part(None)
    mbarriers: Barriers = _part()
    requests: Ints = _part()  # (B,): how often the block has asked for another's work
    columns: Ints = _part()  # (B,): a bit per 32 columns of tensor memory that the block has allocated
    # Waits for bytes that never come: block, barrier, bytes. This record decides nothing.
    starved: list[tuple[int, int, int]] = _part(list, compare=False)

    # Threads: those that can run, and those that wait for others; the order of groups decides nothing.
    ready: list[Group] = _part(list)
    resting: list[Group] = _part(list)  # in loops that only other threads can end
    at_barrier: list[AtBarrier] = _part(list)
    at_phase: list[AtPhaseCheck] = _part(list)
    at_cluster: list[Group] = _part(list)
    arrivals: dict[tuple[int, int], list[int]] = _part(dict)  # warps of BAR.ARV, by barrier and block
    cluster_arrivals: Ints = _part()  # (W,)
    collective: dict[int, int] = _part(dict)  # by WARPSYNC.COLLECTIVE: where its ENDCOLLECTIVE goes
    # Convergence barriers, (16, W, 32): the execution of BSSY that a lane joined, 0 for none; the lanes that wait.
    tokens: Ints = _part(compare=False)
    arrived: Bools = _part()
    targets: list[int] = _part(lambda: [EXIT], compare=False)  # by token: where to reconverge
    # Where threads reconverge that other threads, which saved the barrier in a call, may miss: the instruction.
    missable: dict[int, int] = _part(dict, compare=False)
    # WARPSYNC, (W, 32): the lanes that wait, and the mask of those that each waits for; where a waiting lane is.
    synced: Bools = _part()
    wanted: Bits = _part()
    waits_at: Ints = _part()

    # The counts, and the blocks and iterations for which they hold.
    issued: Ints = _part(compare=False)  # (n + 1, B): changes of how often instructions were issued, by instruction
    # By instruction: how many warps of each block, (B,), met, arrived or fenced there. Blocks of a kind do so alike.
    ordering: dict[int, Ints] = _part(dict, compare=False)
    happened: int = _part(0, compare=False)  # events, see `events.EventLog`
    order_lost: bool = _part(False, compare=False)  # whether some order or wait was not followed
    hazards: dict[tuple[str, int, int], Hazard] = _part(dict, compare=False)  # waits that cannot end, and misuse
    # By barrier of a block and block: the threads that those who are there wait for, and their instruction.
    epochs: Ints = _part(compare=False)  # (B,): barriers of all threads that the block has passed
    meeting: dict[tuple[int, int], tuple[int, int]] = _part(dict, compare=False)
    unknown: dict[int, Unknown] = _part(dict, compare=False)  # issue counts, by instruction
    missed: dict[int, Unknown] = _part(dict, compare=False)  # requests, by instruction
    tallies: Ints = _part(compare=False)  # (R, B): threads and diverging branches, see `traffic.Tallies`
    unsure: dict[int, Unknown] = _part(dict, compare=False)  # of these, by row
    # Decisions that narrowed no boxes, as a run of their own may count what they decide: by instruction, stride and
    # dimensions (`Tag.lattice`), the blocks, (B,).
    apart: dict[tuple[int, Steps, int], Bools] = _part(dict, compare=False)
    unfollowed: dict[int, Unknown] = _part(dict, compare=False)  # requests to global and local memory, by instruction
    wgmma: dict[int, tuple[Ints, int]] = _part(dict, compare=False)  # see `RequestLog`
    boxes: Boxes = _part(compare=False)
    repeats: Repeats = _part(Repeats, compare=False)

    def begin(self, live: Bools, blocks: int, registers: int) -> None:
        """Set what depends on the number of blocks and on their lanes, (W, 32)."""
        warps = len(live)
        self.live = live
        self.registers = [None] * registers
        self.asked = np.zeros(blocks, bool)
        self.shared, self.shared_known = np.zeros((blocks, 0), np.uint8), np.zeros((blocks, 0), bool)
        self.mbarriers, self.columns = Barriers(blocks), np.zeros(blocks, np.int64)
        self.requests = np.zeros(blocks, np.int64)
        self.cluster_arrivals, self.epochs = np.zeros(warps, np.int64), np.zeros(blocks, np.int64)
        # 16 convergence barriers, B0 to B15, of each warp.
        self.tokens, self.arrived = np.zeros((16, warps, 32), np.int64), np.zeros((16, warps, 32), bool)
        self.synced, self.wanted = np.zeros((warps, 32), bool), np.zeros((warps, 32), np.uint32)
        self.waits_at = np.zeros((warps, 32), np.int64)
        self.issued = np.zeros((1, blocks), np.int64)
        self.tallies = np.zeros((0, blocks), np.int64)

    def copy(self) -> State:
        """Return a copy to go back to."""
        saved = State.__new__(State)
        for name in _names(State, every=True):
            value = getattr(self, name)
            # Contents that were never written take neither time nor memory.
            unwritten = name in ("shared", "shared_known") and not self.shared_written
            setattr(saved, name, np.zeros(value.shape, value.dtype) if unwritten else copy_of_field(value))
        return saved

    def restore(self, saved: State) -> None:
        """Go back to a moment, using up its copy."""
        for name in _names(State, every=True):
            setattr(self, name, getattr(saved, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return (
            all(_decide_same(getattr(self, name), getattr(other, name)) for name in _names(State))
            and self._same_contents(other)
            and self._same_tokens(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def _same_contents(self, other: State) -> bool:
        """Return whether the same bytes of shared memory are known, and hold the same."""
        if not self.shared_written:
            return True
        same = np.array_equal(self.shared_known, other.shared_known)
        return same and not ((self.shared != other.shared) & self.shared_known).any()

    def _same_tokens(self, other: State) -> bool:
        """Return whether threads are at the same convergence barriers: every execution of BSSY has a new token."""
        if np.array_equal(self.tokens, other.tokens):
            return True
        # (2, pairs): each token with its counterpart. The states are alike if that renames tokens one to one, to
        # executions with the same target.
        pairs = np.unique(np.stack([self.tokens.ravel(), other.tokens.ravel()]), axis=1)
        if any(len(np.unique(names)) != pairs.shape[1] for names in pairs):  # not one to one
            return False
        mine, theirs = self.targets, other.targets
        return all(
            old == new or (min(old, new) > 0 and old < len(mine) and new < len(theirs) and mine[old] == theirs[new])
            for old, new in pairs.T.tolist()
        )

    def digest(self, *more: object) -> bytes:
        """Return a digest of all that is compared, with tokens by where they lead, and of something more."""
        digest = hashlib.sha256()
        used, which = np.unique(self.tokens, return_inverse=True)
        targets = [self.targets[token] if token < len(self.targets) else -token for token in used.tolist()]
        contents = np.where(self.shared_known, self.shared, 0) if self.shared_written else None
        for thing in (*(getattr(self, name) for name in _names(State)), which, targets, self.shared_known, contents):
            _feed(digest, thing)
        _feed(digest, more)
        return digest.digest()


@functools.cache
def _names(kind: type, every: bool = False) -> tuple[str, ...]:
    """Return a record's compared fields, or all; none if it is not a record."""
    return tuple(each.name for each in fields(kind) if every or each.compare) if is_dataclass(kind) else ()


def copy_of_field(thing: Any) -> Any:
    """Return a copy of whatever may change; numbers, values and frozen records are shared."""
    kind: Any = type(thing)
    if kind is np.ndarray:
        return thing.copy()
    if kind is list or kind is tuple:
        kinds: list[Any] = [type(each) for each in thing]
        return kind([a if _is_fixed(of) else copy_of_field(a) for a, of in zip(thing, kinds, strict=True)])
    if kind is dict:
        if all(map(_is_fixed, set(map(type, thing.values())))):  # thousands of reasons, for instance
            return thing.copy()
        return {key: copy_of_field(value) for key, value in thing.items()}
    if _is_fixed(kind):
        return thing
    clone = copy.copy(thing)
    vars(clone).update({name: copy_of_field(value) for name, value in vars(thing).items()})
    return clone


@functools.cache
def _is_fixed(kind: type) -> bool:
    """Return whether instances of a class never change."""
    frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009  mypy does not know it
    return frozen or issubclass(kind, (type(None), bool, int, float, str, bytes, np.generic, Value))


def _decide_same(a: Any, b: Any) -> bool:
    """Return whether two parts of states have the same effect."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_decide_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_decide_same, _in_order(a), _in_order(b)))
    kind: Any = type(a)
    names = ("tag", "known", "bits") if isinstance(a, Value) else () if isinstance(a, Tag) else _names(kind)
    return all(_decide_same(getattr(a, name), getattr(b, name)) for name in names) if names else bool(a == b)


def _in_order(queue: Any) -> Any:
    """Return groups, or waiting groups, by where they are; they may have moved on in between."""
    if type(queue) is tuple or len(queue) < 2 or not isinstance(queue[0], Group | AtBarrier | AtPhaseCheck):
        return queue
    groups = [(getattr(each, "group", each), each) for each in queue]
    return [each for _, each in sorted(groups, key=lambda pair: (pair[0].pc, pair[0].warps.tolist()))]


def _feed(digest: Any, thing: Any) -> None:
    """Add to a digest whatever in an object decides what follows."""
    kind: Any = type(thing)
    if isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype}{thing.shape}".encode())
        digest.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, Value):
        _feed(digest, (thing.bits, np.asarray(thing.known)))
    elif isinstance(thing, dict):
        _feed(digest, [*thing.items()])
    elif isinstance(thing, tuple | list):
        digest.update(f"{len(thing)}:".encode())
        for each in _in_order(thing):
            _feed(digest, each)
    elif names := _names(kind):
        _feed(digest, tuple(getattr(thing, name) for name in names))
    else:
        digest.update(repr(thing).encode())
