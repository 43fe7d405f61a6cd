"""The wavefronts of wgmma against what an H100 was measured to do."""

from __future__ import annotations

import re

from ncu_swizzle.smem.descriptors import WARPS, warpgroup_wavefronts
from tests.support import measured


def test_the_rule_holds_in_every_measurement() -> None:
    rows = measured.rows("wgmma")
    assert len(rows) == 1298
    for row in rows:
        shape = re.search(r"64x(\d+)x", row["sass"])
        assert shape is not None
        a_in_shared = ", R" not in row["sass"].split("gdesc")[0].split(" ", 1)[1]
        per_group = warpgroup_wavefronts(int(shape[1]), a_in_shared, ".SP." in row["sass"])
        expected = int(row["executed"]) * per_group / WARPS
        assert int(row["wavefronts"]) == int(row["ideal"]) == expected, row


def test_descriptors_were_varied() -> None:
    """The rule names no descriptor, so the measurements must not all share one."""
    rows = measured.rows("wgmma")
    fields = ("mode", "leading", "stride", "start", "base_offset")
    assert len({tuple(row[f"a_{field}"] for field in fields) for row in rows}) > 100
    assert {row["a_mode"] for row in rows} == {row["b_mode"] for row in rows} == {"0", "1", "2", "3"}
