"""Whether both versions of a kernel do the same in global memory: what they store, ask of it by atomic operations, and
load, in the same worlds.

In the first world, buffers hold what is described, random inputs among them, and everything must be known and the
same. Others give numbers to buffers of zeros or ones, and to what cannot be known (`emulate.worlds`): a difference in
one is a difference. What the emulator does not compute, such as the results of tensor cores, is a hash of what they
read: see `emulate.stand_ins`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.accesses import Contended, access_width
from ncu_swizzle.emulate.code import parse_instruction
from ncu_swizzle.emulate.counts import Dim3, bank_0
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.results import EPOCH_BITS, THREAD_BITS, Loads, Results, Written, results
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.emulate.worlds import ADDRESS_BITS, ADDRESS_MASK, World, decisive, shared_contents
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.fix.excess import SPACE, MovedPlaces
from ncu_swizzle.fix.rows import Lines
from ncu_swizzle.kernels import fills
from ncu_swizzle.smem.operations import Ints

BLOCKS = 8, 64  # whose results are compared: at least, and at most
ACCESSES = 1 << 21  # of shared memory by single lanes, up to which more blocks are taken
SEED = 1
TICKETS = 3  # that all threads get alike at least, where any are asked for: the last block's, 0 and 1
VARIED_SHARE = 4  # of the time, for buffers that hold other numbers than described: it may never end
FLOATS, INTEGERS, VARIED = 0, 1, 1 << 10  # worlds; in even ones, memory of no known type holds floats


@dataclass(frozen=True, kw_only=True)
class Values:
    """What comparing them found: how many bytes are the same, differ, or are unknown in either version."""

    same: int = 0
    unknown: int = 0
    blocks: int = 0
    atomics: int = 0
    difference: str = ""  # the first one, in words
    line: Location | None = None
    lacking: str = ""  # why nothing could be compared
    worlds: int = 1  # in which they were
    executed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())  # accesses of both versions

    @property
    def complete(self) -> bool:
        """Whether everything that the blocks write is known and the same."""
        return not (self.difference or self.lacking or self.unknown) and self.same + self.atomics > 0


def compare(
    before: Executable,
    after: Executable,
    blocks: Sequence[Dim3],
    timeout_s: float,
    seed: int = SEED,
    places: MovedPlaces | None = None,
) -> Values:
    """Compare what these blocks do; `places` says where the bytes of shared memory have gone."""
    worlds = _Worlds(versions=(before, after), blocks=np.array(blocks, np.int64), timeout_s=timeout_s, seed=seed)
    worlds.set_shared(places)
    try:
        return worlds.compared()
    except Contended:
        return Values(lacking="lanes want the same word of shared memory in a loop of compare-and-swap")
    except ProgramFailed as error:
        return Values(lacking=str(error))


def some(blocks: Sequence[Dim3], grid: Dim3, accesses: int) -> list[Dim3]:
    """Return all blocks of a small grid; else some that stand for all, and others evenly spread, the last one too.

    `accesses` are those that one block makes.
    """
    least, most = BLOCKS
    count = max(least, min(most, ACCESSES // max(1, accesses)))
    total = math.prod(grid)
    if total <= count:
        return [_block(number, grid) for number in range(total)]
    spread = [_block(number, grid) for number in np.linspace(0, total - 1, count // 2).astype(int).tolist()]
    chosen = [blocks[number] for number in np.linspace(0, len(blocks) - 1, count - len(spread)).astype(int).tolist()]
    return list(dict.fromkeys([*chosen, *spread]))


def _block(number: int, grid: Dim3) -> Dim3:
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


@dataclass(eq=False, kw_only=True)
class _Worlds:
    """Executes both versions in one world after the other, and compares what they do there."""

    versions: tuple[Executable, Executable]  # before and after
    blocks: Ints  # [block, axis]
    timeout_s: float
    seed: int

    def __post_init__(self) -> None:
        before, after = self.versions
        self.clock = Clock(timeout_s=self.timeout_s)
        self.lines = Lines.between(before.emulated.profile.sources, after.emulated.profile.sources)
        launch = before.launch(None)
        bank, _ = bank_0(before.code, launch)
        instructions = [parse_instruction(each) for each in before.code.instructions]
        self.decisive = decisive(instructions, launch.grid, launch.block, bank, before.code.parameter_offset)
        # Addresses of buffers of floating-point numbers, and of integers.
        self.floats, self.integers = tuple[range, ...](), tuple[range, ...]()
        arguments = {argument.name: argument for argument in before.target.family.arguments if argument.shape}
        for buffer in launch.buffers:
            addresses = range(buffer.address, buffer.address + buffer.size)
            if argument := arguments.get(buffer.name):
                if fills.floating(argument):
                    self.floats += (addresses,)
                else:
                    self.integers += (addresses,)
        self.executed: list[set[int]] = [set(), set()]
        self.idle = True  # whether an access is left that no world has executed
        self.events = self.drew = False

    def set_shared(self, places: MovedPlaces | None) -> None:
        """Give shared memory its first contents: each byte the same, wherever it lies in the new version."""
        old = shared_contents(SPACE)
        came = np.arange(SPACE) if places is None else places.old(np.arange(SPACE))
        self.shared = old, np.where(came >= 0, old[np.maximum(came, 0)], 0).astype(np.uint8)

    def compared(self) -> Values:
        """Return what the first world shows, or the first difference or unknown result in another."""
        first = self._in(FLOATS)
        worlds = 1
        if not first.complete:
            return first
        if any(fills.varied(argument) != argument for argument in self.versions[0].target.family.arguments):
            worlds += 1
            if (found := self._varied()).difference:
                return found
        for number, ticket in self._further():
            worlds += 1
            found = self._in(number, ticket)
            if not found.complete:
                return found
        executed = frozenset(self.executed[0]), frozenset(self.executed[1])
        return replace(first, worlds=worlds, executed=executed)

    def _further(self) -> Iterator[tuple[int, int | None]]:
        """Yield worlds in which what cannot be known is something else, as long as there is something to be found."""
        if self.drew or self.events:
            yield INTEGERS, None
        for number, ticket in enumerate(self.decisive.tolist() if self.events else ()):
            # Which block draws which ticket decides what it does; more tickets only as long as an access has never been
            # executed.
            if number < TICKETS or self.idle:
                yield number + INTEGERS + 1, ticket

    def _varied(self) -> Values:
        """Compare with other numbers in the buffers of zeros and ones; nothing is found where the old kernel fails."""
        self.clock = Clock(timeout_s=self.timeout_s / VARIED_SHARE)
        try:
            first = self._results(0, VARIED, None, varied=True)
        except (ProgramFailed, Contended):
            # With numbers that nobody meant for it, the old kernel may fail: that says nothing of the patch.
            return Values()
        finally:
            self.clock = Clock(timeout_s=self.timeout_s)
        try:
            second = self._results(1, VARIED, None, varied=True)
        except (ProgramFailed, Contended) as error:
            return Values(difference=f"with other numbers in buffers of one number, the new kernel fails: {error}")
        return self.outcome(first, second)

    def _in(self, number: int, ticket: int | None = None) -> Values:
        return self.outcome(*(self._results(version, number, ticket) for version in (0, 1)))

    def _results(self, version: int, number: int, ticket: int | None, *, varied: bool = False) -> Results:
        world = World(
            number=number,
            decisive=self.decisive,
            shared=self.shared[version],
            first=ticket,
            floats=self.floats,
            integers=self.integers,
        )
        one = self.versions[version]
        found = results(one.code, one.launch(self.seed, varied=varied), self.blocks, self.clock, world)
        self.executed[version] |= found.executed
        self.idle = not found.accesses <= self.executed[version]
        self.events, self.drew = self.events or bool(world.events), self.drew or world.drew
        return found

    # ------------------------------------------------------------------------------------ one world

    def outcome(self, first: Results, second: Results) -> Values:
        """Return what comparing two versions in one world shows."""
        unseen = first.unseen or second.unseen
        lacking = f"what {unseen[0]} does is not followed" if unseen else ""
        if len(first.unseen) != len(second.unseen):
            return Values(lacking=lacking)
        old, new = first.written, second.written
        count = min(len(old.address), len(new.address))
        apart = (old.address[:count] != new.address[:count]) | (old.who[:count] != new.who[:count])
        if apart.any() or len(old.address) != len(new.address):
            at = int(apart.argmax()) if apart.any() else count
            return self._differing(old, new, at, "are not written by both versions")
        known = old.known & new.known
        wrong = known & (old.value != new.value)
        if wrong.any():
            return self._differing(old, new, int(wrong.argmax()), "differ")
        if (found := self._loads(first.loads, second.loads)) or lacking:
            return found or Values(lacking=lacking)
        # Atomic operations with unknown operands, -1, may be alike.
        doubtful = sum(-1 in operation for operation in (*first.atomics, *second.atomics))
        alike = doubtful or tuple(first.atomics) == tuple(second.atomics)
        if len(first.atomics) != len(second.atomics) or not alike:
            return Values(difference="their atomic operations differ", blocks=len(self.blocks))
        unknown = int((~known).sum()) + doubtful
        return Values(same=int(known.sum()), unknown=unknown, blocks=len(self.blocks), atomics=len(first.atomics))

    def _differing(self, old: Written, new: Written, at: int, what: str) -> Values:
        version, written = (0, old) if at < len(old.address) else (1, new)
        place, block, line = self._where(version, written, at)
        difference = f"{place}, which {block} writes, and others {what}"
        return Values(difference=difference, line=line, blocks=len(self.blocks))

    def _loads(self, old: Loads, new: Loads) -> Values | None:
        """Return a difference if a thread loads other bytes.

        In another order they may be loaded: then the values decide, which are random.
        """
        sides = (old, new)
        widths = []  # bytes per lane, by instruction
        for made, loads in zip(self.versions, sides, strict=True):
            code = made.code.instructions
            widths.append({pc: access_width(parse_instruction(code[pc])) for pc in np.unique(loads.pc).tolist()})
        unit = math.gcd(*(int(width) for each in widths for width in each.values()))
        keys = [_bytes_of(loads, each, unit) for loads, each in zip(sides, widths, strict=True)]
        for version, one, other in ((1, "new", "old"), (0, "old", "new")):
            extra = ~np.isin(keys[version][0], keys[1 - version][0])
            if extra.any():
                row = int(keys[version][1][int(extra.argmax())])
                place, block, line = self._where(version, sides[version], row)
                what = f"the {one} kernel loads, and the {other} one does not"
                difference = f"{place} is what a thread of {block} of {what}"
                return Values(difference=difference, line=line, blocks=len(self.blocks))
        return None

    def _where(self, version: int, accesses: Written | Loads, at: int) -> tuple[str, str, Location | None]:
        """Return the byte of global memory, and the block, of one access in words, and its line."""
        before, made = self.versions[0], self.versions[version]
        address, who = int(accesses.address[at]), int(accesses.who[at])
        place = f"the byte at {address:#x}"
        for buffer in before.launch(None).buffers:
            if buffer.address <= address < buffer.address + buffer.size:
                place = f"byte {address - buffer.address} of {buffer.name}"
                break
        block = f"block {tuple(self.blocks[who >> THREAD_BITS + EPOCH_BITS].tolist())}"
        lines = self.lines if version else Lines.same(before.emulated.profile.sources)
        line = lines.first(made.stacks.get(made.code.instructions[int(accesses.pc[at])].offset, ()))
        return place, block, line if line[0] else None


def _bytes_of(loads: Loads, widths: Mapping[int, int], unit: int) -> tuple[Bits, Ints]:
    """Return each unit of bytes that a thread loads, once.

    Two arrays, [unit]: a key of thread and address, sorted, and the number of the load that it is from.
    """
    width = np.zeros(max(widths, default=0) + 1, np.int64)
    for pc, size in widths.items():
        width[pc] = size
    count = width[loads.pc] // max(unit, 1)
    rows = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    address = (loads.address[rows] + unit * within).view(np.uint64)
    keys = (loads.who[rows] >> EPOCH_BITS).astype(np.uint64) << ADDRESS_BITS | address & ADDRESS_MASK
    unique, first = np.unique(keys, return_index=True)
    return unique, rows[first]
