"""Launches of one report and of several: told apart, chosen, paired, judged together."""

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
from tests.support.reports import EMPTY, laid_out, launched, program

Row = tuple[int | None, ...]


def report(*launches: tuple[str, int]) -> list[Profile]:
    """Return a report with launches of these functions in these grids."""
    return [launched(EMPTY, name, index, (grid, 1, 1)) for index, (name, grid) in enumerate(launches)]


def numbers(rows: Sequence[pairing.Row]) -> list[Row]:
    return [tuple(None if one is None else one.launch.index for one in row) for row in rows]


def test_kernels_are_paired_by_function_grid_block_and_occurrence_else_by_bare_name() -> None:
    before = report(("rows(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("columns(int)", 8))
    after = report(("columns(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("rows(int)", 8))
    assert numbers(pairing.rows([before, after])) == [(0, 2), (1, 1), (2, 3), (3, 0)]
    before = report(("void a::tile<32>(int)", 8), ("void a::tile<16>(int)", 8), ("gone()", 1))
    after = report(("void b::tile<32, 1>(int)", 4), ("void a::tile<16>(int)", 8), ("new()", 1))
    assert numbers(pairing.rows([before, after])) == [(0, 0), (1, 1), (2, None), (None, 2)]
    assert numbers(pairing.rows([report(("plain()", 1)), report(("swizzled()", 2))])) == [(0, 0)], "one against one"


def test_a_third_report_stands_beside_the_second_and_equal_launches_are_told_apart() -> None:
    before = report(("a()", 1), ("b()", 1))
    rows = pairing.rows([before, report(("b()", 1), ("b()", 1)), report(("a()", 1), ("c()", 1))])
    assert numbers(rows) == [(0, None, 0), (1, 0, None), (None, 1, None), (None, None, 1)]
    twice = pairing.rows([[EMPTY, EMPTY]] * 2)
    assert twice == [(EMPTY, EMPTY)] * 2


def test_a_pair_can_be_forced_by_name_expression_and_number() -> None:
    before, after = report(("a()", 1), ("b()", 1), ("c()", 1)), report(("x()", 1), ("b()", 1), ("a()", 1))
    for forced in ("a=x", "0=0", "regex:^a=regex:x", "a()=x()"):
        rows = numbers(pairing.rows([before, after], [pairing.forced_pair(forced)]))
        assert {(0, 0), (1, 1), (None, 2)} <= set(rows), forced
    with pytest.raises(UsageError, match="second report has no z") as error:
        pairing.rows([before, after], [Forced("a", "z")])
    assert "0 x, 1 b, 2 a" in error.value.hint
    for text in ("a", "=", "a=", "=b", ""):
        with pytest.raises(UsageError, match="is not of the form A=B"):
            pairing.forced_pair(text)


def test_what_has_nothing_in_common_is_not_comparable() -> None:
    with pytest.raises(NotComparable, match="the reports have no kernel in common") as error:
        pairing.rows([report(("a()", 1), ("b()", 1)), report(("c()", 1))])
    assert "--pair A=B" in error.value.hint


LAUNCHES = st.lists(st.tuples(st.sampled_from(["a()", "b<1>()", "b<2>()", "b<3>()"]), st.integers(1, 3)), max_size=8)


@given(LAUNCHES, LAUNCHES)
def test_every_launch_is_in_one_row_and_no_pair_is_missed(
    left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    sides = (left, right)
    try:
        rows = numbers(pairing.rows([report(*left), report(*right)]))
    except NotComparable:
        rows = [(index, None) for index in range(len(left))] + [(None, index) for index in range(len(right))]
        assert not {name.split("<")[0] for name, _ in left} & {name.split("<")[0] for name, _ in right}
    for number, side in enumerate(sides):
        assert sorted(row[number] or 0 for row in rows if row[number] is not None) == list(range(len(side)))
    if len(left) == len(right) == 1:
        return
    unpaired: list[set[str]] = [set(), set()]
    for row in rows:
        for number, side in enumerate(sides):
            index = row[number]
            if index is not None and row[1 - number] is None:
                unpaired[number].add(side[index][0].split("<")[0])
    assert not unpaired[0] & unpaired[1], "two launches of one function are left, and not paired"
    pairs = [(left[a], right[b]) for a, b in rows if a is not None and b is not None]
    assert sum(a == b for a, b in pairs) == sum(min(left.count(one), right.count(one)) for one in set(left))


def test_launches_are_chosen_by_name_and_number() -> None:
    several = report(("void a::f<int>(int)", 1), ("g()", 1), ("void a::f<float>(int)", 1))
    for choice, indices in (
        (Choice(), [0, 1, 2]),
        (Choice("f"), [0, 2]),
        (Choice("f<int>"), [0]),
        (Choice("regex:a::f<fl"), [2]),
        (Choice(launches=(1, 2)), [1, 2]),
    ):
        assert [one.launch.index for one in choice.chosen(several)] == indices
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


# ------------------------------------------------------------------------------------------------ many launches


def test_launches_are_told_apart_and_judged(recorded: Recorded) -> None:
    comparisons = laid_out(program(recorded)).comparisons
    assert [one.title for one in comparisons] == ["rows<float>", "tile", "rows<double>", "copy"]
    assert [pairing.excessive(one) for one in comparisons] == [16_252_928, 0, 16_252_928, 0]
    assert pairing.worst(comparisons, 9) == [0, 2, 1, 3]
    assert pairing.worst(comparisons, 1) == [0]
    often = laid_out(program(recorded, times=3)).comparisons
    assert often[4].title == "rows<float> #2"
    assert len(pairing.worst(often, 9)) == 4, "only the worst launch of each kernel"


def test_reports_are_called_after_their_files() -> None:
    assert pairing.columns(["old.ncu-rep", "x/new.json"]) == ("old", "new")
    assert pairing.columns(["a/report.ncu-rep", "b/report.ncu-rep"]) == ("before", "after")
    assert pairing.columns(["a/x", "b/x", "c/y"]) == ("x #1", "x #2", "y")
