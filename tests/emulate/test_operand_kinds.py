"""A number is the same from a register, a uniform register and a constant, in every operation."""

from collections.abc import Iterator

import numpy as np

from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import PRED, REG, UPRED, UREG, Sass, parse_instruction
from ncu_swizzle.emulate.effects import BASES, REGISTERS, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import COMPILERS
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.values import Value
from tests.support.emulation import DATA, machine
from tests.support.programs import code

# One instruction of each opcode and number of operands, as nvdisasm writes it.
FORMS = (DATA / "forms.txt").read_text(encoding="utf-8").splitlines()
BANK = np.random.default_rng(3).integers(0, 256, 0x400, np.uint8).tobytes()
AT = 0x210


def sources(form: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield the mnemonic, the operands, and the position of each operand that is read."""
    head, _, rest = form.partition(" ")
    words = rest.split(", ")
    for position in range(results(parse_instruction(Sass(0, form))), len(words)):
        yield head, words, position


def with_operand(head: str, words: list[str], position: int, word: str) -> str:
    return f"{head} {', '.join([*words[:position], word, *words[position + 1 :]])}"


def prepared(texts: list[str]) -> PreparedCode:
    return prepare(code(*texts), everything=True)


def machine_for(program: PreparedCode) -> Machine:
    known = np.ones(len(BANK), bool)
    constants = {0: BANK, 3: BANK}
    m = machine(block=(64, 1, 1), constants=constants, known_constants={0: known}, shared_size=0x1000)
    m.log, m.guards = RequestLog(m, program.instructions), program.guards
    m.keep_contents()
    return m


def is_uniform(register: int) -> bool:
    return BASES[UREG] <= register < BASES[PRED] or register >= BASES[UPRED]


def registers() -> list[Value]:
    """Return random contents of two warps."""
    rng, made = np.random.default_rng(7), list[Value]()
    for register in range(REGISTERS):
        shape, like = (2, 1 if is_uniform(register) else 32), bool if register >= BASES[PRED] else np.uint32
        made.append(Value(rng.integers(0, 1 << 32, shape).astype(like)))
    return made


def test_the_forms_are_of_operations_and_leave_out_few() -> None:
    opcodes = {form.partition(" ")[0].partition(".")[0] for form in FORMS}
    assert opcodes <= set(COMPILERS)
    assert len(opcodes) > 0.6 * len(COMPILERS)


def test_a_number_is_the_same_from_a_register_a_uniform_register_and_a_constant() -> None:
    texts = [
        with_operand(*place, word)
        for form in FORMS
        for place in sources(form)
        if parse_instruction(Sass(0, form)).operands[place[2]].kind in (REG, UREG)
        for word in ("R20", "UR20", f"c[0x0][{AT:#x}]", "-R20", "-UR20", f"-c[0x0][{AT:#x}]")
    ]
    program = prepared(texts)
    m, before = machine_for(program), registers()
    for word in range(4):  # as wide as any operand
        bits = np.frombuffer(BANK, np.uint32, 1, AT + 4 * word).reshape(1, 1)
        before[20 + word] = before[BASES[UREG] + 20 + word] = Value(bits.copy())
    found: list[list[tuple[int, bytes]]] = []
    for number, step in enumerate(program.steps):
        m.registers, m.now = list(before), number
        assert step is not None, texts[number]
        step(m)
        changed = [(r, v) for r, v in enumerate(m.registers) if v is not None and v is not before[r]]
        sure = [(r, np.where(v.known, v.bits, 0)) for r, v in changed if number not in program.unsupported]
        found.append(
            [(r, np.broadcast_to(bits, (2, bits.shape[1] if is_uniform(r) else 32)).tobytes()) for r, bits in sure]
        )
    assert not program.failures
    for first in range(0, len(texts), 3):
        assert found[first] == found[first + 1] == found[first + 2], texts[first : first + 3]
