"""The bytes that bulk and tensor copies move: to shared memory when they are issued, and from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.code import MEMORY, SassInstruction
from ncu_swizzle.emulate.copies import GRANULE, ToShared, copies_out, map_at, registers, value_of_row, values_of_rows
from ncu_swizzle.emulate.effects import coordinates
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Reader, Step, both
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.tensor_map import BoxCopy, Tiled, decoded_map
from ncu_swizzle.emulate.values import Bits, Value, join_halves
from ncu_swizzle.smem.descriptors import CHUNK, FLIPPED
from ncu_swizzle.smem.opcodes import Copy
from ncu_swizzle.smem.operations import Bools, Ints

NAN_FILL = {6: 0x7FFF, 7: 0x7FFFFFFF, 9: 0x7FFF}  # by CUtensorMapDataType; what a fill with NaN writes is not measured
_PLAIN = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)  # types whose bytes are copied as they are


def arrival(instruction: SassInstruction, ordinary: Step | None) -> Step | None:
    """Return the step of a copy by TMA, after the ordinary one; None for other instructions."""
    if instruction.row.copy not in (Copy.BULK, Copy.TENSOR):
        return None
    if copies_out(instruction):  # the ordinary one forgets what it may overwrite, which is known here
        return _Departing(instruction).step
    return both(ordinary, _Arriving(instruction).step) if ordinary else None


def moves(tensor: Tiled | None) -> bool:
    """Return whether it is known which bytes a tensor map's copy moves: as they are, in whole elements."""
    return (
        tensor is not None
        and tensor.data_type in _PLAIN
        and not tensor.interleave
        and not tensor.refused
        and tensor.swizzle != FLIPPED
        and not (tensor.fill and tensor.data_type not in NAN_FILL)
    )


def _box(tensor: Tiled, corner: tuple[int, ...], start: int) -> BoxCopy:
    return BoxCopy(
        offset=0, map_at=0, tensor=tensor, corner=corner, block=0, barrier=0, phase=0, start=start, counted_in=0
    )


