"""Stall shares say how many warp samples they rest on; with few, they are grey and nothing is concluded from them."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from ncu_swizzle.render import formats, page, tables, terminal
from ncu_swizzle.reports.comparison import JobResult, compare
from ncu_swizzle.reports.model import Metric, Profile, stall_reason
from ncu_swizzle.reports.options import Engine
from tests.support.pages import rendered, shown
from tests.support.recordings import Recorded


def sampled(profile: Profile, **counts: int) -> Profile:
    """Return a profile with these warp samples instead, all at its first shared-memory access."""
    metrics = {
        name: Metric(counts.get(reason, 0), metric.unit) if (reason := stall_reason(name)) else metric
        for name, metric in profile.metrics.items()
    }
    first = next(i for i in profile.instructions if i.access)
    placed = tuple(replace(i, samples=counts if i is first else {}) for i in profile.instructions)
    return replace(profile, metrics=metrics, instructions=placed)


def result(*profiles: Profile) -> JobResult:
    return JobResult(comparisons=(compare(profiles),), engine=Engine("recorded"))


def on_terminal(*profiles: Profile) -> str:
    console = Console(file=StringIO(), width=200)
    terminal.show(result(*profiles), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_table_of_stalls_says_how_many_samples_it_rests_on(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    numbers = [f"{sum(profile.stalls.values()):,}" for profile in (before, after)]
    seen = rendered(before, after)
    assert all(f"n = {number}" in seen.text for number in numbers)
    assert all(f"% of its {number} samples" in seen.text for number in numbers)
    (row,) = [line.split() for line in on_terminal(before, after).splitlines() if line.startswith("all warp samples")]
    assert row[3:] == numbers
    assert f"| all warp samples | {numbers[0]} | {numbers[1]} |  |" in formats.render(compare([before, after]))
    assert [f"{n:,}" for n in json.loads(formats.to_json(result(before, after)))["samples"]] == numbers
    assert "wide few" not in seen.values("class")


@pytest.mark.long
@pytest.mark.parametrize(("wait", "few"), [(96, True), (97, False)])
def test_below_a_hundred_samples_shares_are_grey_and_no_sentence_compares_them(
    wait: int, few: bool, recorded: Recorded
) -> None:
    before, after = recorded("kernel1"), sampled(recorded("kernel2"), wait=wait, short_scoreboard=3)
    stalls = shown(before, after).stalls
    words = " ".join(stalls.sentences)
    assert ("Fewer than 100 warp samples" in words) == few
    assert ("fell from" in words) == (not few)
    seen = rendered(before, after)
    assert ("wide few" in seen.values("class")) == few
    assert ("Grey: too few samples" in seen.text) == few
    assert ("kernel2 (99)" in on_terminal(before, after)) == few
    assert ("kernel2 (99)" in formats.render(compare([before, after]))) == few


def test_a_line_and_an_instruction_with_few_samples_are_grey(recorded: Recorded) -> None:
    profile = sampled(recorded("kernel1"), short_scoreboard=2, wait=1)
    built = shown(profile)
    classes = [value for value in rendered(profile).values("class") if value.startswith("heat")]
    assert len(classes) > 10
    assert all("few" in value or value == "heat" for value in classes), "heads of columns are not grey"
    (row,) = [row for table in built.instructions for row in table.rows if tables.top_stall(row)]
    assert (tables.top_stall(row), row.all_samples) == ("short_scoreboard 66.7 %", 3)
    assert '<td class="few">short_scoreboard 66.7 %' in page.render(compare([profile]))
    assert "of its 3 samples" in built.panels[0].summary
