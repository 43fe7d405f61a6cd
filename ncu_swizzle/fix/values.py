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
    worlds = _Worlds(before, after, blocks=np.array(blocks, np.int64), places=places, timeout_s=timeout_s, seed=seed)
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


class _Worlds:
    """Executes both versions in one world after the other, and compares what they do there."""

    def __init__(
        self,
        before: Executable,
        after: Executable,
        blocks: Ints,
        places: MovedPlaces | None,
        timeout_s: float,
        seed: int,
    ) -> None:
        self.versions, self.blocks, self.timeout_s, self.seed = (before, after), blocks, timeout_s, seed
        self.clock = Clock(timeout_s=timeout_s)
        lines = Lines.between(before.emulated.profile.sources, after.emulated.profile.sources)
        self.outcome = _Outcome(before=before, after=after, lines=lines, blocks=blocks)
        self.typed = _typed(before)
        launch = before.launch(None)
        bank, _ = bank_0(before.code, launch)
        instructions = [parse_instruction(each) for each in before.code.instructions]
        self.decisive = decisive(instructions, launch.grid, launch.block, bank, before.code.parameter_offset)
        old = shared_contents(SPACE)
        came = np.arange(SPACE) if places is None else places.old(np.arange(SPACE))
        self.shared = old, np.where(came >= 0, old[np.maximum(came, 0)], 0).astype(np.uint8)
        self.executed: list[set[int]] = [set(), set()]
        self.idle = True  # whether an access is left that no world has executed
        self.events = self.drew = False

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
            if number < TICKETS or self.idle:
                yield number + INTEGERS + 1, ticket

    def _varied(self) -> Values:
        """Compare with other numbers in the buffers of zeros and ones; nothing is found where the old kernel fails."""
        self.clock = Clock(timeout_s=self.timeout_s / VARIED_SHARE)
        try:
            first = self._results(0, VARIED, None, varied=True)
        except (ProgramFailed, Contended):
            return Values()
        finally:
            self.clock = Clock(timeout_s=self.timeout_s)
        try:
            second = self._results(1, VARIED, None, varied=True)
        except (ProgramFailed, Contended) as error:
            return Values(difference=f"with other numbers in buffers of one number, the new kernel fails: {error}")
        return self.outcome.of(first, second)

    def _in(self, number: int, ticket: int | None = None) -> Values:
        return self.outcome.of(*(self._results(version, number, ticket) for version in (0, 1)))

    def _results(self, version: int, number: int, ticket: int | None, *, varied: bool = False) -> Results:
        floats, integers = self.typed
        world = World(
            number=number,
            decisive=self.decisive,
            shared=self.shared[version],
            first=ticket,
            floats=floats,
            integers=integers,
        )
        one = self.versions[version]
        found = results(one.code, one.launch(self.seed, varied=varied), self.blocks, self.clock, world)
        self.executed[version] |= found.executed
        self.idle = not found.accesses <= self.executed[version]
        self.events, self.drew = self.events or bool(world.events), self.drew or world.drew
        return found


