"""Blocks that differ in registers that no longer matter cost one block of each kind, and exactly those blocks."""

from __future__ import annotations

import pytest

from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate

MANY = Launch((1000, 1, 1), (64, 1, 1))
START = ("S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT")


def counted(*lines: str, exhaustive: bool = False) -> Counts:
    instructions = (*START, *lines, "EXIT")
    code = Code("test", tuple(Sass(16 * at, line) for at, line in enumerate(instructions)), shared_bytes=0x4000)
    return emulate(code, MANY, exhaustive=exhaustive)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            ("IMAD R2, R9, 0x10, R0", "@!P0 LEA R2, R0, 0x400, 0x2", "@!P0 STS [R2], RZ"), id="reused under a guard"
        ),
        pytest.param(
            ("@P0 EXIT", "IMAD R2, R9, 0x10, R0", "LEA R2, R0, 0x400, 0x2", "STS [R2], RZ"), id="after others ended"
        ),
        pytest.param(
            (
                "IMAD R2, R9, 0x10, R0",
                "BSSY B0, 0x80",
                "@P0 BRA 0x80",
                "LEA R2, R0, 0x400, 0x2",
                "STS [R2], RZ",
                "BSYNC B0",
            ),
            id="reused in a branch",
        ),
    ],
)
def test_a_reused_register_does_not_tell_blocks_apart(lines: tuple[str, ...]) -> None:
    one = counted(*lines)
    assert one.blocks_run == 1
    assert one.rows == counted(*lines, exhaustive=True).rows


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            ("LOP3.LUT R2, R9, 0x1c, RZ, 0xc0, !PT", "@!P0 LEA R2, R0, 0x400, 0x2", "STS [R2+0x400], RZ"),
            id="the other lanes' part matters",
        ),
        pytest.param(
            (
                "LOP3.LUT R2, R9, 0x1c, RZ, 0xc0, !PT",
                "@!P0 LEA R2, R0, 0x400, 0x2",
                "SHFL.IDX PT, R3, R2, 0x1f, 0x1f",
                "@!P0 IMAD R3, R0, R3, 0x400",
                "@!P0 STS [R3], RZ",
            ),
            id="read across lanes",
        ),
        pytest.param(
            (
                "LOP3.LUT R3, R9, R0, RZ, 0xc0, !PT",
                "ISETP.EQ.AND P1, PT, R3, RZ, PT",
                "MOV R2, 0x400",
                "@P1 LEA R2, R0, 0x400, 0x2",
                "@P1 STS [R2], RZ",
            ),
            id="a guard that depends on the block",
        ),
    ],
)
def test_a_part_that_matters_does(lines: tuple[str, ...]) -> None:
    some = counted(*lines)
    assert 1 < some.blocks_run <= some.blocks
    assert some.rows == counted(*lines, exhaustive=True).rows
