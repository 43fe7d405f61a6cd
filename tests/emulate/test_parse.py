"""Reading SASS: nvdisasm's text, ncu's rows, instructions one by one, where control goes; and any text."""

import contextlib
from dataclasses import replace
from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, NcuSwizzleError, UnknownKernel
from ncu_swizzle.emulate import code
from ncu_swizzle.emulate.accesses import access_width, operation_name
from ncu_swizzle.emulate.code import (
    CONSTANT,
    INTEGER,
    MEMORY,
    REG,
    STEP,
    UREG,
    Operand,
    Sass,
    SassInstruction,
    parse_instruction,
)
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.effects import effects, results, width
from ncu_swizzle.emulate.flow import ANYWHERE, Flow
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.opcodes import row
from tests.support import emulation
from tests.support.places import table
from tests.support.properties import chances, examples, holds

FACTS = table("emulate/sass.toml")
DISASSEMBLY = FACTS["disassembly"]["text"]


def instruction(sass: str) -> SassInstruction:
    return parse_instruction(Sass(0, sass))


def test_labels_become_offsets_and_called_sections_follow() -> None:
    found = code.from_disassembly(DISASSEMBLY, "one")
    assert [sass.text for sass in found.instructions] == FACTS["disassembly"]["one"]
    assert [sass.offset for sass in found.instructions] == [*range(0, 0x80, 0x10)]
    assert found.instructions[3].targets == (0x40, 0x60)


@pytest.mark.parametrize("opcode", ["ATOMS", "ATOM.E"])
def test_generic_atomics_are_those_of_shared_memory(opcode: str) -> None:
    for form, name in (("EXCH.64", "exch.b64"), ("CAS.64", "cas.b64"), ("ADD", "add.u32"), ("MAX.S32", "max.s32")):
        parsed = instruction(f"{opcode}.{form} PT, R2, [R4], R6")
        assert operations.find(str(operation_name(parsed))).name == f"atom.shared.{name}"
    assert operation_name(instruction(f"{opcode}.ADD.64 PT, R2, [R4], R6")) is None


def test_vectors_of_reductions_are_as_wide_as_they_say() -> None:
    forms = {"ADD": 4, "ADD.F16x2.RN": 4, "ADD.F64.RN": 8, "MAX.S64": 8, "ADD.F32x2.FTZ.RN": 8, "ADD.BF16x8.RN": 16}
    for form, expected in forms.items():
        assert access_width(instruction(f"REDG.E.{form}.STRONG.GPU desc[UR4][R2.64], R4")) == expected


def test_a_kernel_or_a_label_that_is_not_there() -> None:
    with pytest.raises(UnknownKernel, match="no kernel 'two'"):
        code.from_disassembly(DISASSEMBLY, "two")
    with pytest.raises(BadFile, match="no label"):
        code.from_disassembly(DISASSEMBLY.replace(".L_x_0:", ".L_x_9:"), "one")
    with pytest.raises(BadFile, match="'empty' has no instructions"):
        code.from_disassembly('\t.section\t.text.empty,"ax",@progbits\n', "empty")


def test_operands() -> None:
    expected = {
        sass: Operand(**{**fields, "suffixes": tuple(fields.get("suffixes", ()))})
        for sass, fields in FACTS["operands"].items()
    }
    assert {sass: instruction(sass).operands[1] for sass in expected} == expected


def test_memory_and_constants() -> None:
    copy = instruction("@P1 LDGSTS.E.BYPASS.128 [R2+UR4+-0x80], desc[UR8][R6.64+0x100], !P3")
    assert copy.guard == Operand(kind="P", number=1, text="P1")
    assert copy.modifiers == ("E", "BYPASS", "128")
    first, second, third = copy.operands
    assert (first.kind, first.offset, [t.number for t in first.terms]) == (MEMORY, -0x80, [2, 4])
    assert (second.offset, second.terms[0].suffixes) == (0x100, ("64",))
    assert third.negated
    table = instruction("LDC.64 R2, c[0x3][R4+0xc]").operands[1]
    assert (table.kind, table.number, table.offset, table.terms[0].number) == (CONSTANT, 3, 0xC, 4)


