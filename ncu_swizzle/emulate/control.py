"""Control instructions: branches, calls, convergence barriers, block barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate import barriers, operands
from ncu_swizzle.emulate.effects import PHASE_CHECK
from ncu_swizzle.emulate.externals import RESULT
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.groups import Group
from ncu_swizzle.emulate.machine import LANES, Machine
from ncu_swizzle.emulate.operations.predicates import conjunction
from ncu_swizzle.emulate.parse import BARRIER, INTEGER, PRED, REG, UPRED, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.program import LOW
from ncu_swizzle.emulate.schedule import Handler, Schedule
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.banks import Bools

HANDLERS: dict[str, Handler] = {}


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register the handler of control instructions."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def _condition(m: Machine, instruction: SassInstruction) -> Value | None:
    """Return the guard ANDed with the predicate operand; None if there is neither."""
    readers = [operands.guard(instruction.guard)]
    readers += [operands.predicate(o) for o in instruction.operands if o.kind in (PRED, UPRED)]
    values = [read(m) for read in readers if read is not None]
    if not values:
        return None
    return values[0] if len(values) == 1 else conjunction(values[0], values[1])


@handles("BRA", "JMP")
def _branch(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    targets = s.program.flow.targets(pc)
    if not targets:
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.has("DIV", "CONV"):
        _branch_if_apart(s, group, pc, instruction, targets[0])
        return
    if pc in s.program.timing.asking_again:
        s.doubt_convergence(group, pc)
    condition = _without_traps(s, pc, targets[0], _condition(m, instruction))
    kept, taken = s.known_lanes(group, pc, condition)
    if instruction.has("ANY"):
        taken = kept.mask & taken.any(axis=1, keepdims=True)
    s.add(s.after(pc), kept.warps, kept.mask & ~taken)
    s.add(targets[0], kept.warps, taken)


def _without_traps(s: Schedule, pc: int, target: int, condition: Value | None) -> Value | None:
    """Return a branch's condition; if one way ends in a trap, threads for which it is unknown go the other."""
    fatal = s.program.flow.fatal
    falls, jumps = s.after(pc) in fatal, target in fatal
    if condition is None or condition.known is True or falls == jumps:
        return condition
    return Value(np.where(condition.known, condition.bits, falls), tag=condition.tag)


def _branch_if_apart(s: Schedule, group: Group, pc: int, instruction: SassInstruction, target: int) -> None:
    """Branch if not all live threads of the mask are here (.DIV), or if they are (.CONV)."""
    m = s.machine
    wanted = _lanes_of(m, instruction.operands[0], instruction) & m.live[group.warps]
    together = ~(wanted & ~group.mask).any(axis=1, keepdims=True)
    jumps = together if instruction.has("CONV") else ~together
    taken = group.mask & jumps
    s.add(s.after(pc), group.warps, group.mask & ~taken)
    s.add(target, group.warps, taken)


def _lanes_of(m: Machine, operand: Operand, instruction: SassInstruction) -> Bools:
    """Return the lanes in a mask operand, (G, 32)."""
    value = operands.integer(operand)(m)
    if not bool((np.asarray(value.known) | ~m.view.mask).all()):
        raise Unsupported(instruction.offset, instruction.text, "has an unknown lane mask")
    m.decide(value.tag)
    bits = np.broadcast_to(value.bits, m.view.mask.shape) if value.bits.shape[1] > 1 else value.bits
    first = m.view.mask.argmax(axis=1)
    row = bits[:, :1] if bits.shape[1] == 1 else bits[np.arange(len(bits)), first][:, None]
    lanes: Bools = np.broadcast_to((row >> LANES.astype(np.uint32) & np.uint32(1)).astype(bool), m.view.mask.shape)
    return lanes


