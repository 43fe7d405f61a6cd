"""Follow tiles from tensor maps through shared memory to wgmma's descriptors: which element arrives as which.

A separate run executes some blocks with all iterations of their loops. It claims nothing about tiles that threads have
written, unknown copies and descriptors, or types other than those of 8, 16 and 32 bits.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.blocks import Setting, run_batch
from ncu_swizzle.emulate.code import MEMORY, REG, SHARED_WINDOW, TRUE, ZERO, Code, SassInstruction
from ncu_swizzle.emulate.copies import (
    Executing,
    ToShared,
    WgmmaTiles,
    in_warps,
    map_at,
    value_of_row,
    values_of_rows,
)
from ncu_swizzle.emulate.counts import Buffer, FollowedTiles
from ncu_swizzle.emulate.effects import effects, wgmma_shape
from ncu_swizzle.emulate.faults import Enough
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step, both
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.probes import corners
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.tensor_map import UNKNOWN_PHASE, BoxCopy, Tiled, decoded_map
from ncu_swizzle.emulate.tensor_probes import TensorRecord, roundings
from ncu_swizzle.emulate.tensor_probes import step_of as tensor_step_of
from ncu_swizzle.emulate.tile_products import MatrixProduct, OperandSeen
from ncu_swizzle.emulate.tile_record import Stores, TileRecord, stores
from ncu_swizzle.emulate.values import known_in
from ncu_swizzle.smem.descriptors import CHUNK, K_BYTES, WARPS, Descriptor
from ncu_swizzle.smem.opcodes import TABLE, Copy, Memory, Shared

# ---------------------------------------------------------------------------------------------- products


HALF = 2  # bytes of the elements that may be MN-major
_FOLLOWED_K = (8, 16, 32)  # of types of 32, 16 and 8 bits
Span = tuple[int, int]


def _product_step(record: TileRecord, instruction: SassInstruction) -> Step | None:
    """Return the step that follows the operands of a wgmma; None for one that only orders others."""
    tiles, parts = WgmmaTiles.of(instruction), instruction.operands
    if tiles is None:
        return None
    if tiles.depth not in _FOLLOWED_K or instruction.has("SP"):
        return lambda m: record.leave(f"{instruction.text} is not followed", lost=True)
    after = parts[next(k for k, operand in enumerate(parts) if operand.kind == MEMORY) + 1 :]
    flag = next((operand for operand in after if operand.kind in operands.PREDICATES), None)
    adds = operands.guard_operands(flag)
    fresh = not any(operand.kind == REG and operand.number != ZERO for operand in after)
    fresh |= flag is not None and flag.number == TRUE and flag.negated
    element = K_BYTES // tiles.depth

    def starts_anew(m: Machine, row: int) -> bool:
        """Return whether its results are not known to be added to others."""
        if fresh or adds is None:
            return fresh
        flags = first_lane(adds(m), m.view.mask)
        return not flags.certain or not value_of_row(flags, row)

    def judge(m: Machine, warps: Executing) -> None:
        record.check_waits(m, instruction.offset)
        if tiles.sides == "B":
            record.leave(f"A of {instruction.text} is in registers: whether its K goes with that of B is not known")
        for row, values in warps.each:
            warp = int(m.view.warps[row])
            if warp % m.per_block % WARPS:
                continue  # the warps of a warpgroup read the same tiles
            chain = warp, parts[0].number
            if starts_anew(m, row):
                record.chains.end(chain)
            described = zip(tiles.sides, tiles.descriptors(values), tiles.rows, tiles.mn_major, strict=True)
            seen = tuple(
                OperandSeen(
                    side=side,
                    descriptor=Descriptor.of_bits(bits),
                    rows=rows,
                    mn_major=mn_major,
                    element=element,
                    either=element == HALF,
                )
                for side, bits, rows, mn_major in described
            )
            MatrixProduct(
                record=record,
                placed=record.placed(m),
                instruction=instruction,
                block=int(m.view_blocks()[row]),
                seen=seen,
                chain=chain,
            ).judge(m)
            record.count()

    unknown = f"what {instruction.text} reads is not known"
    return in_warps(instruction, tiles.readers, judge, lambda m: record.lose(m, unknown))


# ---------------------------------------------------------------------------------------------- copies and stores


def _copy_step(record: TileRecord, instruction: SassInstruction) -> Step:
    """Return the step that follows a tensor copy to shared memory."""
    copy = ToShared(instruction)
    readers = [copy.target, copy.barrier, *copy.source, *([copy.extra] if copy.multicast and copy.extra else [])]

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(copy.guard(m) if copy.guard else None)
        known = [first_lane(read(m), m.view.mask) for read in (*readers, *copy.corner)]
        if doubtful.any() or not all(value.certain for value in known) or not copy.corner:
            record.lose(m, "where a tensor copy goes, or what it copies, is not known")
            return
        target, barrier, low, high = known[:4]
        extra = known[4] if len(readers) > 4 else None
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            address = value_of_row(low, row) | value_of_row(high, row) << 32
            corner = tuple(int(np.int32(np.uint32(value_of_row(value, row)))) for value in known[len(readers) :])
            start, waiting = value_of_row(target, row) & int(WINDOW), value_of_row(barrier, row) & int(WINDOW)
            here = np.array([row])
            arrivals = copy.counting_blocks(m, here, values_of_rows(barrier, here), extra).tolist()
            tensor = _tensor_map(record, m, address)
            for index, block in enumerate(copy.blocks(m, here, values_of_rows(target, here), extra).tolist()):
                if tensor is None:
                    record.placed(m).overwrite(block, slice(start // CHUNK, None))
                    continue
                counting = arrivals[min(index, len(arrivals) - 1)]
                phase = m.mbarriers.phase(waiting, counting) if counting == block or copy.pair else None
                box = BoxCopy(
                    offset=instruction.offset,
                    map_at=address,
                    tensor=tensor,
                    corner=corner,
                    block=block,
                    barrier=waiting,
                    phase=UNKNOWN_PHASE if phase is None else phase,
                    start=start,
                    counted_in=counting,
                )
                record.check_map(box)
                record.check_target(box)
                record.placed(m).place(box, box.addresses(start))
                record.check_reach(box)

    return step


def _tensor_map(record: TileRecord, m: Machine, address: int) -> Tiled | None:
    """Return a tensor map; None if it is not understood, which is recorded."""
    content = map_at(m, address)
    tensor = decoded_map(content) if content else None
    if tensor is not None and (tensor.refused or not tensor.interleave):
        return tensor
    kinds = "im2col, interleaved, with element strides, or not a parameter"
    record.leave(f"a tensor map is not understood ({kinds})", lost=True)
    return None


def _write_step(record: TileRecord, instruction: SassInstruction) -> Step:
    """Return the step that forgets overwritten tiles."""
    row = instruction.row
    if row.copy is Copy.BULK:
        return record.forget
    if row.copy is Copy.STORE:
        return _remote_step(record, instruction)
    guard, width = operands.guard_operands(instruction.guard), access_width(instruction)
    memory = instruction.operands[memory_operands(instruction)[0]]
    generic = row.shared is Shared.GENERIC
    address_of = operands.wide_address(memory) if generic else operands.address(memory)

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        selected = selected | doubtful
        address = address_of(m)
        if not known_in(address, selected):
            record.lose(m, "where a thread stores is not known")
            return
        bits = np.broadcast_to(address.bits, selected.shape)
        if generic:
            selected = selected & ((bits >> np.uint64(32)) == SHARED_WINDOW)
        for row, block in enumerate(m.view_blocks().tolist()):
            at = bits[row][selected[row]].astype(np.int64) & int(WINDOW)
            if len(at):
                chunks = np.unique(np.concatenate([at, at + width - 1]) // CHUNK)
                record.placed(m).overwrite(block, chunks, in_part=stores(instruction.row))

    return step


def _remote_step(record: TileRecord, instruction: SassInstruction) -> Step:
    """Return the step that forgets the chunks to which lanes store in a block of the cluster."""
    guard = operands.guard_operands(instruction.guard)
    address_of = operands.raw(instruction.operands[0].terms[0])

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        address = address_of(m)
        if doubtful.any() or not known_in(address, selected):
            record.lose(m, "where a thread stores is not known")
            return
        rows, lanes = np.nonzero(selected)
        at = np.broadcast_to(address.bits, selected.shape)[rows, lanes]
        blocks = m.clusters.at(m.view_blocks()[rows], at)
        for block, chunk in zip(blocks.tolist(), ((at & WINDOW) // CHUNK).tolist(), strict=True):
            record.placed(m).overwrite(block, np.array([chunk]))

    return step


def _load_step(record: TileRecord, instruction: SassInstruction) -> Step | None:
    """Return the step that checks whether threads read tiles; None if that is assumed."""
    if record.others_read:
        return None
    guard = operands.guard_operands(instruction.guard)
    address_of = operands.address(instruction.operands[memory_operands(instruction)[0]])

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        address = address_of(m)
        if doubtful.any() or not known_in(address, selected):
            record.others_read = True
            return
        owner = record.placed(m).owner
        rows, lanes = np.nonzero(selected)
        at = (np.broadcast_to(address.bits, selected.shape)[rows, lanes] & WINDOW).astype(np.int64) // CHUNK
        inside = at < owner.shape[1]
        record.others_read |= bool((owner[m.view_blocks()[rows[inside]], at[inside]] >= 0).any())

    return step


def _store_step(record: TileRecord, instruction: SassInstruction) -> Step:
    """Return the step that counts the bytes that blocks store to global memory."""
    guard, width = operands.guard_operands(instruction.guard), access_width(instruction)
    address_of = operands.wide_address(instruction.operands[memory_operands(instruction)[0]])

    def step(m: Machine) -> None:
        if not record.cut:
            return
        selected, doubtful = m.selection(guard(m) if guard else None)
        address = address_of(m)
        if doubtful.any() or not known_in(address, selected):
            record.stored_unknown = True
            return
        bits = np.broadcast_to(address.bits, selected.shape)
        for row, block in enumerate(m.view_blocks().tolist()):
            record.store(block, bits[row][selected[row]].astype(np.int64), width)

    return step


# ---------------------------------------------------------------------------------------------- all of a program


_STEPS: dict[str, Callable[[TileRecord, SassInstruction], Step | None]] = {
    **{name: _write_step for name, row in TABLE.items() if row.writes & Memory.SHARED and row.name != "ARRIVES"},
    **{name: _product_step for name, row in TABLE.items() if row.shared is Shared.WGMMA},
    **{name: _load_step for name, row in TABLE.items() if row.loads_only_shared},
    "STG": _store_step,
    "UTMALDG": _copy_step,
}


def _step_of(
    record: TileRecord, tensors: TensorRecord, stores: Stores, instruction: SassInstruction, results: frozenset[Span]
) -> Step | None:
    """Return the step that follows what an instruction does to tiles; None if nothing.

    `results` are the registers that wgmmas add to: what is added up there ends when another instruction writes them.
    """
    if instruction.never:
        return None
    follow = stores.step_of(instruction)
    step = tensor_step_of(tensors, instruction)
    if not step and (make := _STEPS.get(instruction.opcode)):
        step = make(record, instruction)
    if step or follow:
        return both(step, follow) if step and follow else step or follow
    written = effects(instruction).writes
    ended = [span for span in results if written >> span[0] & (1 << span[1] - span[0]) - 1]
    return (lambda m: record.chains.touched(m.view.warps.tolist(), ended)) if ended else None


def followed_tiles(code: Code, setting: Setting, buffers: tuple[Buffer, ...]) -> FollowedTiles:
    """Run the blocks at the grid's corners, and return where tiles do not fit."""
    executed = [instruction for instruction in setting.program.instructions if not instruction.never]
    rows = {instruction.row for instruction in executed}
    blackwell = any(row.tensor or row.name in ("UTCATOMSWS", "UTCBAR") for row in rows)
    copied = any(row.name == "UTMALDG" for row in rows)
    if not blackwell and not (copied and any(row.shared is Shared.WGMMA for row in rows)):
        return FollowedTiles()
    # tcgen05.alloc is made of loads of words and atomics, which read no tile there.
    reading = [row for row in rows if row.reads & Memory.SHARED or row.name == "UTCCP"]
    others = any(not (blackwell and row.shared is Shared.LANES and row.returns_words) for row in reading)
    record = TileRecord(buffers=buffers, reader="tcgen05.mma" if blackwell else "wgmma", others_read=others)
    tensors = TensorRecord(record, dict(code.guardrails), roundings(executed))
    results = set[Span]()
    for instruction in executed:
        if instruction.row.shared is Shared.WGMMA:
            first = instruction.operands[0].number
            results.add((first, first + (wgmma_shape(instruction)[0] // 2 or 1)))
    stores = Stores(record.placed)
    stores.watch(executed)
    step_of = functools.partial(_step_of, record, tensors, stores, results=frozenset(results))
    program = prepare(code, Demand(arrays=bool(setting.memory)), step_of)
    setting = replace(setting, program=program, shortcuts=False)
    try:
        with contextlib.suppress(Enough):
            ends = np.array(corners(setting.grid))
            # A cluster runs as a whole, and once: its first block represents all.
            ends = np.unique(ends // setting.cluster * setting.cluster, axis=0)
            record.check_waits(run_batch(setting, ends).machine, 0)
            tensors.finish()
        record.finish()
    except ProgramFailed as error:
        tensors.fail()
        return record.found(str(error))
    return record.found()
