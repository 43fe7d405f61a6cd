"""Which blocks stand for which: cells against a table of the whole grid, and random programs against all blocks."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import random_sass
from ncu_swizzle.emulate import blocks
from ncu_swizzle.emulate.blocks import Index, Unclaimed
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.run import emulate
from tests.support.emulation import kernel, pointers
from tests.support.programs import code

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))


@st.composite
def box(draw: st.DrawFn, grid: Index) -> Boxes:
    """Return a box around a block of the grid."""
    own = [draw(st.integers(0, size - 1)) for size in grid]
    boxes = Boxes(np.array([own]), grid)
    boxes.low[0] = [draw(st.integers(0, index)) for index in own]
    boxes.high[0] = [draw(st.integers(index, size - 1)) for index, size in zip(own, grid, strict=True)]
    boxes.step[0] = [draw(st.integers(1, 6)) for _ in own]
    return boxes


@pytest.mark.long
@given(st.data())
@settings(max_examples=150)
def test_cells_hold_what_no_box_has_claimed(data: st.DataObject) -> None:
    grid = data.draw(SIZES)
    unclaimed, table = Unclaimed(grid), np.ones(grid, bool)
    for _ in range(data.draw(st.integers(1, 6))):
        boxes = data.draw(box(grid))
        held = np.array([boxes.hold(0, index) for index in np.ndindex(grid)]).reshape(grid)
        assert unclaimed.claim(boxes, 0) == (table & held).sum()
        table &= ~held
        assert unclaimed.blocks == table.sum()
        left = unclaimed.some(7, math.prod(grid) + 1).tolist()  # all dimensions pinned: every block
        assert sorted(left) == np.argwhere(table).tolist()
        assert all(table[tuple(block)] for block in unclaimed.some(data.draw(st.integers(0, 6)), 9).tolist())


@pytest.mark.long
def test_few_blocks_of_a_random_program_count_what_all_blocks_count() -> None:
    for seed in range(60):
        expected, found = random_sass.few_blocks(random.Random(seed))
        assert found == expected, seed


@pytest.mark.parametrize(
    ("decision", "kinds"),
    [
        (["LOP3.LUT R2, R1, 0x7, RZ, 0xc0, !PT"], 8),  # blockIdx.x & 7
        (["IMAD.HI.U32 R2, R1, 0xaaaaaaab, RZ", "SHF.R.U32.HI R2, RZ, 0x1, R2", "IMAD R2, R2, -0x3, R1"], 3),  # % 3
        (["PRMT R2, R1, 0x4440, RZ", "LOP3.LUT R2, R2, 0xf, RZ, 0xc0, !PT"], 16),  # (unsigned char)blockIdx.x & 15
        (["IMNMX R2, R1, 0x3, PT"], 4),  # min(blockIdx.x, 3)
    ],
)
def test_a_grid_of_any_size_costs_by_its_kinds_of_blocks(decision: list[str], kinds: int) -> None:
    address = ("IADD3 R2, R2, 0x1, RZ", "IMAD R3, R0, R2, RZ", "IMAD.SHL.U32 R3, R3, 0x4, RZ")
    store = ("LOP3.LUT R3, R3, 0x1ffc, RZ, 0xc0, !PT", "STS [R3+0x400], R0", "EXIT")
    lines = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", *decision, *address, *store)
    small, large = (Launch(grid=(x, 3, 1), block=(32, 1, 1)) for x in (3 << 8, 3 << 29))
    every = emulate(code(*lines), small, exhaustive=True)
    few, many = emulate(code(*lines), small), emulate(code(*lines), large)
    assert few.rows[-2].wavefronts == every.rows[-2].wavefronts
    assert many.blocks_run <= 1000
    assert many.classes == few.classes <= kinds
    if "IMNMX" not in decision[0]:  # every kind is equally frequent
        scale = (3 << 29) // (3 << 8)
        assert [row.executed for row in many.rows] == [(row.executed or 0) * scale for row in few.rows]
        assert many.rows[-2].wavefronts == (few.rows[-2].wavefronts or 0) * scale


@pytest.mark.long
def test_a_grid_of_all_blocks_that_cuda_allows() -> None:
    counts = emulate(
        kernel("blocks", "linear"), Launch(grid=(2**31 - 1, 65535, 65535), block=(256, 1, 1), parameters=pointers(0))
    )
    assert counts.blocks == (2**31 - 1) * 65535 * 65535
    assert counts.rows[0].executed == 8 * counts.blocks


def test_a_grid_whose_first_block_takes_long_runs_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    # Block i goes round i + 1 times.
    loop = ("VIADD R3, R3, 0x1", "ISETP.LE.U32.AND P1, PT, R3, R9, PT", "@P1 BRA {again}", "EXIT")
    source = code(
        "S2R R0, SR_TID.X",
        "S2R R9, SR_CTAID.X",
        "MOV R3, RZ",
        "IMAD R4, R9, 0x4, RZ",
        "again: STS [R4+0x400], R0",
        *loop,
    )
    launch = Launch(grid=(40, 1, 1), block=(64, 1, 1))
    one_by_one = emulate(source, launch)
    batches: list[int] = []
    run = blocks.run_batch
    monkeypatch.setattr(blocks, "ALONE_STEPS", 1)
    monkeypatch.setattr(blocks, "run_batch", lambda setting, some: batches.append(len(some)) or run(setting, some))
    together = emulate(source, launch)
    assert batches[:2] == [1, 40]  # the first one is given up
    assert together.rows == one_by_one.rows == emulate(source, launch, exhaustive=True).rows
