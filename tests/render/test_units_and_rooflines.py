"""How busy the units are, the stacked stalls and the roofline, as view data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.profiles.comparison import compare
from ncu_swizzle.profiles.model import DURATION, Metric, Profile
from ncu_swizzle.render.view import roofline, stall_bars, units
from tests.support.pages import rendered
from tests.support.recordings import Recorded

SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"
# A GPU of 20 TFLOP/s in FP32 and 2 TB/s; the kernel does 100 adds, 60 multiplies and 420 FMAs per cycle.
ROOFLINE = {
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 10_000.0,
    "sm__cycles_elapsed.avg.per_second": 1e9,
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 100.0,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 60.0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 420.0,
    "dram__bytes.sum.per_second": 1e12,
    "dram__bytes.sum.peak_sustained": 1_000.0,
    "dram__cycles_elapsed.avg.per_second": 2e9,
}


def with_metrics(profile: Profile, values: dict[str, float | None]) -> Profile:
    changed = {name: Metric(value) for name, value in values.items() if value is not None}
    kept = {name: metric for name, metric in profile.metrics.items() if name not in values}
    return replace(profile, metrics={**kept, **changed})


# ------------------------------------------------------------------------------------------------ units


def test_the_units_are_those_that_ncu_measured_and_the_busiest_is_named(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    section = units.section(compare([before, after]))
    assert section is not None
    assert [row.name for row in section.rows] == ["Shared memory", "Tensor cores", "Issue slots", "L2", "DRAM"]
    assert section.rows[0].values == tuple(f"{profile.number(SHARED):.1f} %" for profile in (before, after))
    assert section.rows[0].bars[0].width == f"{before.number(SHARED):.4g}%"
    assert section.sentences[0] == "The bottleneck of kernel1: Shared memory, at 94.6 % of its ceiling."
    assert section.sentences[1].startswith("The busiest unit of kernel2: Shared memory")


def test_an_idle_gpu_is_not_said_to_have_a_bottleneck(recorded: Recorded) -> None:
    idle = with_metrics(recorded("kernel1"), {SHARED: 12.0})
    section = units.section(compare([idle]))
    assert section is not None
    assert section.sentences == (
        "No unit of kernel1 is near its ceiling; the busiest: Shared memory, at 12.0 % of its ceiling. "
        "Latency is the likely limit.",
    )


def test_without_the_metrics_there_is_no_such_section(recorded: Recorded) -> None:
    bare = replace(recorded("kernel1"), metrics={})
    assert units.section(compare([bare])) is None
    page = rendered(recorded("kernel1"), bare)
    assert "units" not in page.values("id")
    assert "#units" not in page.values("href")
    assert {"units", "stalls"} <= set(rendered(recorded("kernel1")).values("id"))


def test_a_full_report_names_more_units(recorded: Recorded) -> None:
    fma = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    section = units.section(compare([with_metrics(recorded("kernel2"), {fma: 99.0})]))
    assert section is not None
    assert (section.rows[0].name, section.rows[0].metric) == ("FMA pipe", fma)


# ------------------------------------------------------------------------------------------------ stalls


def test_a_bar_is_the_duration_divided_as_the_samples_are(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    drawn = stall_bars.bars(compare([before, after]))
    assert drawn is not None
    assert drawn.reasons[0] == "short_scoreboard"
    assert drawn.reasons[-1] == stall_bars.OTHER
    widths = [sum(float(part.width.rstrip("%")) for part in bar.segments) for bar in drawn.bars]
    assert widths == pytest.approx([100, 100 * after.duration_ns / before.duration_ns], rel=1e-3)
    spent = before.duration_ns * before.stalls["short_scoreboard"] / sum(before.stalls.values()) * 1e-6
    assert drawn.bars[0].segments[0].title == f"short_scoreboard: {spent:.3f} ms"
    assert drawn.bars[0].samples == f"{sum(before.stalls.values()):,} samples"


def test_profiles_without_samples_or_a_duration_have_no_bar(recorded: Recorded) -> None:
    untimed = with_metrics(recorded("kernel1"), {DURATION: None})
    assert stall_bars.bars(compare([untimed])) is None
    drawn = stall_bars.bars(compare([untimed, recorded("kernel2")]))
    assert drawn is not None
    assert [bar.label for bar in drawn.bars] == ["kernel2"]
    many = stall_bars.bars(compare([recorded("kernel2")] * 11))
    assert many is not None
    assert (len(many.bars), many.left_out) == (stall_bars.MOST_BARS, 3)


# ------------------------------------------------------------------------------------------------ roofline


def test_the_roofline_is_work_over_traffic_below_the_peaks(recorded: Recorded) -> None:
    chart = roofline.section(compare([with_metrics(recorded("kernel1"), dict(ROOFLINE))]))
    assert chart is not None
    (spot,) = chart.spots
    assert (spot.work, spot.intensity) == ("1.00 TFLOP/s", "1.00"), "100 + 60 + 2 x 420 per cycle, 1 GHz; 1 TB/s"
    assert spot.reached == "50.0 %", "at 1 FLOP per byte, 2 TB/s allow 2 TFLOP/s"
    assert chart.traffic == "2,000 GB/s"
    assert [roof.peak for roof in chart.roofs] == ["20.0 TFLOP/s, single precision"]
    assert 0 < spot.y < chart.bottom
    page = rendered(with_metrics(recorded("kernel1"), dict(ROOFLINE)))
    assert "roofline" in page.values("id")
    assert "Of the roof" in page.text


@pytest.mark.parametrize("lacking", sorted(ROOFLINE))
def test_without_one_of_its_metrics_there_is_no_roofline(recorded: Recorded, lacking: str) -> None:
    assert roofline.section(compare([with_metrics(recorded("kernel1"), {**ROOFLINE, lacking: None})])) is None


def test_a_kernel_that_computes_nothing_has_no_place_on_it(recorded: Recorded) -> None:
    idle = {name: 0.0 for name in ROOFLINE if "pred_on.sum.per_cycle" in name}
    assert roofline.section(compare([with_metrics(recorded("kernel1"), {**ROOFLINE, **idle})])) is None
