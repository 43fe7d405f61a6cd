"""What a report says of tiles that TMA fills: which counters see its writes."""

from __future__ import annotations

import pytest

from ncu_swizzle.profiles.comparison import compare
from ncu_swizzle.render import page as report
from ncu_swizzle.render.view import tma
from tests.support.recordings import Recorded

MODES = ("tma-none", "tma-32", "tma-64", "tma-128")


def test_some_counters_see_tma_and_some_do_not(recorded: Recorded) -> None:
    found = {c.name: c for c in tma.counters(compare([recorded(name) for name in MODES]))}
    matrix = f"{8192 * 8192 * 2:,}"
    assert found[tma.BYTES].values == (matrix,) * 4
    assert found[tma.BYTES].sees
    tiles = 128 * 128
    assert found["inst_executed"].values == (f"{tiles:,}", f"{4 * tiles:,}", f"{2 * tiles:,}", f"{tiles:,}")
    blind = [counter for counter in found.values() if not counter.sees]
    assert len(blind) == 3
    for counter in blind:
        assert set(counter.values) <= {"0", "no value"}, "the kernels have no other writer of shared memory"


def test_the_write_side_has_no_conflict_whatever_the_mode(recorded: Recorded) -> None:
    reads = {name: recorded(name).accesses["LDSM"].degree for name in MODES}
    assert reads == {"tma-none": 8.0, "tma-32": 1.0, "tma-64": 1.0, "tma-128": 1.0}
    assert all(set(recorded(name).accesses) == {"LDSM"} for name in MODES)


def test_a_library_that_uses_tma_is_told_too(recorded: Recorded) -> None:
    page = report.render(compare([recorded("gemm-swizzled"), recorded("reference-gemm")]))
    assert "TMA tiles." in page


@pytest.mark.parametrize("name", ["kernel1", "transpose-xor"])
def test_nothing_is_said_where_no_tma_is(name: str, recorded: Recorded) -> None:
    assert tma.counters(compare([recorded(name)])) == ()
    assert "TMA tiles." not in report.render(compare([recorded(name)]))
