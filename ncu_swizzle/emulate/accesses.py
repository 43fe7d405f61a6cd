"""Which shared-memory requests instructions make, a log of them, and loops whose requests depend on compare-and-swaps.

A floating-point atomic in shared memory compiles to a loop around ATOMS.CAST.SPIN. Of the lanes whose words are in one
bank, one swaps per execution; the others go round again. An H100 did so in all 368 measured loops, of one warp and
of eight, in which every lane had its own word (docs/wavefronts.md). If lanes want the same word between two
barriers of the block, how often they fail depends on the hardware: the result is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import MEMORY, SassInstruction
from ncu_swizzle.emulate.dependence import Tag, is_open
from ncu_swizzle.emulate.effects import effects, operand_number, words_moved
from ncu_swizzle.emulate.faults import MemoryFault, Restart, blaming
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.requests import (
    SEEN_BYTES,
    AccessCounts,
    LoopRequests,
    WarpRequests,
    count_accesses,
    distinct_requests,
)
from ncu_swizzle.emulate.state import Unknown
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.descriptors import WARPS
from ncu_swizzle.smem.opcodes import READ, WRITE, Copy, Memory
from ncu_swizzle.smem.operations import ADD_ONE, LDMATRIX, LINE, SPIN, STMATRIX, WARP, WORD, ZERO_FILL, Bools, Ints

# Which shared-memory requests an instruction makes: its width, its operation, and a log of what it asked for.


WINDOW = np.uint32(0xFFFFFF)  # address within a block; in a cluster the bits above select the block
_ATOMICS = {"AND": "and.b32", "OR": "or.b32", "XOR": "xor.b32", "EXCH": "exch.b32", "CAS": "cas.b32"}
_ORDERED = {"ADD": "add", "MIN": "min", "MAX": "max", "INC": "inc", "DEC": "dec"}


def access_width(instruction: SassInstruction) -> int:
    """Return the bytes per lane."""
    if instruction.row.matrix:
        return 16
    parts = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((parts[word] for word in instruction.modifiers if word in parts), WORD * words_moved(instruction))


def operation_name(instruction: SassInstruction) -> str | None:
    """Return the smem operation of the instruction; None if no rule gives its wavefronts."""
    row, width = instruction.row, access_width(instruction)
    if not row.addressed:
        return None
    loads = row.does(Memory.SHARED) == READ
    if row.matrix:
        if not instruction.has("M88", "MT88"):
            return None
        count = instruction.modifiers[-1] if instruction.modifiers[-1] in ("1", "2", "4") else "1"
        trans = ".trans" if instruction.has("MT88") else ""
        return f"{LDMATRIX if loads else STMATRIX}.x{count}{trans}"
    if row.copy is Copy.ASYNC:
        past = f"cp.async.cg.16{ZERO_FILL if instruction.has('ZFILL') else ''}"
        return past if instruction.has("BYPASS") else f"cp.async.ca.{width}"
    if row.atomic:
        return _atomic_name(instruction)
    kinds = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 16: "v4.b32"}
    return f"{'ld' if loads else 'st'}.shared.{kinds[width]}"


@dataclass(frozen=True)
class SharedUse:
    """What an instruction does to shared memory, and to how many bytes per lane."""

    does: str
    width: int
    matrix: int = 0  # lanes whose addresses count, for ldmatrix and stmatrix

    @classmethod
    def of(cls, instruction: SassInstruction) -> SharedUse:
        """Return what an instruction does, given its opcode and modifiers."""
        known = instruction.memo.get("use")
        if not isinstance(known, cls):
            row = instruction.row
            matrix = operations.find(operation_name(instruction) or "ldmatrix.x4").addressed if row.matrix else 0
            does = row.does(Memory.SHARED) or WRITE
            known = instruction.memo["use"] = cls(does, access_width(instruction), matrix)
        return known


def _atomic_name(instruction: SassInstruction) -> str | None:
    width = access_width(instruction)
    if instruction.has("CAST"):
        return SPIN if width == WORD else None
    if instruction.has("POPC"):
        return ADD_ONE
    if width == 2 * WORD and instruction.has("EXCH", "CAS"):
        return f"atom.shared.{'cas' if instruction.has('CAS') else 'exch'}.b64"
    if width != WORD or instruction.has("F32", "F16x2", "BF16x2", "F16", "F64"):
        return None
    word = next((word for word in instruction.modifiers if word in _ATOMICS | _ORDERED), "")
    kind = "s32" if instruction.has("S32") and word in ("MIN", "MAX") else "u32"
    names = {**_ATOMICS, **{name: f"{prefix}.{kind}" for name, prefix in _ORDERED.items()}}
    return f"atom.shared.{names[word]}" if word else None


class RequestLog:
    """All requests of one run, by instruction index. They are counted when their memory reaches a limit.

    Unknown requests, and the warps of wgmmas by block with the wavefronts of a warpgroup, are in the state.
    """

    def __init__(self, machine: Machine, instructions: Sequence[SassInstruction]) -> None:
        self.machine, self.instructions = machine, instructions
        self.seen: dict[int, dict[tuple[int | bytes, ...], WarpRequests]] = {}
        self._counted: dict[int, AccessCounts] = {}
        self._warps: dict[bytes, tuple[int, Ints]] = {}  # warps by number, and their blocks
        self._bytes = 0
        self.supposing = False  # whether paths that threads may take are followed, see `supposed`
        self.lost: set[int] = set()  # instructions whose possible requests are not known
        self.remote: dict[int, int] = {}  # how many ways lanes conflict in another block's shared memory

    def record(
        self,
        number: int,
        addresses: Bits,
        selected: Bools,
        source: Ints | None = None,
        tag: Tag | None = None,
        source_tag: Tag | None = None,
        certain: bool = True,
    ) -> WarpRequests:
        """Count one request per warp of the view, and return them; raise MemoryFault for an invalid address.

        If it is not `certain` which lanes make it, or that it is made, lanes with invalid addresses are left out.
        `source` holds the lower halves of the global addresses that a copy reads, -1 for lanes that write zeros; the
        tags are those of the addresses.
        """
        m = self.machine
        lanes = addresses if addresses.shape == selected.shape else np.broadcast_to(addresses, selected.shape)
        certain = certain and not self.supposing
        if not certain:
            if not shifts_uniformly(tag, max(WORD, access_width(self.instructions[number]))) or is_open(source_tag):
                self.lost.add(number)
            selected = selected & ~self._wrong(self.instructions[number], lanes & WINDOW, selected)
        every_lane = m.view.full and selected is m.view.mask
        if not every_lane:
            lanes = np.where(selected, lanes, np.uint32(0))
        origin = None if source is None else from_first_line(source, selected, source >= 0)
        together, blocks = self._together()
        period = period_of(blocks, [lanes, origin] if every_lane else [lanes, origin, selected])
        lanes, selected = lanes[:period], selected[:period]
        origin = None if origin is None else origin[:period]
        extra = b"" if origin is None else origin.tobytes()
        # Warps make the same requests again and again: looking them up by their bytes replaces counting each, which is
        # done once for all of them when memory is short, or at the end.
        key = (lanes.tobytes(), b"" if every_lane else selected.tobytes(), together, extra, certain)
        requests = self.seen.setdefault(number, {})
        entry = requests.get(key)
        if entry is None:
            lanes = lanes & WINDOW
            self._check(self.instructions[number], lanes, selected)
            entry = requests[key] = WarpRequests(
                addresses=lanes, selected=selected.copy(), source=origin, blocks=blocks, certain=certain
            )
            self._bytes += 2 * entry.nbytes  # the key is as long
        entry.count += 1
        if m.watcher:
            m.watcher.requests(m, number, entry)
        for repeat in m.repeats.active:
            repeat.requests.append(LoopRequests(number=number, seen=entry, tag=tag, source_tag=source_tag))
        # Not within an iteration with tags, whose requests may be taken back.
        if self._bytes > SEEN_BYTES and not m.repeats.active:
            self._count()
        return entry

    def add(self, request: LoopRequests) -> None:
        """Count requests that are made again."""
        requests, entry = self.seen.setdefault(request.number, {}), request.seen
        if entry.count:
            entry.count += request.times
        else:
            source = b"" if entry.source is None else entry.source.tobytes()
            key = (entry.addresses.tobytes(), entry.selected.tobytes(), entry.blocks.tobytes(), source, entry.certain)
            entry = requests.setdefault(key, entry)
            self._bytes += 0 if entry.count else 2 * entry.nbytes
            entry.count += request.times
        for repeat in self.machine.repeats.active:
            repeat.requests.append(replace(request, seen=entry))

    def all_valid(self, number: int, seen: WarpRequests) -> bool:
        """Return whether all requests are aligned and inside of shared memory."""
        return not self._wrong(self.instructions[number], seen.addresses, seen.selected).any()

    def _together(self) -> tuple[int, Ints]:
        """Return a number for the view's warps, and their blocks."""
        m = self.machine
        key = m.view.warps.tobytes()
        numbered = self._warps.get(key)
        if numbered is None:
            numbered = self._warps[key] = (len(self._warps), m.view_blocks())
            self._bytes += 2 * len(key)
        return numbered

    def record_wgmma(self, number: int, blocks: Ints, wavefronts: int) -> None:
        """Count a wgmma of one warp for each of these blocks, with a warpgroup's wavefronts."""
        running = len(self.machine.blocks)
        warps, _ = self.machine.wgmma.setdefault(number, (np.zeros(running, np.int64), wavefronts))
        warps += np.bincount(blocks, minlength=running)

    def miss(self, number: int, reason: str, origin: int | None, code: str = "", *, followed: bool = False) -> None:
        """Record that a request is unknown; `code` as in `Unknown`.

        `followed`: the possible request is recorded as uncertain.
        """
        self.machine.missed.setdefault(number, Unknown(reason, origin, code))
        if not followed:
            self.lost.add(number)

    def counts(self) -> Mapping[int, AccessCounts]:
        """Return the counts of all requests, by instruction, and keep none of them. Those without a rule are missed."""
        self._count()
        counts, self._counted = self._counted, {}
        for number, (warps, wavefronts) in self.machine.wgmma.items():
            if (warps % WARPS).any():
                self.miss(number, "not all warps of a warpgroup execute it", None, codes.NO_RULE)
            # `wavefronts` are those of a warpgroup, and each of its four warps was counted.
            total = warps * wavefronts // WARPS
            counts[number] = AccessCounts(wavefronts=total, ideal=total, known=True, requests=None)
        return counts

    def _count(self) -> None:
        """Count all requests that were seen since the last time."""
        for number, requests in self.seen.items():
            remaining = [seen for seen in requests.values() if seen.count]
            if not remaining:  # all of them were taken back
                continue
            with blaming(self.instructions[number]):
                counted = self._evaluate(number, remaining)
            if counted is not None:
                earlier = self._counted.get(number)
                self._counted[number] = earlier.plus(counted) if earlier else counted
        self.seen.clear()
        self._warps.clear()
        self._bytes = 0

    def _evaluate(self, number: int, seen: Sequence[WarpRequests]) -> AccessCounts | None:
        op = operation_name(self.instructions[number])
        if op is None:
            if any(request.selected.any() for request in seen):
                self.miss(number, "no rule is known for the wavefronts of this instruction", None, codes.NO_RULE)
            return None
        blocks = len(self.machine.blocks)
        certain, perhaps = ([each for each in seen if each.certain is sure] for sure in (True, False))
        supposed = distinct_requests(op, perhaps)[0].most_frequent() if perhaps else None
        if not certain:
            none = np.zeros(blocks, np.int64)
            return AccessCounts(wavefronts=none, ideal=none, known=True, requests=None, supposed=supposed)
        counted = count_accesses(op, certain, blocks)
        if not counted.known:
            self.miss(number, "no rule is known for the wavefronts of some of its requests", None, codes.NO_RULE)
        return replace(counted, supposed=supposed)

    def _wrong(self, instruction: SassInstruction, lanes: Bits, selected: Bools) -> Bools:
        width = access_width(instruction)
        used = selected
        if instruction.row.matrix:
            used = selected & (np.arange(32) < operations.find(operation_name(instruction) or "ldmatrix.x4").addressed)
        wrong: Bools = used & (
            (lanes.astype(np.int64) > self.machine.shared_size - width) | (lanes & np.uint32(width - 1) != 0)
        )
        return wrong

    def _check(self, instruction: SassInstruction, lanes: Bits, selected: Bools) -> None:
        wrong = self._wrong(instruction, lanes, selected)
        if not wrong.any():
            return
        m, width = self.machine, access_width(instruction)
        row, lane = np.argwhere(wrong)[0].tolist()
        at = int(lanes[row, lane])
        reason = (
            f"shared address {at:#x} is not a multiple of {width}"
            if at % width
            else f"shared address {at:#x} is outside the block's {self.machine.shared_size} bytes of shared memory"
        )
        fault = MemoryFault(instruction.offset, instruction.text, reason, *m.whose(row, lane))
        fault.beyond = at % width == 0
        raise fault


