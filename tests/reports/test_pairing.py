"""Launches of several reports, paired."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.reports import pairing
from ncu_swizzle.reports.model import LaunchId, Profile
from ncu_swizzle.reports.pairing import Choice, Forced
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, launched

Row = tuple[int | None, ...]


def report(*launches: tuple[str, int]) -> list[Profile]:
    """Return a report with launches of these functions in these grids."""
    return [launched(EMPTY, name, index, (grid, 1, 1)) for index, (name, grid) in enumerate(launches)]


def numbers(rows: Sequence[pairing.Row]) -> list[Row]:
    return [tuple(None if one is None else one.launch.index for one in row) for row in rows]


def test_kernels_are_paired_by_function_grid_block_and_occurrence() -> None:
    before = report(("rows(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("columns(int)", 8))
    after = report(("columns(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("rows(int)", 8))
    assert numbers(pairing.rows([before, after])) == [(0, 2), (1, 1), (2, 3), (3, 0)]


def test_else_by_the_name_without_template_arguments() -> None:
    before = report(("void a::tile<32>(int)", 8), ("void a::tile<16>(int)", 8), ("gone()", 1))
    after = report(("void b::tile<32, 1>(int)", 4), ("void a::tile<16>(int)", 8), ("new()", 1))
    assert numbers(pairing.rows([before, after])) == [(0, 0), (1, 1), (2, None), (None, 2)]


def test_a_third_report_stands_beside_the_second() -> None:
    before = report(("a()", 1), ("b()", 1))
    rows = pairing.rows([before, report(("b()", 1), ("b()", 1)), report(("a()", 1), ("c()", 1))])
    assert numbers(rows) == [(0, None, 0), (1, 0, None), (None, 1, None), (None, None, 1)]


def test_one_launch_against_one_needs_no_equal_name() -> None:
    assert numbers(pairing.rows([report(("plain()", 1)), report(("swizzled()", 2))])) == [(0, 0)]


def test_a_pair_can_be_forced_by_name_expression_and_number() -> None:
    before, after = report(("a()", 1), ("b()", 1), ("c()", 1)), report(("x()", 1), ("b()", 1), ("a()", 1))
    for forced in ("a=x", "0=0", "regex:^a=regex:x", "a()=x()"):
        rows = pairing.rows([before, after], [pairing.forced_pair(forced)])
        assert (0, 0) in numbers(rows)
        assert (1, 1) in numbers(rows)
        assert (None, 2) in numbers(rows)
    with pytest.raises(UsageError, match="second report has no z") as error:
        pairing.rows([before, after], [Forced("a", "z")])
    assert "0 x, 1 b, 2 a" in error.value.hint


@pytest.mark.parametrize("text", ["a", "=", "a=", "=b", ""])
def test_what_is_no_pair_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form A=B"):
        pairing.forced_pair(text)


def test_what_has_nothing_in_common_is_not_comparable() -> None:
    with pytest.raises(NotComparable, match="the reports have no kernel in common") as error:
        pairing.rows([report(("a()", 1), ("b()", 1)), report(("c()", 1))])
    assert "--pair A=B" in error.value.hint


@given(
    st.lists(st.tuples(st.sampled_from(["a()", "b<1>()", "b<2>()"]), st.integers(1, 3)), max_size=8),
    st.lists(st.tuples(st.sampled_from(["a()", "b<1>()", "b<3>()"]), st.integers(1, 3)), max_size=8),
)
def test_every_launch_is_in_one_row_and_no_pair_is_missed(
    left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    before, after = report(*left), report(*right)
    try:
        rows = numbers(pairing.rows([before, after]))
    except NotComparable:
        rows = [(index, None) for index in range(len(left))] + [(None, index) for index in range(len(right))]
        assert not {name.split("<")[0] for name, _ in left} & {name.split("<")[0] for name, _ in right}
    assert sorted(row[0] for row in rows if row[0] is not None) == list(range(len(left)))
    assert sorted(row[1] for row in rows if row[1] is not None) == list(range(len(right)))
    if len(left) == len(right) == 1:
        return
    alone = [{side[row[place]][0].split("<")[0] for row in rows if row[place] is not None and row[1 - place] is None}
             for place, side in enumerate((left, right))]  # fmt: skip
    assert not alone[0] & alone[1], "two launches of one function are left, and not paired"
    exact = [(left[a], right[b]) for a, b in rows if a is not None and b is not None]
    assert sum(a == b for a, b in exact) == sum(min(left.count(one), right.count(one)) for one in set(left))


def test_equal_launches_are_told_apart() -> None:
    twice = [EMPTY, EMPTY]
    assert all(a is twice[place] for place, (a, _) in enumerate(pairing.rows([twice, twice])))
    assert len(pairing.rows([twice, twice])) == 2


def test_launches_are_chosen_by_name_and_number() -> None:
    several = report(("void a::f<int>(int)", 1), ("g()", 1), ("void a::f<float>(int)", 1))
    assert [one.launch.index for one in Choice("f").chosen(several)] == [0, 2]
    assert [one.launch.index for one in Choice("f<int>").chosen(several)] == [0]
    assert [one.launch.index for one in Choice("regex:a::f<fl").chosen(several)] == [2]
    assert [one.launch.index for one in Choice(launches=(1, 2)).chosen(several)] == [1, 2]
    assert Choice().chosen(several) == several
    with pytest.raises(UsageError, match="no kernel matches --kernel-name h") as error:
        Choice("h").chosen(several)
    assert "0 f<int>, 1 g, 2 f<float>" in error.value.hint
    with pytest.raises(UsageError, match="--launch 9"):
        Choice(launches=(9,)).chosen(several)
    with pytest.raises(UsageError, match="is not a valid regular expression"):
        Choice("regex:(").chosen(several)


def test_sizes_come_from_the_container_where_metrics_do_not_tell(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    assert (profile.launch.grid, profile.launch.block) == (profile.grid, profile.block) == ((64, 16, 4), (128, 1, 1))
    bare = dataclasses.replace(profile, metrics={})
    assert (bare.grid, bare.block) == ((64, 16, 4), (128, 1, 1))
    assert dataclasses.replace(bare, launch=LaunchId()).grid == (0, 0, 0)
