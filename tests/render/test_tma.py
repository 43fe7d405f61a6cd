"""What a report says of tiles that TMA fills: which counters see its writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.render import mix
from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Metric, Profile
from tests.support.recordings import Recorded

MODES = ("tma-none", "tma-32", "tma-64", "tma-128")


def test_some_counters_see_tma_and_some_do_not(recorded: Recorded) -> None:
    found = {c.name: c for c in mix.of_tma(compare([recorded(name) for name in MODES]))}
    matrix = f"{8192 * 8192 * 2:,}"
    assert found[mix.BYTES].values == (matrix,) * 4
    assert found[mix.BYTES].sees
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
    assert mix.of_tma(compare([recorded(name)])) == ()
    assert "TMA tiles." not in report.render(compare([recorded(name)]))


HARDWARE = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
STORED = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"
MULTICAST = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum"


def with_metric(profile: Profile, name: str, value: float) -> Profile:
    return replace(profile, metrics={**profile.metrics, name: Metric(value)})


def test_counters_of_wgmma_that_a_report_lacks_are_unknown(recorded: Recorded) -> None:
    found = {c.name: c.values for c in mix.of_wgmma(compare([recorded("wgmma-128"), recorded("wgmma-tma-store")]))}
    wavefronts = recorded("wgmma-128").accesses["HGMMA"].wavefronts
    assert wavefronts
    assert found["memory_l1_wavefronts_shared"][0] == f"{wavefronts:,}"
    assert found[HARDWARE] == ("unknown", "unknown")


def test_counters_of_wgmma_that_a_report_has_are_shown(recorded: Recorded) -> None:
    profiles = [recorded("wgmma-128"), with_metric(recorded("wgmma-tma-store"), HARDWARE, 671088640)]
    found = {c.name: c.values for c in mix.of_wgmma(compare(profiles))}
    assert found[HARDWARE] == ("unknown", "671,088,640")
    page = report.render(compare(profiles))
    assert "671,088,640" in page
    assert "<strong>wgmma.</strong>" in page


def test_tensor_stores_and_multicast_have_rows_only_where_they_are(recorded: Recorded) -> None:
    def names(name: str) -> set[str]:
        return {counter.name for counter in mix.of_tma(compare([recorded(name)]))}

    assert not {STORED, MULTICAST} & names("wgmma-128")
    assert {STORED, MULTICAST} & names("wgmma-cluster") == {MULTICAST}
    assert {STORED, MULTICAST} <= names("wgmma-tma-store")
    stored = compare([with_metric(recorded("wgmma-128"), STORED, 134217728)])
    assert {counter.name: counter.values for counter in mix.of_tma(stored)}[STORED] == ("134,217,728",)


@pytest.mark.parametrize("name", ["kernel2", "tma-128"])
def test_nothing_is_said_of_wgmma_where_none_is(name: str, recorded: Recorded) -> None:
    assert mix.of_wgmma(compare([recorded(name)])) == ()