def _typed(version: Executable) -> tuple[tuple[range, ...], tuple[range, ...]]:
    """Return the addresses of buffers of floating-point numbers, and of integers."""
    kinds: tuple[list[range], list[range]] = ([], [])
    arguments = {argument.name: argument for argument in version.target.family.arguments if argument.shape}
    for buffer in version.launch(None).buffers:
        if argument := arguments.get(buffer.name):
            integers = not fills.floating(argument)
            kinds[integers].append(range(buffer.address, buffer.address + buffer.size))
    return tuple(kinds[0]), tuple(kinds[1])


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    before: Executable
    after: Executable
    lines: Lines
    blocks: Ints

    def of(self, first: Results, second: Results) -> Values:
        """Return what comparing two versions in one world shows."""
        unseen = first.unseen or second.unseen
        lacking = f"what {unseen[0]} does is not followed" if unseen else ""
        if len(first.unseen) != len(second.unseen):
            return Values(lacking=lacking)
        old, new = first.written, second.written
        if len(old.address) != len(new.address) or not (
            (old.address == new.address).all() and (old.who == new.who).all()
        ):
            return self._differing(old, new, self._first_place(old, new), "are not written by both versions")
        known = old.known & new.known
        wrong = known & (old.value != new.value)
        if wrong.any():
            return self._differing(old, new, int(wrong.argmax()), "differ")
        if (found := self._loads(first.loads, second.loads)) or lacking:
            return found or Values(lacking=lacking)
        if self._unlike(first.atomics, second.atomics):
            return Values(difference="their atomic operations differ", blocks=len(self.blocks))
        doubtful = sum(-1 in each for each in (*first.atomics, *second.atomics))
        unknown = int((~known).sum()) + doubtful
        return Values(same=int(known.sum()), unknown=unknown, blocks=len(self.blocks), atomics=len(first.atomics))

    def _unlike(self, first: Sequence[tuple[int | str, ...]], second: Sequence[tuple[int | str, ...]]) -> bool:
        """Say whether the atomic operations certainly differ: those with unknown operands may be alike."""
        if len(first) != len(second):
            return True
        doubtful = any(-1 in each for each in (*first, *second))
        return not doubtful and tuple(first) != tuple(second)

    def _first_place(self, old: Written, new: Written) -> int:
        count = min(len(old.address), len(new.address))
        apart = (old.address[:count] != new.address[:count]) | (old.who[:count] != new.who[:count])
        return int(apart.argmax()) if apart.any() else count

    def _differing(self, old: Written, new: Written, at: int, what: str) -> Values:
        written, version = (old, self.before) if at < len(old.address) else (new, self.after)
        place, block = self._place(int(written.address[at])), self._block(int(written.who[at]))
        return Values(
            difference=f"{place}, which {block} writes, and others {what}",
            line=self._line(version, int(written.pc[at])),
            blocks=len(self.blocks),
        )

    def _loads(self, old: Loads, new: Loads) -> Values | None:
        """Return a difference if a thread loads other bytes.

        In another order they may be loaded: then the values decide, which are random.
        """
        units = [_widths(version, loads) for version, loads in ((self.before, old), (self.after, new))]
        unit = math.gcd(*(int(width) for widths in units for width in widths.values()))
        sides = [_bytes_of(loads, widths, unit) for loads, widths in zip((old, new), units, strict=True)]
        for number, (version, loads, what) in enumerate(
            ((self.after, new, "the new kernel loads, and the old one does not"),
             (self.before, old, "the old kernel loads, and the new one does not"))
        ):  # fmt: skip
            keys, rows = sides[1 - number]
            extra = ~np.isin(keys, sides[number][0])
            if extra.any():
                row = int(rows[int(extra.argmax())])
                place, block = self._place(int(loads.address[row])), self._block(int(loads.who[row]))
                return Values(
                    difference=f"{place} is what a thread of {block} of {what}",
                    line=self._line(version, int(loads.pc[row])),
                    blocks=len(self.blocks),
                )
        return None

    def _place(self, address: int) -> str:
        """Return a byte of global memory in words."""
        return next(
            (
                f"byte {address - buffer.address} of {buffer.name}"
                for buffer in self.before.launch(None).buffers
                if buffer.address <= address < buffer.address + buffer.size
            ),
            f"the byte at {address:#x}",
        )

    def _block(self, who: int) -> str:
        return f"block {tuple(self.blocks[who >> THREAD_BITS + EPOCH_BITS].tolist())}"

    def _line(self, version: Executable, pc: int) -> Location | None:
        lines = self.lines if version is self.after else Lines.same(self.before.emulated.profile.sources)
        line = lines.first(version.stacks.get(version.code.instructions[pc].offset, ()))
        return line if line[0] else None


def _widths(version: Executable, loads: Loads) -> dict[int, int]:
    """Return the bytes per lane of the instructions that load."""
    code = version.code.instructions
    return {pc: access_width(parse_instruction(code[pc])) for pc in np.unique(loads.pc).tolist()}


def _bytes_of(loads: Loads, widths: Mapping[int, int], unit: int) -> tuple[Bits, Ints]:
    """Return each unit of bytes that a thread loads once, as a key of both, and the load that it is from."""
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