def _elements(box: BoxCopy) -> tuple[Ints, Bools]:
    """Return the address of each element of a box, (chunks, elements of one), and whether it is inside the tensor."""
    tensor = box.tensor
    at = np.repeat(box.coordinates()[:, None], 8 * CHUNK // tensor.bits, axis=1)  # (chunks, elements, rank)
    at[:, :, 0] += np.arange(at.shape[1])
    inside: Bools = np.asarray(((at >= 0) & (at < np.array(tensor.sizes))).all(axis=2))
    addresses: Ints = tensor.address + at @ (tensor.steps // 8)
    return addresses, inside


class _Copying:
    """What both directions have in common: which warps copy, and between where."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction, self.tensor = instruction, instruction.row.copy is Copy.TENSOR
        self.guard = operands.guard_operands(instruction.guard)
        self.modelled = not instruction.has("GATHER4", "SCATTER4", "IM2COL") and not instruction.opcode.endswith("REDG")
        self.modelled &= instruction.opcode not in ("UBLKRED", "UTMAREDG")

    def rows(self, m: Machine) -> Ints:
        """Return the warps of the view that copy."""
        selected, _ = m.selection(self.guard(m) if self.guard else None)
        return np.flatnonzero(selected.any(axis=1))

    @staticmethod
    def numbers(m: Machine, readers: Sequence[Reader]) -> tuple[list[Value], bool]:
        """Return what the first lane of each warp reads, and whether all of it is known."""
        values = [first_lane(read(m), m.view.mask) for read in readers]
        return values, all(value.certain for value in values)

    @staticmethod
    def boxes(m: Machine, rows: Ints, low: Value, high: Value, corner: Sequence[Value]) -> Iterator[BoxCopy | None]:
        """Yield the box of each warp's copy; None if its map is not understood."""
        for row in rows.tolist():
            address = value_of_row(low, row) | value_of_row(high, row) << 32
            content = map_at(m, address)
            tensor = decoded_map(content) if content else None
            at = tuple(int(np.int32(np.uint32(value_of_row(value, row)))) for value in corner)
            yield _box(tensor, at, 0) if tensor is not None and moves(tensor) else None


class _Arriving(_Copying):
    """UTMALDG, and UBLKCP to shared memory: the copy that is counted has made room for the bytes already."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.counted = ToShared(instruction)
        self.modelled &= not self.counted.within and not self.counted.adds

    def step(self, m: Machine) -> None:
        copy = self.counted
        rows = self.rows(m)
        readers = [copy.target, *copy.source, *copy.corner, *([copy.extra] if copy.extra else [])]
        values, certain = self.numbers(m, readers)
        if not self.modelled or not certain or not len(rows):
            return  # what it writes stays unknown
        target, low, high = values[:3]
        extra = values[-1] if copy.extra else None
        corner = values[3 : 3 + len(copy.corner)]
        boxes = self.boxes(m, rows, low, high, corner) if self.tensor else iter([None] * len(rows))
        for row, box in zip(rows.tolist(), boxes, strict=True):
            here = np.array([row])
            start = value_of_row(target, row) & int(WINDOW)
            blocks = copy.blocks(m, here, values_of_rows(target, here), extra)
            if box is not None:
                places, content, known = self._box(m, box, start)
            elif not self.tensor and extra is not None:
                size = (value_of_row(extra, row) & 0xFFFF) * GRANULE
                address = join_halves(values_of_rows(low, here), values_of_rows(high, here))
                content, known = self._bytes(m, address, size)
                places = start + np.arange(size)
            else:
                continue
            inside = places < m.shared_size
            for block in blocks.tolist():
                m.shared[block, places[inside]], m.shared_known[block, places[inside]] = content[inside], known[inside]
            m.shared_written = True

    def _box(self, m: Machine, box: BoxCopy, start: int) -> tuple[Ints, Bits, Bools]:
        """Return where the bytes of a box go, what they are, and whether that is known."""
        tensor = box.tensor
        addresses, inside = _elements(box)
        size = tensor.bits // 8
        content = np.zeros((*addresses.shape, size), np.uint8)
        known = np.ones(content.shape, bool)
        if tensor.fill:
            content[~inside] = np.frombuffer(NAN_FILL[tensor.data_type].to_bytes(size, "little"), np.uint8)
        place = _global(m, addresses[inside], size)
        content[inside] = m.device.content[place[:, None] + np.arange(size)]
        known[inside] = m.device.known[place[:, None] + np.arange(size)] != 0
        m.device.note_read(m.now, place, size)
        places = (box.addresses(start)[:, None] + np.arange(CHUNK)).ravel()
        return places, content.ravel(), known.ravel()

    @staticmethod
    def _bytes(m: Machine, address: Bits, size: int) -> tuple[Bits, Bools]:
        places = _global(m, address.view(np.int64) + np.arange(0, size, GRANULE), GRANULE)
        m.device.note_read(m.now, places, GRANULE)
        at = (places[:, None] + np.arange(GRANULE)).ravel()
        return m.device.content[at], m.device.known[at] != 0


class _Departing(_Copying):
    """UTMASTG, and UBLKCP to global memory: they read shared memory at once."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
        # UTMASTG has the address in shared memory and the corner first, UBLKCP.G.S the address in global memory.
        there, here = memory[::-1] if self.tensor else memory
        self.start, self.there = operands.raw(here.terms[0]), registers(there)
        ranks = coordinates(instruction) if self.tensor else 0
        self.corner = [operands.raw(here.terms[0], 1 + axis) for axis in range(ranks)]
        self.size = None if self.tensor else operands.raw(instruction.operands[-1])

    def step(self, m: Machine) -> None:
        rows = self.rows(m)
        readers = [self.start, *self.there, *self.corner, *([self.size] if self.size else [])]
        values, certain = self.numbers(m, readers)
        if not len(rows):
            return
        if not self.modelled or not certain:
            m.device.lose(f"what {self.instruction.text} writes")
            return
        start, low, high = values[:3]
        boxes = self.boxes(m, rows, low, high, values[3 : 3 + len(self.corner)])
        for row, box in zip(rows.tolist(), boxes if self.tensor else [None] * len(rows), strict=True):
            first, block = value_of_row(start, row) & int(WINDOW), int(m.view_blocks()[row])
            if box is not None:
                addresses, inside = _elements(box)
                unit = box.tensor.bits // 8
                sources = box.addresses(first)[:, None] + unit * np.arange(addresses.shape[1])
                addresses, sources = addresses[inside], sources[inside]
            elif self.size is not None:
                unit, size = GRANULE, (value_of_row(values[-1], row) & 0xFFFF) * GRANULE
                steps = np.arange(0, size, GRANULE)
                addresses = (value_of_row(low, row) | value_of_row(high, row) << 32) + steps
                sources = first + steps
            else:
                m.device.lose(f"what {self.instruction.text} writes")
                return
            places = _global(m, addresses, unit)
            at, into = (each[:, None] + np.arange(unit) for each in (sources, places))
            at = np.minimum(at, m.shared_size - 1)
            before = m.device.content[into.T]
            m.device.content[into], m.device.known[into] = m.shared[block, at], m.shared_known[block, at]
            m.device.changed(places, unit, before)
            lane = int(m.view.mask[row].argmax())
            m.device.wrote_by(m, places, unit, block, int(m.thread[m.view.warps[row], lane]))


def _global(m: Machine, addresses: Ints, size: int) -> Ints:
    """Return where elements of a copy lie in global memory; raise MemoryFault."""
    whose = m.whose(0, int(m.view.mask[0].argmax()))
    places: Ints = m.device.places_of(m, np.asarray(addresses, np.int64).ravel(), size, lambda _: whose)
    return places
