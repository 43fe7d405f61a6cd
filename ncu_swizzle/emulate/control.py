"""Control instructions: branches, calls, convergence barriers, block barriers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import BARRIER, INTEGER, PRED, REG, UPRED, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.effects import PHASE_CHECK
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import LANES, Machine
from ncu_swizzle.emulate.operations.primitives import conjunction
from ncu_swizzle.emulate.program import LOW
from ncu_swizzle.emulate.schedule import Handler, Schedule
from ncu_swizzle.emulate.values import Value, known_in, truth
from ncu_swizzle.emulate.waits import Group, Waiting, rows
from ncu_swizzle.smem.operations import Bools, Ints

# Instructions that wait for other warps: block barriers, waits at mbarriers, cluster barriers.


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
    read = operands.guard_operands(instruction.guard)
    return read(m) if read else None


# Functions that are not part of a module: the driver supplies them, such as vprintf, malloc and __assertfail.
#
# What they do in shared memory is not the kernel's; they return to the instruction after the call, with a result that
# is unknown. A launch in which an assertion fails has no counts, so `__assertfail` returns here, too: its caller goes
# on there only if nothing else is to be done.


EXTERNALS = 0x8005_F000_0000  # the address of the first one; its lower half is beyond the end of any kernel
RESULT = 0b11 << 4  # R4 and R5, as a set of registers


HANDLERS: dict[str, Handler] = {}


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register the handler of control instructions."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def _condition(m: Machine, instruction: SassInstruction) -> Value | None:
    """Return the guard ANDed with the predicate operand; None if there is neither."""
    readers = [operands.guard_operands(instruction.guard)]
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
    _jump_to_register(s, kept, selected=selected, pc=pc, instruction=instruction, plus=plus)


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


handles("BAR")(barrier)
handles(PHASE_CHECK)(phase_check)
handles("UCGABAR_ARV", "UCGABAR_WAIT")(cluster_barrier)
