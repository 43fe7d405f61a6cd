"""Every operation with every kind of operand that ptxas emits, and with others: none of them stops an emulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import PRED, REG, UPRED, UREG, Code, Sass, parse_instruction
from ncu_swizzle.emulate.effects import BASES, REGISTERS, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import COMPILERS
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.values import Value

# One instruction of each opcode and number of operands, as nvdisasm writes it.
FORMS = """
B2R.RESULT RZ, P0
BMSK R4, RZ, R0
BREV R0, R11
CS2R R10, SRZ
DADD R2, R2, R6
DFMA R30, R28, R24, R48
DMUL R12, R12, R18
DSETP.NAN.AND P0, PT, R10, R10, PT
ELECT P1, URZ, PT
F2F.F64.F32 R6, R6
F2FP.F16.E5M2.UNPACK_B R10, R21
F2FP.BF16.F32.PACK_AB R0, R0, R5
F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C R10, RZ, R10, RZ
F2I.F64 R0, R6
FADD R0, R0, R7
FCHK P0, R0, R11
FFMA R0, -R7, R3, R0
FLO.U32 R10, R10
FMNMX R0, R20, R17, !PT
FMUL R0, R5, R8
FRND R10, R11
FSEL R0, R11, R0, P0
FSETP.GT.AND P0, PT, R11, R0, PT
HADD2 R4, R4, R5
HFMA2.MMA R8, R4, R7, R8
HMNMX2 R13, R23.H0_H0, R2.H0_H0, !PT
HMUL2 R0, R5, R3
HSETP2.GEU.AND P1, PT, R3.H0_H0, R6.H0_H0, PT
I2F.U8 R6, R4
I2FP.F32.U32 R6, R6
IABS R0, R12
IADD3 R0, R0, -R7, R6
IADD3 R12, P2, R17, R2, RZ
IADD3 R0, P1, P2, R3, R8, R7
IADD3.X R10, P2, R11, R11, RZ, P0, !PT
IMAD R5, R0, R19, R0
IMAD.HI.U32 R10, P2, R7, R13, R10
ISETP.LE.OR P0, PT, R0, R3, P0
ISETP.GT.AND.EX P0, PT, R11, R9, PT, P0
LDC R0, c[0x3][R11]
LEA R0, R11, R0, 0x7
LEA R0, P1, R18, R9, 0x5
LEA.HI.X R5, R2, R12, R3, 0x1, P2
LOP3.LUT R0, R0, R21, R3, 0x96, !PT
LOP3.LUT P0, RZ, R16, R17, R6, 0x80, !PT
MATCH.ANY R11, R2
MOV R10, R16
MUFU.RSQ R2, R6
P2R R14, PR, R2, 0xf
PLOP3.LUT P6, PT, R12.SIGN, R4.SIGN, R8.SIGN, 0x2, 0x0
POPC R10, R10
PRMT R7, R6, R7, UR10
QSPC.E.S P0, RZ, [R4]
R2P PR, R0, 0x3
R2UR UR6, R2
R2UR P1, UR4, R24
REDUX UR5, R12
S2R R0, SR_TID.Y
S2UR UR4, SR_SWINHI
SEL R8, R0, R11, P1
SHF.R.U64 R18, R8, R4, R7
SHFL.UP PT, R14, R8, R13, R11
UBREV UR4, UR5
UFLO.U32 UR4, UR4
UIADD3 UR5, UR5, 0x1, URZ
UIADD3 UR4, UP0, UR6, -0x1, URZ
UIADD3 UR14, UP1, UP0, UR6, UR14, UR7
UIMAD UR4, UR4, UR5, URZ
UISETP.EQ.AND UP0, UPT, UR9, URZ, UP0
UISETP.NE.AND.EX UP0, UPT, UR5, URZ, UPT, UP0
ULDC UR4, c[0x0][0x0]
ULEA UR6, UR6, UR5, 0x18
ULEA UR10, UP0, UR12, UR22, 0x1
ULEA.HI.X UR5, UR7, UR5, URZ, 0x2, UP0
ULOP3.LUT UR5, URZ, UR6, URZ, 0x33, !UPT
ULOP3.LUT UP0, URZ, UR4, 0x1ffffc00, URZ, 0xc0, !UPT
UMOV UR13, 0x1
UPRMT UR7, URZ, 0x654, UR7
USEL UR4, UR4, URZ, UP0
USHF.L.U32 UR4, UR4, 0x1, URZ
VIADD R0, R3, UR5
VIADDMNMX R3, R4, R3, R6, !PT
VIMNMX R5, R7, R8, !PT
VIMNMX3 R10, R8, R9, R7, !PT
VOTE.ANY R0, PT, P0
VOTEU.ALL UP0, P0
VOTEU.ANY UR4, UPT, PT
"""
NUMBERS = (
    *("R20", "RZ", "-R20", "|R20|", "-|R20|", "~R20", "R20.reuse", "R20.H0_H0", "-R20.H1_H1", "UR20", "URZ", "-UR20"),
    *("~UR20", "|UR20|", "c[0x0][0x210]", "-c[0x0][0x210]", "|c[0x0][0x210]|", "c[0x0][R20+0x10]", "c[0x3][UR20]"),
    *("cx[UR4][0x10]", "0x10", "-0x1", "1.5", "-2", "+INF", "-QNAN"),
)
OTHERS = ("P1", "!P1", "PT", "!PT", "UP1", "!UPT", "desc[UR4][R20.64]", "[R20+UR4+0x10]", "SR_TID.X", "B1")
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
    return prepare(
        Code(name="t", instructions=tuple(Sass(16 * place, text) for place, text in enumerate(texts))), everything=True
    )


def machine(program: PreparedCode) -> Machine:
    known = np.ones(len(BANK), bool)
    m = Machine(
        np.zeros((1, 3), np.int64), (1, 1, 1), (64, 1, 1), (1, 1, 1), {0: BANK, 3: BANK}, {0: known}, {}, 0x1000
    )
    m.log, m.guards = RequestLog(m, program.instructions), program.guards
    m.keep_contents()
    return m


def is_uniform(register: int) -> bool:
    return BASES[UREG] <= register < BASES[PRED] or register >= BASES[UPRED]


def registers(some: bool) -> list[Value | None]:
    """Return random contents of two warps; with `some`, about half of the lanes are unknown."""
    rng, made = np.random.default_rng(7), list[Value | None]()
    for register in range(REGISTERS):
        shape, like = (2, 1 if is_uniform(register) else 32), bool if register >= BASES[PRED] else np.uint32
        known = rng.integers(0, 2, shape).astype(bool) if some else True
        made.append(Value(rng.integers(0, 1 << 32, shape).astype(like), known, 0 if some else None))
    return made


def test_the_forms_are_of_operations_and_leave_out_few() -> None:
    opcodes = {form.partition(" ")[0].partition(".")[0] for form in FORMS.split("\n") if form}
    assert opcodes <= set(COMPILERS)
    assert len(opcodes) > 0.6 * len(COMPILERS)


@pytest.mark.slow
@pytest.mark.parametrize("some", [False, True])
def test_any_operand_leaves_registers_as_they_must_be(some: bool) -> None:
    places = [place for form in FORMS.strip().split("\n") for place in sources(form)]
    texts = list(dict.fromkeys(with_operand(*place, word) for place in places for word in (*NUMBERS, *OTHERS)))
    program = prepared(texts)
    m, before = machine(program), registers(some)
    for number, step in enumerate(program.steps):
        m.registers, m.now = list(before), number
        if step is not None:
            step(m)
        for register, value in enumerate(m.registers):
            if value is None or value is before[register]:
                continue
            assert value.bits.dtype == (bool if register >= BASES[PRED] else np.uint32), texts[number]
            assert value.bits.shape[0] in (1, 2), texts[number]
            assert value.bits.shape[1] in ((1,) if is_uniform(register) else (1, 32)), texts[number]
    failed = [texts[number] for number in program.failures]
    assert all("P" in parse_instruction(Sass(0, text)).operands[1].kind for text in failed), failed  # a carry out


def test_a_number_is_the_same_from_a_register_a_uniform_register_and_a_constant() -> None:
    texts = [
        with_operand(*place, word)
        for form in FORMS.strip().split("\n")
        for place in sources(form)
        if parse_instruction(Sass(0, form)).operands[place[2]].kind in (REG, UREG)
        for word in ("R20", "UR20", f"c[0x0][{AT:#x}]", "-R20", "-UR20", f"-c[0x0][{AT:#x}]")
    ]
    program = prepared(texts)
    m, before = machine(program), registers(False)
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