def shifts_uniformly(tag: Tag | None, unit: int) -> bool:
    """Return whether addresses that a loop left open shift together, by multiples of `unit` bytes."""
    return not is_open(tag) or (tag is not None and tag.uniform and (1 << tag.align) % unit == 0)


def period_of(blocks: Ints, requests: Sequence[Bits | Bools | Ints | None]) -> int:
    """Return after how many warps, of these blocks, the requests repeat: a block's if all blocks make the same ones."""
    warps = len(blocks)
    period = int(np.searchsorted(blocks, blocks[0], "right")) if warps else 0
    if not period or period == warps or warps % period:
        return warps
    by_block = [rows.reshape(-1, period, 32) for rows in requests if rows is not None]
    return period if all(bool((rows == rows[:1]).all()) for rows in by_block) else warps


def from_first_line(source: Ints, selected: Bools, reads: Bools) -> Ints:
    """Return global addresses, (N, 32), relative to the line of each request's lowest one; -1 for what is not read."""
    first = np.where(selected & reads, source, 1 << 60).min(axis=1, keepdims=True) & -LINE
    relative: Ints = np.where(selected, np.where(reads, source - first, -1), 0)
    return relative


def memory_operands(instruction: SassInstruction) -> list[int]:
    """Return the positions of the operands that are addresses."""
    return [position for position, operand in enumerate(instruction.operands) if operand.kind == MEMORY]


