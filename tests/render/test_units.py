"""How busy the units are and the stacked stalls, as view data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.render import mix, page, tables
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
    comparison = compare([before, after])
    rows = mix.units(comparison)
    assert [row.name for row in rows] == ["Shared memory", "Tensor cores", "Issue slots", "L2", "DRAM"]
    assert rows[0].shares == (before.number(SHARED), after.number(SHARED))
    bottleneck, busiest = mix.unit_sentences(comparison, rows)
    assert bottleneck == "The bottleneck of kernel1: Shared memory, at 94.6 % of its ceiling."
    assert busiest.startswith("The busiest unit of kernel2: Shared memory")
    assert f'<span class="pile p0" style="width:{before.number(SHARED):.4g}%">' in page.render(comparison)


def test_an_idle_gpu_is_not_said_to_have_a_bottleneck(recorded: Recorded) -> None:
    idle = with_metrics(recorded("kernel1"), {SHARED: 12.0})
    comparison = compare([idle])
    assert list(mix.unit_sentences(comparison, mix.units(comparison))) == [
        "No unit of kernel1 is near its ceiling; the busiest: Shared memory, at 12.0 % of its ceiling. "
        "Latency is the likely limit."
    ]


def test_without_the_metrics_there_is_no_such_section(recorded: Recorded) -> None:
    bare = replace(recorded("kernel1"), metrics={})
    assert mix.units(compare([bare])) == []
    seen = rendered(recorded("kernel1"), bare)
    assert "units" not in seen.values("id")
    assert "#units" not in seen.values("href")
    assert {"units", "stalls"} <= set(rendered(recorded("kernel1")).values("id"))


def test_a_full_report_names_more_units(recorded: Recorded) -> None:
    fma = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
    rows = mix.units(compare([with_metrics(recorded("kernel2"), {fma: 99.0})]))
    assert (rows[0].name, rows[0].metric) == ("FMA pipe", fma)


# ------------------------------------------------------------------------------------------------ stalls


def test_a_bar_is_the_duration_divided_as_the_samples_are(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    drawn = tables.stall_bars(compare([before, after]))
    assert drawn is not None
    assert drawn.reasons[0] == "short_scoreboard"
    assert drawn.reasons[-1] == tables.OTHER
    assert drawn.longest == before.duration_ns
    times = [sum(part.time for part in bar.parts) for bar in drawn.bars]
    assert times == pytest.approx([before.duration_ns, after.duration_ns])
    spent = before.duration_ns * before.stalls["short_scoreboard"] / sum(before.stalls.values()) * 1e-6
    html = page.render(compare([before, after]))
    assert f'title="short_scoreboard: {spent:.3f} ms"' in html
    assert f"{sum(before.stalls.values()):,} samples" in html


def test_profiles_without_samples_or_a_duration_have_no_bar(recorded: Recorded) -> None:
    untimed = with_metrics(recorded("kernel1"), {DURATION: None})
    assert tables.stall_bars(compare([untimed])) is None
    drawn = tables.stall_bars(compare([untimed, recorded("kernel2")]))
    assert drawn is not None
    assert [bar.label for bar in drawn.bars] == ["kernel2"]
    many = tables.stall_bars(compare([recorded("kernel2")] * 11))
    assert many is not None
    assert (len(many.bars), many.left_out) == (tables.MOST_BARS, 3)
