"""The census of instructions: what is kept, and that nearly all of it is emulated or unknown on purpose."""

from collections import Counter

import numpy as np
import pytest

from bench.figures import census
from ncu_swizzle.emulate.code import PRED, UPRED, UREG, Sass, parse_instruction
from ncu_swizzle.emulate.effects import BASES, REGISTERS, effects, numbers_in
from ncu_swizzle.emulate.operands import MAKERS, compiled_step
from ncu_swizzle.emulate.values import Value
from tests.support.emulation import machine

LEAST = 0.995


def test_numbers_and_registers_do_not_make_other_instructions() -> None:
    assert census.plainly("@!P3 IMAD.WIDE R2, R34.reuse, -0x24, c[0x0][0x210]") == "IMAD.WIDE R0, R0, 0x1, c[0x1][0x1]"
    assert census.plainly("FADD R5, |R2|, -1.5e+20") == "FADD R0, |R0|, 1"
    assert census.plainly("@!PT LDS RZ, [RZ]") == "@!PT LDS RZ, [RZ]"


@pytest.mark.long
def test_nearly_all_instructions_are_emulated_or_unknown_on_purpose() -> None:
    for arch, sources in census.loaded().items():
        total = sum(sources.values(), Counter[str]())
        kinds = census.supported(total)
        known = sum(count for text, count in total.items() if kinds[text] is not census.Support.NOT_KNOWN)
        assert known >= LEAST * total.total(), arch


def contents() -> list[Value]:
    """Return random contents of all registers; one value in a uniform one."""
    rng, made = np.random.default_rng(7), list[Value]()
    for register in range(REGISTERS):
        uniform = BASES[UREG] <= register < BASES[PRED] or register >= BASES[UPRED]
        words = rng.integers(0, 1 << 32, (1, 1 if uniform else 32), dtype=np.uint32)
        made.append(Value(words.astype(bool) if register >= BASES[PRED] else words))
    return made


@pytest.mark.long
def test_what_an_instruction_writes_is_all_that_its_effects_say() -> None:
    texts = {text for sources in census.loaded().values() for counts in sources.values() for text in counts}
    bank = {number: bytes(4096) for number in (0, 1, 3)}
    m = machine(constants=bank, known_constants={0: np.ones(4096, bool)})
    before, compared = contents(), 0
    for text in sorted(texts):
        instruction = parse_instruction(Sass(0, text))
        step = compiled_step(instruction) if instruction.opcode not in MAKERS else None
        if step is None or instruction.guard or instruction.opcode in ("MOV", "UMOV"):  # of one to itself
            continue
        m.registers = list(before)
        step(m)
        written = {number for number in range(REGISTERS) if m.registers[number] is not before[number]}
        assert written == set(numbers_in(effects(instruction).writes)), text
        compared += 1
    assert compared > 1500