class Contended(Restart):
    """Several lanes swap the same word: what these instructions return is unknown."""

    def __init__(self, instructions: frozenset[int]) -> None:
        super().__init__(instructions)
        self.instructions = instructions


def ends_spin_loop(instructions: Sequence[SassInstruction], first: int, index: int) -> bool:
    """Return whether an instruction of a basic block, which begins at `first`, is the swap of such a loop.

    That is a compare-and-swap of 32 bits, which compares with what a load of the same block found at its address.
    """
    swap = instructions[index]
    if swap.opcode != "ATOMS" or not swap.has("SPIN") or access_width(swap) != WORD:
        return False
    position = memory_operands(swap)[0]
    address, expected = swap.operands[position], operand_number(swap.operands[position + 1])
    for instruction in reversed(instructions[first:index]):
        writes = effects(instruction).writes
        if expected is not None and writes >> expected & 1:
            loads = instruction.row.loads_only_shared and not instruction.modifiers and instruction.guard == swap.guard
            loaded = instruction.operands[1]
            return loads and (loaded.terms, loaded.offset) == (address.terms, address.offset)
        if any(writes >> (operand_number(term) or 0) & 1 for term in address.terms):
            return False
    return False


class SpinLoop:
    """One ATOMS.CAST.SPIN; `step` records its request and leaves its result unknown."""

    def __init__(self, instruction: SassInstruction, index: int, step: Step) -> None:
        position = memory_operands(instruction)[0]
        self.index, self.record = index, step
        self.guard = operands.guard_operands(instruction.guard)
        self.address = operands.address(instruction.operands[position])
        self.result = operand_number(instruction.operands[0])

    def step(self, m: Machine) -> None:
        condition = self.guard(m) if self.guard else None
        address = self.address(m)
        self.record(m)
        selected, doubtful = m.selection(condition)
        unsure = address.known is not True and bool((selected & ~np.asarray(address.known)).any())
        if self.index in m.contended or doubtful.any() or unsure:
            return
        words = (np.broadcast_to(address.bits, selected.shape) & WINDOW).astype(np.int64) // WORD
        self._claim(m, words, selected)
        m.put(self.result, Value(_winners(words, selected).astype(np.uint32)), condition)

    def _claim(self, m: Machine, words: Ints, selected: Bools) -> None:
        """Record which lanes own the words until the next barrier; raise Contended if another lane owns one."""
        rows, lanes = np.nonzero(selected)
        block, word = m.view_blocks()[rows], words[rows, lanes]
        thread = m.thread[m.view.warps[rows], lanes] + 1
        if m.claims is None:
            shape = (len(m.blocks), -(-m.shared_size // WORD))
            m.claims = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        owners, swapped_by = m.claims
        earlier = owners[block, word]
        # NumPy keeps the last of several writes to one element: a lane that does not find itself there has lost it.
        owners[block, word] = thread
        lost = (owners[block, word] != thread) | ((earlier != 0) & (earlier != thread))
        if lost.any():
            others = swapped_by[block[lost], word[lost]]
            raise Contended(frozenset({self.index, *others[earlier[lost] != 0].tolist()}))
        swapped_by[block, word] = self.index


def _winners(words: Ints, selected: Bools) -> Bools:
    """Mark one lane per bank."""
    # The lowest lane of each bank, (G, 32). Every lane has its own word, so whichever goes first, a bank with k lanes
    # takes k rounds.
    bank = np.where(selected, words % WARP, -1)
    winners = selected.copy()
    for lane in range(1, WARP):
        winners[:, lane] &= (bank[:, :lane] != bank[:, lane, None]).all(axis=1)
    return winners
