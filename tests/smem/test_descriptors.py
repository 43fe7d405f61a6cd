"""What wgmma reads through descriptors, and where TMA puts boxes, against what an H100 was measured to do."""

from __future__ import annotations

import re

import numpy as np

from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, WARPS, Descriptor, box_chunks, warpgroup_wavefronts
from tests.support import measured

ROWS = {"A": 64, "B": 128}
WORDS = 64  # of a row of the tensor that the boxes are of


def test_descriptors_read_what_was_measured() -> None:
    rows = measured.rows("descriptor_reads")
    assert len(rows) == 2800
    for row in rows:
        fields = (int(row[name]) for name in ("start", "leading", "stride", "base_offset", "mode"))
        descriptor = Descriptor(*fields)
        chunks = descriptor.chunks(ROWS[row["side"]], row["mn"] == "1")
        read = (chunks.T if row["mn"] == "1" else chunks).ravel() // CHUNK
        assert read.tolist() == [int(chunk) for chunk in row["chunks"].split()], descriptor


def test_bits_are_the_fields() -> None:
    bits = 0x1230 >> 4 | 8192 >> 4 << 16 | 1024 >> 4 << 32 | 5 << 49 | 1 << 62
    assert Descriptor.of_bits(bits) == Descriptor(0x1230, 8192, 1024, 5, 1)


def test_boxes_are_where_they_were_measured() -> None:
    rows = measured.rows("boxes")
    placed = [row for row in rows if row["result"] == "placed"]
    assert len(placed) == 144
    for row in placed:
        span, columns, down = BOX_SPANS[int(row["swizzle"])], int(row["columns"]), int(row["rows"])
        chunks = box_chunks(down, 4 * columns, span, int(row["start"])) // CHUNK
        held = row["words"].split()
        expected = np.full(len(held), -1)
        expected[chunks] = np.arange(down)[:, None] * WORDS + np.arange(columns // 4) * 4
        assert [-1 if word == "." else int(word) for word in held] == expected.tolist()


def test_the_wavefronts_of_a_wgmma_follow_from_its_shape() -> None:
    rows = measured.rows("wgmma")
    assert len(rows) == 1298
    for row in rows:
        shape = re.search(r"64x(\d+)x", row["sass"])
        assert shape is not None
        a_in_shared = ", R" not in row["sass"].split("gdesc")[0].split(" ", 1)[1]
        per_group = warpgroup_wavefronts(int(shape[1]), a_in_shared, ".SP." in row["sass"])
        expected = int(row["executed"]) * per_group / WARPS
        assert int(row["wavefronts"]) == int(row["ideal"]) == expected, row
    # The rule names no descriptor, so the measurements must not all share one.
    fields = ("mode", "leading", "stride", "start", "base_offset")
    assert len({tuple(row[f"a_{field}"] for field in fields) for row in rows}) > 100
    assert {row["a_mode"] for row in rows} == {row["b_mode"] for row in rows} == {"0", "1", "2", "3"}
