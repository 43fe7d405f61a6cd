"""Reading SASS: nvdisasm's text, ncu's rows, instructions one by one, and where control goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ncu_swizzle.base.errors import BadFile, UnknownKernel
from ncu_swizzle.emulate import code
from ncu_swizzle.emulate.code import CONSTANT, MEMORY, STEP, Operand, Sass, SassInstruction, parse_instruction
from ncu_swizzle.emulate.effects import MODELLED, effects, results, width
from ncu_swizzle.emulate.flow import EXIT, Flow
from ncu_swizzle.reports.model import Profile
from tests.support.emulation import compiled, kernel
from tests.support.recorded_code import from_report

DISASSEMBLY = """
//--------------------- .text.one                 --------------------------
	.section	.text.one,"ax",@progbits
one:
.text.one:
        /*0000*/                   BSSY B0, `(.L_x_1) ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*0020*/                   MOV R2, 32@lo((one + .L_x_1@srel)) ;
        /*0030*/                   BRX R2 -0x40                        (*"BRANCH_TARGETS .L_x_0,.L_x_1"*);
.L_x_0:
        /*0040*/                   CALL.REL.NOINC `(other) ;
        /*0050*/                   BSYNC B0 ;
.L_x_1:
        /*0060*/                   EXIT ;
//--------------------- .text.other               --------------------------
	.section	.text.other,"ax",@progbits
