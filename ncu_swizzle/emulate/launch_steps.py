"""What each instruction does to the registers of every launch, and what is observed at an access.

Computation is the emulator's (`operations`); loads and exchanges are here: what memory holds is not known, but is the
same for all lanes with the same address, and which lanes take part in an exchange may not be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import memory_operands
from ncu_swizzle.emulate.code import PRED, REG, UPRED, UREG, SassInstruction
from ncu_swizzle.emulate.effects import BASES, Effects, numbers_in, operand_number, results
from ncu_swizzle.emulate.every_launch import BLOCK, DATA, GRID, EveryLaunch, Lanes, Name, uniform_in_warps
from ncu_swizzle.emulate.liveness import Slice
from ncu_swizzle.emulate.operations import exchange, floats, integers, special  # noqa: F401  they register opcodes
from ncu_swizzle.emulate.operations.special import SPECIAL_REGISTERS
from ncu_swizzle.emulate.registers import WarpView, is_uniform
from ncu_swizzle.emulate.values import Value, unknown
from ncu_swizzle.smem.opcodes import Copy, Shared

EXCHANGE = frozenset(("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT"))
EVEN = frozenset(("VOTE", "VOTEU", "REDUX", "CREDUX"))  # whose result all lanes get
NARROW = ("U8", "S8", "U16", "S16")
AXES = {
    f"SR_{name}.{axis}": (kind, number)
    for name, kind in (("CTAID", BLOCK), ("NCTAID", GRID))
    for number, axis in enumerate("XYZ")
}
RANKS, RANK = frozenset(("SR_CgaCtaId", "SR_CTARANK", "SR_VIRTCTA")), 3

Step = Callable[[EveryLaunch], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Observed:
    """An access when it executes: the lanes that may execute it, and its operands."""

    lanes: Lanes
    address: Value
    guard: Value | None
    source: Value | None = None  # of a copy
    reads: Value | None = None  # of a copy: which lanes read, the others write zeros
    upper: Value | None = None  # of a generic address: all of it


@dataclass(eq=False)
class Steps:
    """The steps of a kernel's instructions; accesses are observed once `observing` is set."""

    instructions: Sequence[SassInstruction]
    effects: Sequence[Effects]
    slice: Slice
    observing: bool = False
    observed: dict[int, Observed] = field(default_factory=dict)  # by access

    def step(self, number: int) -> Step | None:
        """Return the step that applies an instruction to the registers, or observes it."""
        instruction = self.instructions[number]
        if instruction.never or instruction.row.control:
            return None
        observe = self._observing(number, instruction) if instruction.row.addressed else None
        compute = self._computing(number, instruction) if self.slice.needed[number] else None
        slot = self._storing(instruction) if instruction.opcode in ("STL", "ST") and self.slice.local else None

        def step(m: EveryLaunch) -> None:
            if observe and self.observing:
                observe(m)
            if compute:
                compute(m)
            if slot:
                slot(m)

        return step if observe or compute or slot else None

    def _observing(self, number: int, instruction: SassInstruction) -> Step:
        places = memory_operands(instruction)
        address = operands.address(instruction.operands[places[0]])
        guard = operands.guard_operands(instruction.guard)
        copies = instruction.row.copy is Copy.ASYNC
        source = operands.address(instruction.operands[places[1]]) if copies else None
        filled = next((o for o in instruction.operands[::-1] if o.kind in (PRED, UPRED)), None) if copies else None
        reads = operands.predicate(filled) if filled else None
        generic = instruction.row.shared is Shared.GENERIC
        wide = operands.wide_address(instruction.operands[places[0]]) if generic else None

        def observe(m: EveryLaunch) -> None:
            self.observed[number] = Observed(
                lanes=m.lanes,
                address=m.one_per_warp(address(m), False),
                guard=m.one_per_warp(guard(m), False) if guard else None,
                source=source(m) if source else None,
                reads=reads(m) if reads else None,
                upper=wide(m) if wide else None,
            )

        return observe

    def _computing(self, number: int, instruction: SassInstruction) -> Step:
        opcode, row = instruction.opcode, instruction.row
        if opcode in ("S2R", "S2UR", "CS2R"):
            special = self._special(number, instruction)
            if special:
                return special
        if opcode in EXCHANGE or opcode == "R2UR":
            return self._exchanging(number, instruction)
        if row.returns_words and not row.atomic:
            return self._loading(number, instruction)
        try:
            step = operands.compiled_step(instruction)
        except NcuSwizzleError:
            raise
        except Exception:  # a bug in the emulator: what the instruction writes is unknown
            step = None
        lose = self._losing(number, instruction)
        if step is None:
            return lose

        def enduring(m: EveryLaunch) -> None:
            try:
                step(m)
            except NcuSwizzleError:
                raise
            except Exception:
                lose(m)

        return enduring

    def _losing(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step that makes the results unknown; those of uniform operands are the same for all lanes."""
        written = numbers_in(self.effects[number].writes)
        guard = operands.guard_operands(instruction.guard)
        even = instruction.opcode == "SYNCS"
        readers = [operands.raw(term) for o in instruction.operands for term in o.terms] if even else []
        sources = instruction.operands[results(instruction) :] if even else ()
        readers += [operands.raw(operand) for operand in sources if operand.kind in (REG, UREG)]

        def lose(m: EveryLaunch) -> None:
            condition = guard(m) if guard else None
            same = even and all(uniform_in_warps(read(m)) for read in readers)
            for register in written:
                m.put(register, unknown(number, _kind(register), uniform=same or is_uniform(register)), condition)

        return lose

    def _special(self, number: int, instruction: SassInstruction) -> Step | None:
        """Return the step that reads a special register which launches decide; None for others."""
        text = instruction.operands[1].text
        if text in AXES:
            name = Name(*AXES[text])
        elif text in RANKS:
            name = Name(BLOCK, RANK)
        elif text.removeprefix("SR_") in SPECIAL_REGISTERS or text in ("SRZ", "SR_CgaSize"):
            return None
        elif instruction.opcode == "S2UR":
            name = Name(DATA, number)
        else:
            return self._losing(number, instruction)
        register, guard = operand_number(instruction.operands[0]), operands.guard_operands(instruction.guard)
        return lambda m: m.put(register, m.any_number(name), guard(m) if guard else None)

    def _exchanging(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step of an exchange between lanes; unknown results if the participating lanes are unknown."""
        opcode = instruction.opcode
        step, lose = operands.compiled_step(instruction), self._losing(number, instruction)
        guard = operands.guard_operands(instruction.guard)
        source = operands.integer(instruction.operands[-1]) if opcode == "R2UR" else None
        written = numbers_in(self.effects[number].writes)
        shuffle = operands.COMPILERS["SHFL"](instruction) if opcode == "SHFL" and guard is None else None
        targets = [operand_number(operand) for operand in instruction.operands[: results(instruction)]]

        def exchange_lanes(m: EveryLaunch) -> None:
            condition = guard(m) if guard else None
            lanes = m.lanes.where(condition)
            certain = lanes.exact and (condition is None or condition.tag is None)
            if step and (certain or (source is not None and len(written) == 1 and uniform_in_warps(source(m)))):
                step(m)
            elif shuffle is not None:  # from lanes that certainly take part
                m.view = WarpView(warps=m.everyone, mask=lanes.must, whole=True)
                values = shuffle(m)
                m.select_lanes(m.lanes)
                for register, value in zip(targets, values, strict=True):
                    if value is not None:
                        m.put(register, value)
            elif opcode in EVEN:
                for register in written:
                    m.put(register, unknown(number, _kind(register), uniform=True), condition)
            else:
                lose(m)

        return exchange_lanes

    def _loading(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step of a load: what memory holds at the same address is the same for all lanes."""
        position = memory_operands(instruction)[0]
        read = operands.wide_address(instruction.operands[position])
        written = numbers_in(self.effects[number].writes)
        guard = operands.guard_operands(instruction.guard)
        local, is_word = instruction.opcode == "LDL", not instruction.has(*NARROW)

        def load(m: EveryLaunch) -> None:
            address = read(m)
            condition = guard(m) if guard else None
            same = uniform_in_warps(m.one_per_warp(address, False)) and not local
            for k, register in enumerate(written):
                value = unknown(number, _kind(register), uniform=same)
                at = _fixed(address) if local and is_word else None
                m.put(register, value if at is None else m.slots.get(at + 4 * k, value), condition)

        return load

    def _storing(self, instruction: SassInstruction) -> Step:
        """Return the step of a store to local memory; words at fixed addresses are followed."""
        position = memory_operands(instruction)[0]
        read = operands.wide_address(instruction.operands[position])
        words = 4 if instruction.has("128") else 2 if instruction.has("64") else 1
        data = [operands.raw(instruction.operands[position + 1], k) for k in range(words)]
        narrow = instruction.has(*NARROW)
        guard = operands.guard_operands(instruction.guard)
        generic = instruction.opcode == "ST"

        def store(m: EveryLaunch) -> None:
            at = None if generic else _fixed(read(m))
            if at is None:
                m.slots.clear()
                return
            for k, value in enumerate(data):
                if guard is None and not narrow and at % 4 == 0:
                    m.slots[at + 4 * k] = m.one_per_warp(value(m), False)
                else:
                    m.slots.pop(at + 4 * k & -4, None)

        return store


def _kind(register: int) -> type:
    return bool if register >= BASES[PRED] else np.uint32


def _fixed(address: Value) -> int | None:
    """Return an address that is the same for all threads in every launch; None if it is not."""
    same = uniform_in_warps(address) and address.tag is None and bool((address.bits == address.bits.flat[0]).all())
    return int(address.bits.flat[0]) if same else None
