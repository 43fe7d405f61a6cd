"""Instructions that wait for other warps: block barriers, waits at mbarriers, cluster barriers."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.groups import Group, Waiting, rows
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import INTEGER, PRED, REG, UPRED, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.values import Value, known_in, truth
from ncu_swizzle.smem.banks import Bools, Ints


def barrier(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    kept, selected = s.known_lanes(group, pc, _guard_of(m, instruction))
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    s.enter(kept)
    executing = selected.any(axis=1)
    named = _named_barriers(m, instruction, selected)
    for barrier, count in _distinct(named[executing]):
        used = executing & (named == (barrier, count)).all(axis=1)
        part = Group(pc, kept.warps[used], selected[used])
        if instruction.has("ARV"):
            for block, warps in zip(*np.unique(m.block_of[part.warps], return_counts=True), strict=True):
                key = (barrier, int(block))
                s.arrivals[key] = s.arrivals.get(key, 0) + 32 * int(warps)
            s.add(s.after(pc), part.warps, part.mask)
            continue
        s.waiting.append(Waiting(part, barrier, count, *_vote(m, instruction, used)))


def _distinct(named: Ints) -> list[tuple[int, int]]:
    """Return each barrier and its threads once; mostly all warps wait at the same one."""
    if len(named) and bool((named == named[0]).all()):
        return [(int(named[0, 0]), int(named[0, 1]))]
    return [(barrier, count) for barrier, count in np.unique(named, axis=0).tolist()]


def _vote(m: Machine, instruction: SassInstruction, used: Bools) -> tuple[Value | None, str]:
    """Return the predicate that the threads of these warps vote with, and how the votes are combined."""
    if not instruction.has("RED"):
        return None, ""
    source = next((o for o in instruction.operands if o.kind in (PRED, UPRED)), None)
    value = operands.predicate(source)(m) if source else truth(True)
    mode = next(word for word in ("OR", "AND", "POPC") if instruction.has(word))
    return rows(_expanded(value, m.view.mask.shape), used), mode


def _named_barriers(m: Machine, instruction: SassInstruction, selected: Bools) -> Ints:
    """Return the number of each warp's barrier and the threads that it waits for, (G, 2); 0 for the whole block.

    A register given twice holds both: the number in its lower bits, the threads in its upper half.
    """
    numbers = [o for o in instruction.operands if o.kind in (INTEGER, REG, UREG)]
    named = np.zeros((len(selected), 2), np.int64)
    for column, operand in enumerate(numbers[:2]):
        constant = operand.kind == INTEGER and not operand.negated and not operand.inverted
        named[:, column] = operand.number if constant else _per_warp(m, operand, instruction, selected)
    if len(numbers) > 1 and numbers[0].kind != INTEGER and numbers[0] == numbers[1]:
        named[:, 1] = named[:, 1] >> 16 & 0xFFF
        named[:, 0] &= 15
    return named


def _expanded(value: Value, shape: tuple[int, ...]) -> Value:
    known = value.known if isinstance(value.known, bool) else np.broadcast_to(value.known, shape)
    return Value(np.broadcast_to(value.bits, shape), known, value.origin, value.tag)


def _per_warp(m: Machine, operand: Operand, instruction: SassInstruction, selected: Bools) -> Ints:
    """Return a number that must be known, and the same in all threads of a warp."""
    value = operands.integer(operand)(m)
    m.decide(value.tag)
    lanes = np.broadcast_to(value.bits, selected.shape).astype(np.int64)
    highest: Ints = np.where(selected, lanes, 0).max(axis=1)
    if not known_in(value, selected) or bool(((lanes != highest[:, None]) & selected).any()):
        raise Unsupported(instruction.offset, instruction.text, "has an unknown barrier number")
    return highest


def phase_check(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    s.waits.check(group, pc, instruction)
    s.resume()


def cluster_barrier(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    (s.waits.arrive if instruction.opcode == "UCGABAR_ARV" else s.waits.wait)(group, pc)
    s.resume()


def _guard_of(m: Machine, instruction: SassInstruction) -> Value | None:
    """Return the guard's value."""
    read = operands.guard(instruction.guard)
    return read(m) if read else None
