"""Blocks that differ in registers that no longer matter cost one block of each kind, and exactly those blocks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate import blocks, requests
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.faults import Spent
from ncu_swizzle.emulate.run import emulate
from tests.support.programs import code

MANY = Launch(grid=(1000, 1, 1), block=(64, 1, 1))
START = ("S2R R0, SR_TID.X", "S2R R9, SR_CTAID.X", "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT")


def counted(*lines: str, exhaustive: bool = False) -> Counts:
    return emulate(code(*START, *lines, "EXIT"), MANY, exhaustive=exhaustive)


ALIKE = {
    "reused under a guard": ("IMAD R2, R9, 0x10, R0", "@!P0 LEA R2, R0, 0x400, 0x2", "@!P0 STS [R2], RZ"),
    "after others ended": ("@P0 EXIT", "IMAD R2, R9, 0x10, R0", "LEA R2, R0, 0x400, 0x2", "STS [R2], RZ"),
    "reused in a branch": (
        "IMAD R2, R9, 0x10, R0", "BSSY B0, {end}", "@P0 BRA {end}", "LEA R2, R0, 0x400, 0x2", "STS [R2], RZ",
        "end: BSYNC B0",
    ),
}  # fmt: skip
APART = {
    "the other lanes' part matters": (
        "LOP3.LUT R2, R9, 0x1c, RZ, 0xc0, !PT", "@!P0 LEA R2, R0, 0x400, 0x2", "STS [R2+0x400], RZ"
    ),
    "read across lanes": (
        "LOP3.LUT R2, R9, 0x1c, RZ, 0xc0, !PT", "@!P0 LEA R2, R0, 0x400, 0x2", "SHFL.IDX PT, R3, R2, 0x1f, 0x1f",
        "@!P0 IMAD R3, R0, R3, 0x400", "@!P0 STS [R3], RZ",
    ),
    "a guard that depends on the block": (
        "LOP3.LUT R3, R9, R0, RZ, 0xc0, !PT", "ISETP.EQ.AND P1, PT, R3, RZ, PT", "MOV R2, 0x400",
        "@P1 LEA R2, R0, 0x400, 0x2", "@P1 STS [R2], RZ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*ALIKE, *APART])
def test_registers_tell_blocks_apart_if_they_are_read_again(kind: str) -> None:
    lines = ALIKE.get(kind) or APART[kind]
    some = counted(*lines)
    assert some.blocks_run == 1 if kind in ALIKE else 1 < some.blocks_run <= some.blocks
    assert some.rows == counted(*lines, exhaustive=True).rows


def test_bits_of_a_register_stay_known_where_only_other_blocks_write_it() -> None:
    flags = (
        "LOP3.LUT R5, R5, 0xfffffffe, RZ, 0xc0, !PT",  # R5 was never written: only bit 0 is known
        "ISETP.GT.U32.AND P1, PT, R9, 0x3e3, PT",
        "@P1 LOP3.LUT R5, R5, 0x1, RZ, 0xfc, !PT",
        "LOP3.LUT P2, RZ, R5, 0x1, RZ, 0xc0, !PT",
        "LEA R2, R0, 0x400, 0x2",
        "@P2 LEA R2, R0, 0x400, 0x3",
        "STS [R2], RZ",
    )
    found = counted(*flags)
    assert [row.wavefronts for row in found.rows if row.access] == [1000 * 2 + 4 * 2]  # 4 blocks have two-way conflicts
    assert found.rows == counted(*flags, exhaustive=True).rows


def test_a_grid_whose_first_block_takes_long_runs_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    # Block i goes round i + 1 times.
    loop = ("VIADD R3, R3, 0x1", "ISETP.LE.U32.AND P1, PT, R3, R9, PT", "@P1 BRA {again}", "EXIT")
    source = code(*START, "MOV R3, RZ", "IMAD R4, R9, 0x4, RZ", "again: STS [R4+0x400], R0", *loop)
    launch = Launch(grid=(40, 1, 1), block=(64, 1, 1))
    one_by_one = emulate(source, launch)
    batches: list[int] = []
    run = blocks.run_batch
    monkeypatch.setattr(blocks, "ALONE_STEPS", 1)
    monkeypatch.setattr(blocks, "run_batch", lambda setting, some: batches.append(len(some)) or run(setting, some))
    together = emulate(source, launch)
    assert batches[:2] == [1, 40]  # the first one is given up
    assert together.rows == one_by_one.rows == emulate(source, launch, exhaustive=True).rows


def ask(clock: requests.Clock, steps: int) -> None:
    """Take some of ten steps, as a run does."""
    with clock.limited(10):
        clock.steps += steps
        if clock.expired:
            raise TimeLimit("the run ends")


def test_steps_end_a_run_and_the_time_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(requests, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    clock = requests.Clock(timeout_s=60.0, start=0.0)
    ask(clock, 10)
    with pytest.raises(Spent):
        ask(clock, 11)
    assert not clock.expired  # outside there is no limit on steps
    seconds[0] = 61.0
    with pytest.raises(TimeLimit) as late:
        ask(clock, 0)
    assert not isinstance(late.value, Spent)