@handles("EXIT", "KILL")
def _exit(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, ended = s.known_lanes(group, pc, _condition(s.machine, instruction))
    s.machine.live[kept.warps] &= ~ended
    s.add(s.after(pc), kept.warps, kept.mask & ~ended)


@handles("BSSY")
def _bssy(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    token = len(s.reconvergence)
    s.reconvergence.append(s.program.flow.targets(pc)[0])
    tokens = s.machine.tokens[instruction.operands[0].number]
    tokens[group.warps] = np.where(group.mask, token, tokens[group.warps])
    s.add(s.after(pc), group.warps, group.mask)


@handles("BSYNC")
def _bsync(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = s.known_lanes(group, pc, _condition(s.machine, instruction))
    rest = kept.mask & ~selected
    used = selected.any(axis=1)
    if used.any():
        s.reconverge(kept.warps[used], selected[used], instruction.operands[0].number, pc)
    s.add(s.after(pc), kept.warps, rest)


@handles("BREAK")
def _break(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    """Remove threads from a convergence barrier; the others no longer wait for them."""
    barriers = [operand.number for operand in instruction.operands if operand.kind == BARRIER]
    kept, selected = s.known_lanes(group, pc, _condition(s.machine, instruction))
    tokens = s.machine.tokens[barriers[0]]
    tokens[kept.warps] = np.where(selected, 0, tokens[kept.warps])
    s.add(s.after(pc), kept.warps, kept.mask)


@handles("WARPSYNC")
def _warpsync(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    if instruction.guard is not None:
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.has("ALL") or not instruction.operands:
        wanted = np.ones(group.mask.shape, bool)
    else:
        wanted = _lanes_of(m, instruction.operands[0], instruction)
    if instruction.has("COLLECTIVE"):
        s.collective[pc] = s.program.flow.targets(pc)[0]
    s.sync_warp(group, pc, wanted)


@handles("ENDCOLLECTIVE")
def _endcollective(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    began = [start for start in s.collective if start < pc]
    if not began:
        raise Unsupported(instruction.offset, instruction.text)
    s.add(s.collective[max(began)], group.warps, group.mask)


@handles("CALL")
def _call(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = s.known_lanes(group, pc, _condition(s.machine, instruction))
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    if any(operand.kind in (REG, UREG) for operand in instruction.operands):
        _jump_to_register(s, kept, selected, pc, instruction)
    elif any(operand.number & LOW in s.program.externals for operand in instruction.operands):
        _call_external(s, kept, selected, pc)
    else:
        s.add(s.program.flow.targets(pc)[0], kept.warps, selected)


def _call_external(s: Schedule, group: Group, selected: Bools, pc: int) -> None:
    """Continue after the call of a function that is not part of the module; what it returns is unknown."""
    called = Group(pc, group.warps, selected)
    s.enter(called)
    s.machine.forget(RESULT, pc)
    s.add(s.after(pc), called.warps, called.mask)


@handles("RET")
def _return(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = s.known_lanes(group, pc, _condition(s.machine, instruction))
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    _jump_to_register(s, kept, selected, pc, instruction)


@handles("BRX", "JMX")
def _branch_indirect(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = s.known_lanes(group, pc, _condition(s.machine, instruction))
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    plus = instruction.offset + 16 if instruction.opcode == "BRX" else 0
    _jump_to_register(s, kept, selected, pc, instruction, plus)


def _jump_to_register(
    s: Schedule, group: Group, selected: Bools, pc: int, instruction: SassInstruction, plus: int = 0
) -> None:
    """Send each thread to the address in its register plus the offset operands."""
    m = s.machine
    used = selected.any(axis=1)
    if not used.any():
        return
    group = Group(pc, group.warps[used], group.mask[used])
    selected = selected[used]
    s.enter(group)
    register = next(operand for operand in instruction.operands if operand.kind in (REG, UREG))
    plus += sum(operand.number for operand in instruction.operands if operand.kind == INTEGER)
    value = operands.raw(register)(m)
    m.decide(value.tag)
    known = np.broadcast_to(np.asarray(value.known), selected.shape)
    if bool((selected & ~known).any()):
        lost = (selected & ~known).any(axis=1)
        uniform, anywhere = value.bits.shape[1] == 1, instruction.opcode == "CALL"
        s.lose_track(Group(pc, group.warps[lost], selected[lost]), pc, uniform, value.origin, anywhere)
        keep = ~lost
        group, selected = Group(pc, group.warps[keep], group.mask[keep]), selected[keep]
        value = Value(np.broadcast_to(value.bits, known.shape)[keep])
    targets = np.broadcast_to(value.bits, selected.shape).astype(np.int64) + plus
    for target in np.unique(targets[selected]):
        goes = selected & (targets == target)
        if int(target) & LOW in s.program.externals:
            _call_external(s, group, goes, pc)
            continue
        start = s.program.flow.at(int(target) & LOW)
        if start != EXIT and start not in s.program.runs:
            raise Unsupported(instruction.offset, instruction.text, f"goes to {target:#x}, inside a basic block")
        s.add(start, group.warps, goes)


@handles("BPT")
def _trap(s: Schedule, group: Group, pc: int, instruction: SassInstruction) -> None:
    """A trap: end the threads that certainly reach it; one on an unknown condition does not occur."""
    condition = _condition(s.machine, instruction)
    selected = group.mask if condition is None else s.machine.certain_mask(condition)[0]
    s.machine.live[group.warps] &= ~selected
    s.add(s.after(pc), group.warps, group.mask & ~selected)


handles("BAR")(barriers.barrier)
handles(PHASE_CHECK)(barriers.phase_check)
handles("UCGABAR_ARV", "UCGABAR_WAIT")(barriers.cluster_barrier)
