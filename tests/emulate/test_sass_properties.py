"""SASS text is parsed, whatever it says."""

import contextlib
from dataclasses import replace
from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.code import INTEGER, MEMORY, REG, UREG, Operand, Sass, parse_instruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.run import emulate
from tests.support import emulation
from tests.support.properties import chances, examples, holds

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