def test_what_is_written() -> None:
    found = {sass: effects(instruction(sass)).writes for sass in FACTS["written"]}
    assert {sass: [n - 16 * (n >= 336) for n in range(352) if bits >> n & 1] for sass, bits in found.items()} == FACTS[
        "written"
    ]
    assert results(instruction("ISETP.GE.AND P0, PT, R2, 0x1, PT")) == 2
    assert width(instruction("LDG.E.U8.CONSTANT R24, desc[UR6][R24.64]")) == 1


def flow(*lines: str) -> Flow:
    return Flow([parse_instruction(Sass(STEP * number, line)) for number, line in enumerate(lines)])


def test_what_only_leads_into_a_trap_is_fatal() -> None:
    found = flow("@P0 BRA 0x40", "MOV R0, R1", "@P1 BRA 0x30", "BPT.TRAP 0x1", "EXIT", "@P0 BPT.TRAP 0x1", "EXIT")
    assert found.fatal == {1, 2, 3}


def test_a_call_by_address_may_go_to_any_function_and_comes_back() -> None:
    by_address = "CALL.REL.NOINC R10 0x0"  # the address counts from 0x0, which is not where it goes
    found = flow("MOV R20, 0x30", "NOP", by_address, "EXIT", "STS [R2], R3", "RET.REL.NODEC R20 0x0")
    assert found.targets(2) == ()
    assert set(found.successors(2)) == {ANYWHERE, 3}
    assert found.anywhere == (0, 3, 4)
    assert found.region(1, 3) == {0, 1, 2, 4, 5}


def test_a_call_by_address_goes_to_a_function_if_they_are_known() -> None:
    lines = ("CALL.REL.NOINC R10 0x0", "@P0 BRA 0x0", "EXIT", "STS [R2], R3", "RET.REL.NODEC R20 0x0", "EXIT")
    found = Flow([parse_instruction(Sass(STEP * number, line)) for number, line in enumerate(lines)], {3 * STEP: "f"})
    assert found.anywhere == (3,)
    assert found.region(1, 2) == {0, 1, 3, 4}, "and not what is behind the function"
    assert found.loops == {0: {0, 1, 3}, 1: {0, 1, 3}}, "the function returns behind the call, and the branch goes back"


def test_moving_a_matrix_between_lanes_does_not_access_shared_memory() -> None:
    assert row("MOVM").modelled


def test_without_a_function_a_call_by_address_leaves_the_code_and_comes_back() -> None:
    assert flow("CALL.ABS.NOINC R10", "EXIT").successors(0) == (1,)


WORDS = (
    *("R3", "RZ", "UR4", "URZ", "P0", "!PT", "UP1", "0x10", "-0x1", "1.5", "+INF", "c[0x0][0x210]", "[R2]", "|R3|"),
    *("[UR4+0x8]", "desc[UR4][R2.64]", "SR_TID.X", "B0", "~R5", "xyz"),
)
MODIFIERS = ("64", "128", "X", "HI", "WIDE", "U32", "S64", "XYZ", "4", "MT88", "F64", "U8", "ARV", "DIV", "CLEAR")
KERNELS = [("warps", "scan"), ("warps", "votes"), ("warps", "bitonic"), ("blocks", "linear"), ("blocks", "edges")]
HEADS = st.sampled_from(["", "-", "0x", "R", "UR", "P", "B", "1.", "1e", "-1e-"])
LONG = HEADS.map(lambda head: f"MOV {head}{'9' * 4301}")
LETTERS = st.text(alphabet="@!-~|[](){}.,+ RUPBcxZT0123456789abcdefxdesg;\n\t\x1b", max_size=60)
REGISTERS = st.integers(0, 254).map("R{}".format) | st.just("RZ") | st.integers(0, 62).map("UR{}".format)
OFFSETS = st.integers(-(2**31), 2**31 - 1)


