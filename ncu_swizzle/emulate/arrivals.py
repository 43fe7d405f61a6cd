"""The bytes that bulk and tensor copies move: to shared memory when they are issued, and from there."""

from __future__ import annotations

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
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem.descriptors import CHUNK, FLIPPED
from ncu_swizzle.smem.opcodes import Copy
from ncu_swizzle.smem.operations import Bools, Ints

NAN_FILL = {6: 0x7FFF, 7: 0x7FFFFFFF, 9: 0x7FFF}  # by CUtensorMapDataType; what a fill with NaN writes is not measured
_PLAIN = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)  # types whose bytes are copied as they are


def arrival(instruction: SassInstruction, ordinary: Step | None) -> Step | None:
    """Return the step of a copy by TMA, after the ordinary one."""
    if copies_out(instruction):  # the ordinary one forgets what it may overwrite, which is known here
        return _Copying(instruction).step
    return both(ordinary, _Copying(instruction).step) if ordinary else None


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


class _Copying:
    """UTMALDG, and UBLKCP to shared memory, which the counted copy has cleared; UTMASTG, and UBLKCP from it.

    Bytes move when the copy is issued, in elements: those of the tensor, or granules of a plain copy.
    """

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction, self.tensor = instruction, instruction.row.copy is Copy.TENSOR
        self.guard = operands.guard_operands(instruction.guard)
        self.modelled = not instruction.has("GATHER4", "SCATTER4", "IM2COL") and not instruction.opcode.endswith("REDG")
        self.modelled &= instruction.opcode not in ("UBLKRED", "UTMAREDG")
        self.counted = None if copies_out(instruction) else ToShared(instruction)
        self.extra: Reader | None  # of a plain copy, its size
        if self.counted:
            self.here, self.there = self.counted.target, self.counted.source
            self.corner, self.extra = self.counted.corner, self.counted.extra
            self.modelled &= not self.counted.within and (self.tensor or self.extra is not None)
            return
        memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
        # UTMASTG has the address in shared memory and the corner first, UBLKCP.G.S the address in global memory.
        there, here = memory[::-1] if self.tensor else memory
        self.here, self.there = operands.raw(here.terms[0]), registers(there)
        ranks = coordinates(instruction) if self.tensor else 0
        self.corner = [operands.raw(here.terms[0], 1 + axis) for axis in range(ranks)]
        self.extra = None if self.tensor else operands.raw(instruction.operands[-1])

    def step(self, m: Machine) -> None:
        selected, _ = m.selection(self.guard(m) if self.guard else None)
        readers = [self.here, *self.there, *self.corner, *([self.extra] if self.extra else [])]
        values = [first_lane(read(m), m.view.mask) for read in readers]
        whose = m.whose(0, int(m.view.mask[0].argmax()))
        understood = self.modelled and all(value.certain for value in values)
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            numbers = [value_of_row(value, row) for value in values]
            elements = self._elements(m, numbers) if understood else None
            if elements is None:
                if self.counted is None:  # what a copy to shared memory writes stays unknown
                    m.device.lose(f"what {self.instruction.text} writes")
                continue
            addresses, at, inside, fill = elements
            places = m.device.places_of(m, addresses[inside], at.shape[1], lambda _: whose)
            if self.counted is None:
                self._depart(m, row, at[inside], places)
                continue
            m.device.note_read(m.now, places, at.shape[1])
            first = np.array([row])
            extra = values[-1] if self.extra else None
            blocks = self.counted.blocks(m, first, values_of_rows(values[0], first), extra)
            content, known = np.broadcast_to(fill, at.shape).copy(), np.ones(at.shape, bool)
            from_ = places[:, None] + np.arange(at.shape[1])
            content[inside], known[inside] = m.device.content[from_], m.device.known[from_] != 0
            within = at < m.shared_size
            for block in blocks.tolist():
                m.shared[block, at[within]], m.shared_known[block, at[within]] = content[within], known[within]
            m.shared_written = True

    def _elements(self, m: Machine, numbers: list[int]) -> tuple[Ints, Ints, Bools, Bits] | None:
        """Return the elements of a warp's copy; None if its map is not understood.

        Their addresses in global memory, (n,), and places of their bytes in shared memory, (n, bytes), which of them
        are inside of the tensor, (n,), and the bytes of those that are not.
        """
        here, low, high, *corner = numbers
        start, there = here & int(WINDOW), low | high << 32
        if not self.tensor:
            steps = np.arange(0, (numbers[-1] & 0xFFFF) * GRANULE, GRANULE)
            at = start + steps[:, None] + np.arange(GRANULE)
            return there + steps, at, np.ones(len(steps), bool), np.zeros(GRANULE, np.uint8)
        content = map_at(m, there)
        tensor = decoded_map(content) if content else None
        if tensor is None or not moves(tensor):
            return None
        signed = np.array(corner[: len(self.corner)], np.uint32).astype(np.int32)
        box = BoxCopy(
            offset=0, map_at=0, tensor=tensor, corner=tuple(signed.tolist()),
            block=0, barrier=0, phase=0, start=start, counted_in=0,
        )  # fmt: skip
        unit = tensor.bits // 8
        index = np.repeat(box.coordinates()[:, None], CHUNK // unit, axis=1)  # (chunks, elements of one, rank)
        index[:, :, 0] += np.arange(index.shape[1])
        inside = ((index >= 0) & (index < np.array(tensor.sizes))).all(axis=2).ravel()
        at = (box.addresses(start)[:, None] + np.arange(CHUNK)).reshape(-1, unit)
        fill = np.array([NAN_FILL[tensor.data_type] if tensor.fill else 0], "<u8").view(np.uint8)[:unit]
        return (tensor.address + index @ (tensor.steps // 8)).ravel(), at, inside, fill

    @staticmethod
    def _depart(m: Machine, row: int, at: Ints, places: Ints) -> None:
        """Store what a warp copies from shared memory, by the places of its bytes, (n, bytes)."""
        block, lane = int(m.view_blocks()[row]), int(m.view.mask[row].argmax())
        into, at = places[:, None] + np.arange(at.shape[1]), np.minimum(at, m.shared_size - 1)
        before = m.device.content[into.T]
        m.device.content[into], m.device.known[into] = m.shared[block, at], m.shared_known[block, at]
        m.device.changed(places, at.shape[1], before)
        m.device.wrote_by(m, places, at.shape[1], block, int(m.thread[m.view.warps[row], lane]))
