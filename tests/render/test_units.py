"""How busy the units are and the stacked stalls, as view data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.render import pipes, text
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import DURATION, Metric, Profile
from tests.support.pages import rendered
from tests.support.recordings import Recorded

SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"


def with_metrics(profile: Profile, values: dict[str, float | None]) -> Profile:
    changed = {name: Metric(value) for name, value in values.items() if value is not None}
    kept = {name: metric for name, metric in profile.metrics.items() if name not in values}
    return replace(profile, metrics={**kept, **changed})


# ------------------------------------------------------------------------------------------------ units


def test_the_units_are_those_that_ncu_measured_and_the_busiest_is_named(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    section = pipes.section(compare([before, after]))
    assert section is not None
    assert [row.name for row in section.rows] == ["Shared memory", "Tensor cores", "Issue slots", "L2", "DRAM"]
    assert section.rows[0].values == tuple(f"{profile.number(SHARED):.1f} %" for profile in (before, after))
    assert section.rows[0].bars[0].width == f"{before.number(SHARED):.4g}%"
    assert section.sentences[0] == "The bottleneck of kernel1: Shared memory, at 94.6 % of its ceiling."
    assert section.sentences[1].startswith("The busiest unit of kernel2: Shared memory")


def test_an_idle_gpu_is_not_said_to_have_a_bottleneck(recorded: Recorded) -> None:
    idle = with_metrics(recorded("kernel1"), {SHARED: 12.0})
    section = pipes.section(compare([idle]))
    assert section is not None
    assert section.sentences == (
        "No unit of kernel1 is near its ceiling; the busiest: Shared memory, at 12.0 % of its ceiling. "
        "Latency is the likely limit.",
    )


def test_without_the_metrics_there_is_no_such_section(recorded: Recorded) -> None:
    bare = replace(recorded("kernel1"), metrics={})
    assert pipes.section(compare([bare])) is None
    page = rendered(recorded("kernel1"), bare)
    assert "units" not in page.values("id")
    assert "#units" not in page.values("href")
    assert {"units", "stalls"} <= set(rendered(recorded("kernel1")).values("id"))


def test_a_full_report_names_more_units(recorded: Recorded) -> None:
    fma = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    section = pipes.section(compare([with_metrics(recorded("kernel2"), {fma: 99.0})]))
    assert section is not None
    assert (section.rows[0].name, section.rows[0].metric) == ("FMA pipe", fma)


# ------------------------------------------------------------------------------------------------ stalls


def test_a_bar_is_the_duration_divided_as_the_samples_are(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    drawn = text.bars(compare([before, after]))
    assert drawn is not None
    assert drawn.reasons[0] == "short_scoreboard"
    assert drawn.reasons[-1] == text.OTHER
    widths = [sum(float(part.width.rstrip("%")) for part in bar.segments) for bar in drawn.bars]
    assert widths == pytest.approx([100, 100 * after.duration_ns / before.duration_ns], rel=1e-3)
    spent = before.duration_ns * before.stalls["short_scoreboard"] / sum(before.stalls.values()) * 1e-6
    assert drawn.bars[0].segments[0].title == f"short_scoreboard: {spent:.3f} ms"
    assert drawn.bars[0].samples == f"{sum(before.stalls.values()):,} samples"


def test_profiles_without_samples_or_a_duration_have_no_bar(recorded: Recorded) -> None:
    untimed = with_metrics(recorded("kernel1"), {DURATION: None})
    assert text.bars(compare([untimed])) is None
    drawn = text.bars(compare([untimed, recorded("kernel2")]))
    assert drawn is not None
    assert [bar.label for bar in drawn.bars] == ["kernel2"]
    many = text.bars(compare([recorded("kernel2")] * 11))
    assert many is not None
    assert (len(many.bars), many.left_out) == (text.MOST_BARS, 3)
