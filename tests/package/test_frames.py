"""DataFrames of profiles and comparisons, and how a notebook shows them."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

import ncu_swizzle
from ncu_swizzle import Comparison, Profile
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import compare as compared
from ncu_swizzle.reports.counts import Instruction
from tests.support.recordings import Recorded


def lay_out(profiles: Sequence[Profile]) -> Comparison:
    return Comparison.of(compared(profiles))


# ---------------------------------------------------------------------------------------------- tables


def test_every_table_has_its_columns_and_those_of_a_comparison_are_below_each_other(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    for kind, columns in frames.COLUMNS.items():
        table = profile.to_frame(kind)
        names = [column.name for column in columns]
        assert list(table.columns)[: len(names)] == names
        assert len(table)
        for column in columns:
            assert table[column.name].dtype == pd.Series([], dtype=column.dtype).dtype
    rest = [name for name in profile.to_frame().columns if name.startswith("stall_")]
    assert profile.to_frame()[rest].sum().sum() == sum(sum(i.samples.values()) for i in profile.instructions)
    with pytest.raises(ValueError, match="choose one of instructions, lines"):
        profile.to_frame("instruction")  # type: ignore[arg-type]
    before, after = recorded("kernel1"), recorded("kernel2")
    comparison = lay_out([before, after])
    for kind in frames.COLUMNS:
        table = comparison.to_frame(kind)
        assert list(table.columns[:2]) == ["profile", "engine"]
        assert len(table) == len(before.to_frame(kind)) + len(after.to_frame(kind))
        assert list(dict.fromkeys(table.profile)) == ["kernel1", "kernel2"]


def test_tables_hold_what_the_profile_holds(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    instructions = profile.to_frame()
    assert list(instructions.pc) == [i.pc for i in profile.instructions]
    assert instructions.excessive.sum() == profile.total.excessive
    accesses = profile.to_frame("accesses").set_index("access")
    assert accesses.degree["LDSM"] == 8
    assert accesses.transfer["STS"] == "RF→SMEM"
    stalls = profile.to_frame("stalls")
    assert stalls.share.sum() == pytest.approx(100)
    metrics = profile.to_frame("metrics").set_index("name")
    assert metrics.value["gpu__time_duration.sum"] == profile.duration_ns
    comparison = lay_out([profile])
    for kind in ("lines", "accesses"):
        ours, theirs = profile.to_frame(kind), getattr(comparison, kind)
        for name in set(ours.columns) & set(theirs.columns):
            assert list(ours[name].fillna(-1)) == list(theirs[name].fillna(-1)), (kind, name)


def test_what_is_unknown_is_na_and_large_counts_are_exact(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    large = 2**62 + 1
    rows = (
        Instruction(16, "LDS R0, [R1]", "LDS", "LDS", executed=1, wavefronts=large, ideal=1),
        Instruction(32, "LDS R2, [R1]", "LDS", "LDS"),
    )
    table = replace(profile, instructions=rows).to_frame()
    assert table.wavefronts[0] == large
    assert pd.isna(table.wavefronts[1])
    assert pd.isna(table.degree[1])
    assert pd.isna(table.line[0])
    empty = replace(profile, instructions=(), metrics={})
    for kind in frames.COLUMNS:
        assert len(empty.to_frame(kind)) == 0
    assert len(lay_out([empty, profile]).to_frame()) == len(profile.instructions)


# ---------------------------------------------------------------------------------------------- notebooks


def test_a_notebook_shows_the_figures_and_where_they_come_from(recorded: Recorded) -> None:
    html = recorded("kernel1")._repr_html_()
    duration = f"{(recorded('kernel1').duration_ns or 0) / 1e6:.3f} ms"
    for part in ("1,882,718,208", "8.00", "recorded (measured earlier", "NVIDIA H100 80GB HBM3", duration):
        assert part in html
    many = ncu_swizzle.Profiles([recorded("kernel1")] * 300)._repr_html_()
    assert "300 profiles" in many
    assert "and 250 more" in many
    assert len(many) < 60_000
    bare = replace(recorded("kernel1"), instructions=(), metrics={})._repr_html_()
    assert "unknown" in bare
    assert "300 profiles" not in ncu_swizzle.Profiles([])._repr_html_()
