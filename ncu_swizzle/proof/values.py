"""Whether both versions of a kernel leave the same bytes in global memory, for random inputs.

What the emulator does not compute, such as the results of tensor cores, is a hash of what they read: see
`emulate.stand_ins`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.counts import Dim3
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.results import Results, Written, results
from ncu_swizzle.emulate.spin_loops import Contended
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.errors import ProgramFailed
from ncu_swizzle.proof.lines import Lines
from ncu_swizzle.smem.banks import Ints

BLOCKS = 8, 64  # whose results are compared: at least, and at most
ACCESSES = 1 << 21  # of shared memory by single lanes, up to which more blocks are taken
SEED = 1


@dataclass(frozen=True)
class Values:
    """What comparing them found: how many bytes are the same, differ, or are unknown in either version."""

    same: int = 0
    unknown: int = 0
    blocks: int = 0
    atomics: int = 0
    difference: str = ""  # the first one, in words
    line: Location | None = None
    lacking: str = ""  # why nothing could be compared
    lost: int = 0  # bytes that are known in the old version only

    @property
    def complete(self) -> bool:
        """Whether everything that the blocks write is known and the same."""
        return not (self.difference or self.lacking or self.unknown) and self.same + self.atomics > 0


def compare(
    before: Executable, after: Executable, blocks: Sequence[Dim3], timeout_s: float, seed: int = SEED
) -> Values:
    """Compare what these blocks write."""
    chosen = np.array(blocks, np.int64)
    clock = Clock(timeout_s)
    try:
        first, second = (results(each.code, each.launch(seed), chosen, clock) for each in (before, after))
    except Contended:
        return Values(lacking="lanes want the same word of shared memory in a loop of compare-and-swap")
    except ProgramFailed as error:
        return Values(lacking=str(error))
    lines = Lines.between(before.emulated.profile.sources, after.emulated.profile.sources)
    return _Outcome(before, after, lines, chosen).of(first, second)


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


@dataclass(frozen=True)
class _Outcome:
    before: Executable
    after: Executable
    lines: Lines
    blocks: Ints

    def of(self, first: Results, second: Results) -> Values:
        unseen = first.unseen or second.unseen
        lacking = f"what {unseen[0]} writes is not followed" if unseen else ""
        if len(first.unseen) != len(second.unseen):
            return Values(lacking=lacking)
        old, new = first.written, second.written
        if len(old.address) != len(new.address) or not (
            (old.address == new.address).all() and (old.block == new.block).all()
        ):
            return self._differing(old, new, self._first_place(old, new), "are not written by both versions")
        known = old.known & new.known
        wrong = known & (old.value != new.value)
        if wrong.any():
            return self._differing(old, new, int(wrong.argmax()), "differ")
        if lacking:
            return Values(lacking=lacking)
        if self._unlike(first.atomics, second.atomics):
            return Values(difference="their atomic operations in global memory differ", blocks=len(self.blocks))
        doubtful = sum(-1 in each for each in (*first.atomics, *second.atomics))
        lost = int((old.known & ~new.known).sum())
        unknown = int((~known).sum()) + doubtful
        return Values(int(known.sum()), unknown, len(self.blocks), len(first.atomics), lost=lost)

    def _unlike(self, first: Sequence[tuple[int | str, ...]], second: Sequence[tuple[int | str, ...]]) -> bool:
        """Say whether the atomic operations certainly differ: those with unknown operands may be alike."""
        if len(first) != len(second):
            return True
        doubtful = any(-1 in each for each in (*first, *second))
        return not doubtful and tuple(first) != tuple(second)

    def _first_place(self, old: Written, new: Written) -> int:
        count = min(len(old.address), len(new.address))
        apart = (old.address[:count] != new.address[:count]) | (old.block[:count] != new.block[:count])
        return int(apart.argmax()) if apart.any() else count

    def _differing(self, old: Written, new: Written, at: int, what: str) -> Values:
        written, version = (old, self.before) if at < len(old.address) else (new, self.after)
        address, block = int(written.address[at]), tuple(self.blocks[int(written.block[at])].tolist())
        code = version.code.instructions[int(written.pc[at])]
        lines = self.lines if version is self.after else Lines.same(self.before.emulated.profile.sources)
        place = next(
            (
                f"byte {address - buffer.address} of {buffer.name}"
                for buffer in version.launch(None).buffers
                if buffer.address <= address < buffer.address + buffer.size
            ),
            f"the byte at {address:#x}",
        )
        line = lines.first(version.stacks.get(code.offset, ()))
        return Values(
            difference=f"{place}, which block {block} writes, and others {what}",
            line=line if line[0] else None,
            blocks=len(self.blocks),
        )