def text_of(operand: Operand) -> str:
    return "RZ" if operand.number == 255 else f"{operand.kind}{operand.number}"


@examples
def test_any_text_is_parsed(examples: int) -> None:
    def check(text: str) -> None:
        instruction = parse_instruction(Sass(0, text))
        assert instruction.text == " ".join(instruction.text.split())
        assert all(operand.kind for operand in instruction.operands)
        again = parse_instruction(Sass(0, instruction.text))
        if " ".join(text.split(" ")) == " ".join(text.split()):
            assert again.mnemonic == instruction.mnemonic, "no other space than between words"

    holds(examples, check, LETTERS | st.text(max_size=40) | LONG)


@examples
def test_operands_are_read_as_they_were_written(examples: int) -> None:
    def check(registers: list[str], immediate: int, offset: int) -> None:
        address = f"[{'+'.join(registers)}+{'-' if offset < 0 else ''}{abs(offset):#x}]"
        words = [*registers, f"{'-' if immediate < 0 else ''}{abs(immediate):#x}", address]
        *plain, number, memory = parse_instruction(Sass(16, f"@!P3 IMAD.WIDE {', '.join(words)} ;")).operands
        assert [text_of(operand) for operand in plain] == registers
        assert all(operand.kind in (REG, UREG) for operand in plain)
        assert (number.kind, number.number) == (INTEGER, immediate)
        assert (memory.kind, memory.offset) == (MEMORY, offset)
        assert [text_of(term) for term in memory.terms] == registers

    holds(examples, check, st.lists(REGISTERS, min_size=1, max_size=4), OFFSETS, OFFSETS)


def mutated(text: str, chance: Random) -> str:
    """Return an instruction with an operand dropped, replaced, added or moved, or a modifier added."""
    guard, rest = text.split(" ", 1) if text.startswith("@") else ("", text)
    head, _, arguments = rest.partition(" ")
    operands = arguments.split(", ") if arguments else []
    what = chance.randrange(5)
    if what == 0:
        head += "." + chance.choice(MODIFIERS)
    elif what == 1:
        chance.shuffle(operands)
    elif what == 2:
        operands.insert(chance.randint(0, len(operands)), chance.choice(WORDS))
    elif operands:
        place = chance.randrange(len(operands))
        operands[place : place + 1] = [chance.choice(WORDS)] if what == 3 else []
    return f"{guard} {head} {', '.join(operands)}".strip()


@pytest.mark.long
@examples
def test_code_that_makes_no_sense_is_counted_or_refused(examples: int) -> None:
    def check(file_and_name: tuple[str, str], chance: Random) -> None:
        whole = emulation.kernel(*file_and_name)
        lines = list(whole.instructions)
        for _ in range(chance.choice((1, 3))):
            place = chance.randrange(len(lines))
            lines[place] = replace(lines[place], text=mutated(lines[place].text, chance))
        launch = Launch(grid=(2, 1, 1), block=(64, 1, 1), shared_dynamic=0, parameters=emulation.pointers(100))
        with contextlib.suppress(NcuSwizzleError):
            emulate(replace(whole, instructions=tuple(lines)), launch, timeout_s=5)

    holds(examples, check, st.sampled_from(KERNELS), chances)


def test_a_selected_nan_has_the_bits_of_its_encoding() -> None:
    encoding = (0x7FF80000FF07E808).to_bytes(8, "little") + bytes(8)
    assert code.with_bits_of_nan("FSEL R7, RZ, +QNAN , !P1", encoding) == "FSEL R7, RZ, 0x7ff80000 , !P1"
    assert code.with_bits_of_nan("FADD R7, RZ, +QNAN ", encoding) == "FADD R7, RZ, +QNAN "
    assert code.with_bits_of_nan("FSEL R7, RZ, +QNAN , !P1", b"") == "FSEL R7, RZ, +QNAN , !P1"