other:
        /*0000*/                   RET.REL.NODEC R2 `(one) ;
//--------------------- .nv.global                --------------------------
"""


def instruction(sass: str) -> SassInstruction:
    return parse_instruction(Sass(0, sass))


def test_labels_become_offsets_and_called_sections_follow() -> None:
    found = code.from_disassembly(DISASSEMBLY, "one")
    assert [(sass.offset, sass.text) for sass in found.instructions] == [
        (0x00, "BSSY B0, 0x60"),
        (0x10, "@!P0 BRA 0x40"),
        (0x20, "MOV R2, 0x60"),
        (0x30, "BRX R2 -0x40"),
        (0x40, "CALL.REL.NOINC 0x70"),
        (0x50, "BSYNC B0"),
        (0x60, "EXIT"),
        (0x70, "RET.REL.NODEC R2 0x0"),
    ]
    assert found.instructions[3].targets == (0x40, 0x60)


def test_a_kernel_or_a_label_that_is_not_there() -> None:
    with pytest.raises(UnknownKernel, match="no kernel 'two'"):
        code.from_disassembly(DISASSEMBLY, "two")
    with pytest.raises(BadFile, match="no label"):
        code.from_disassembly(DISASSEMBLY.replace(".L_x_0:", ".L_x_9:"), "one")


def test_a_report_gives_the_same_as_the_disassembly(recorded: Callable[[str], Profile]) -> None:
    rows = [(0x7F00_0000_0000 + i.offset, i.text) for i in code.from_disassembly(DISASSEMBLY, "one").instructions]
    moved = [(address, sass.replace(" 0x40", " 0x7f0000000040")) for address, sass in rows]
    assert from_report("one", moved).instructions[1].text == "@!P0 BRA 0x40"
    profile = recorded("kernel2")
    found = from_report("kernel2", [(i.pc, i.sass) for i in profile.instructions])
    assert found.instructions[0].offset == 0
    calls = [sass.text for sass in found.instructions if "CALL" in sass.text]
    assert calls == ["CALL.REL.NOINC 0x4260"] * 2


@pytest.mark.long
def test_every_instruction_of_the_test_kernels_is_understood() -> None:
    for file in ("values", "warps", "blocks", "cluster", "hopper", "arithmetic", "tiles", "shapes"):
        for sass in (sass for name in compiled(file)[0].kernels for sass in kernel(file, name).instructions):
            found = parse_instruction(sass)
            for operand in found.operands:
                assert operand.kind != "SR" or operand.text.startswith(("SR", "PR", "SB", "gsb")), sass


OPERANDS = [
    ("MOV R1, -R2.reuse", Operand(kind="R", number=2, text="R2.reuse", negated=True)),
    ("MOV R1, ~UR63", Operand(kind="UR", number=63, text="UR63", inverted=True)),
    ("FADD R1, -|R2|", Operand(kind="R", number=2, text="R2", negated=True, absolute=True)),
    ("MOV R1, -0x10", Operand(kind="int", number=-16, text="-0x10")),
    ("FADD R1, -1.5e-06", Operand(kind="float", real=1.5e-06, text="1.5e-06", negated=True)),
    ("MOV R1, !PT", Operand(kind="P", number=7, text="PT", negated=True)),
    ("R2P PR, R5.B1", Operand(kind="R", number=5, text="R5.B1", suffixes=("B1",))),
]


def test_operands() -> None:
    assert [(sass, instruction(sass).operands[1]) for sass, _ in OPERANDS] == OPERANDS


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


WRITTEN = [
    ("IADD3 R8, P3, R7, R20, RZ", [8, 323]),
    ("IADD3.X R24, R13, R9, RZ, P0, !PT", [24]),
    ("IMAD.WIDE.U32 R14, P1, R8, 0x6a63bd81, R10", [14, 15, 321]),
    ("IMAD.HI.U32 R10, P1, R9, R13, R10", [10, 321]),
    ("LOP3.LUT P1, RZ, R12, R17, R11, 0xf8, !PT", [321]),
    ("SHFL.IDX PT, R5, R3, 0x7, 0x1f", [5]),
    ("VOTE.ANY R2, PT, !P0", [2]),
    ("VOTE.ANY P0, !P0", [320]),
    ("B2R.RESULT RZ, P0", [320]),
    ("R2P PR, R5, 0x6", [321, 322]),
    ("LDSM.16.M88.4 R56, [R11]", [56, 57, 58, 59]),
    ("HMMA.16816.F32.BF16 R160, R56, R160, RZ", [160, 161, 162, 163]),
    ("HMMA.1688.F16 R4, R6, R7, R8", [4, 5]),
    ("LDS.128 R12, [R182+UR8]", [12, 13, 14, 15]),
    ("UIADD3.64 UR22, UR22, 0x440, URZ", [278, 279]),
    ("F2I.S64.TRUNC R4, R5", [4, 5]),
    ("CS2R R38, SRZ", [38, 39]),
    ("CS2R.32 R5, SR_CLOCKLO", [5]),
    ("ATOMS.CAS RZ, [R12], R2, R3", []),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR7+0x18], R11", [322]),
    ("STS.64 [R6], R12", []),
    ("EXIT", []),
]


def test_what_is_written() -> None:
    found = {sass: effects(instruction(sass)).writes for sass, _ in WRITTEN}
    assert [(sass, [n for n in range(336) if bits >> n & 1]) for sass, bits in found.items()] == WRITTEN
    assert results(instruction("ISETP.GE.AND P0, PT, R2, 0x1, PT")) == 2
    assert width(instruction("LDG.E.U8.CONSTANT R24, desc[UR6][R24.64]")) == 1


def test_what_every_way_passes() -> None:
    flow = Flow([parse_instruction(sass) for sass in kernel("values", "k12").instructions])
    branches = [n for n, i in enumerate(flow.instructions) if i.opcode == "BRA" and i.guard]
    first = next(n for n in branches if flow.post_dominators[n] > n)
    stop = flow.post_dominators[first]
    region = flow.region(first, stop)
    assert region
    assert stop not in region
    assert all(flow.successors(number) for number in region)
    ends = [n for n, i in enumerate(flow.instructions) if i.opcode == "EXIT" and not i.guard]
    assert all(flow.post_dominators[n] == EXIT for n in ends)


def test_a_kernel_without_instructions_is_refused() -> None:
    with pytest.raises(BadFile, match="'empty' has no instructions"):
        code.from_disassembly('\t.section\t.text.empty,"ax",@progbits\n', "empty")


# ---------------------------------------------------------------------------------------------- where control goes


def flow(*lines: str) -> Flow:
    return Flow([parse_instruction(Sass(STEP * number, line)) for number, line in enumerate(lines)])


def test_what_only_leads_into_a_trap_is_fatal() -> None:
    found = flow("@P0 BRA 0x40", "MOV R0, R1", "@P1 BRA 0x30", "BPT.TRAP 0x1", "EXIT", "@P0 BPT.TRAP 0x1", "EXIT")
    assert found.fatal == {1, 2, 3}


def test_a_call_by_address_may_go_to_any_function_and_comes_back() -> None:
    by_address = "CALL.REL.NOINC R10 0x0"  # the address counts from 0x0, which is not where it goes
    found = flow("MOV R20, 0x30", "NOP", by_address, "EXIT", "STS [R2], R3", "RET.REL.NODEC R20 0x0")
    assert found.targets(2) == ()
    assert set(found.successors(2)) == {0, 3, 4}
    assert 4 in found.region(2, 3) or 4 in found.region(1, 3)


def test_without_a_function_a_call_by_address_leaves_the_code_and_comes_back() -> None:
    assert flow("CALL.ABS.NOINC R10", "EXIT").successors(0) == (1,)


def test_moving_a_matrix_between_lanes_does_not_access_shared_memory() -> None:
    assert "MOVM" in MODELLED
