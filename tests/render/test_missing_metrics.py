"""Reports that lack metrics: shown all the same, and never a crash."""

import dataclasses
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ncu_swizzle.render import formats, summary
from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import Comparison, JobResult, compare
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, NEEDED, STALLED, WAVEFRONTS, LaunchId, Metric
from tests.support.pages import Page
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, ENGINE, laid_out, program, shown, without


@pytest.mark.parametrize("workload", ["kernel", "range", "graph", "command list"])
def test_nothing_at_all_is_shown_with_the_command_that_would_help(workload: str) -> None:
    bare = dataclasses.replace(EMPTY, launch=LaunchId(workload=workload), command="ncu --set basic -o x ./app -n 3")
    for result in (laid_out([bare]), laid_out([bare, bare]), laid_out([bare, bare], [bare, bare])):
        page = Page(report.render_all(result.comparisons, result.notes))
        assert "--section SwizzleConflicts" in page.text
        assert "./app -n 3" in page.text
        assert "Not in the report" in page.text
        assert "--section SwizzleConflicts" in " ".join(shown(result, 1000).split())
        formats.render_all(result.comparisons, result.notes)
        json.loads(formats.to_json(result))
        formats.to_csv(*result.comparisons)
    if workload != "kernel":
        assert f"no per-instruction counts for a {workload}" in laid_out([bare]).comparison.warnings[0]


@pytest.mark.long
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gone=st.sets(st.sampled_from([*NEEDED[:4], STALLED, "launch__", "device__", "l1tex__", "sm", "lts", "dram"])),
       keep_instructions=st.booleans(), stacks=st.booleans())  # fmt: skip
def test_whatever_is_missing_nothing_crashes(
    gone: set[str], keep_instructions: bool, stacks: bool, recorded: Recorded
) -> None:
    whole = recorded("transpose-plain")
    poor = without(whole, *sorted(gone)) if gone else whole
    if not keep_instructions:
        poor = dataclasses.replace(poor, instructions=())
    if not stacks:
        bare = tuple(dataclasses.replace(i, stack=()) for i in poor.instructions)
        poor = dataclasses.replace(poor, instructions=bare, sources={})
    missing = set(poor.missing)
    assert missing == {name for name in NEEDED if any(name.startswith(part) for part in gone)}
    for comparison in (compare([poor]), compare([whole, poor]), compare([poor, whole])):
        _show_everywhere(comparison, missing)
    _show_everywhere_together(laid_out([poor, whole], [whole, poor]))


def _show_everywhere(comparison: Comparison, missing: set[str]) -> None:
    result = JobResult(comparisons=(comparison,), engine=ENGINE)
    page = Page(report.render(comparison))
    assert ("Not in the report" in page.text) == bool(missing)
    for name in missing:
        assert name in page.text
        assert name in " ".join(shown(result, 2000).split())
    for text in (page.text, shown(result), formats.render(comparison)):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    json.loads(formats.to_json(result))
    formats.to_csv(comparison)


def _show_everywhere_together(result: JobResult) -> None:
    Page(report.render_all(result.comparisons, result.notes))
    shown(result)
    formats.render_all(result.comparisons, result.notes)


@pytest.mark.long
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0, "n/a"])
def test_an_absurd_duration_is_no_reason_to_crash(recorded: Recorded, value: float) -> None:
    odd = [dataclasses.replace(one, metrics={**one.metrics, DURATION: Metric(value)}) for one in program(recorded)]
    result = laid_out(program(recorded), odd)
    for text in (Page(report.render_all(result.comparisons, result.notes)).text, shown(result)):
        assert not re.search(r"\b(nan|inf)\b", text)


def test_what_a_basic_set_has_is_shown(recorded: Recorded) -> None:
    basic = without(recorded("transpose-plain"), WAVEFRONTS, IDEAL, EXECUTED, STALLED, "l1tex__")
    basic = dataclasses.replace(basic, instructions=())
    row = summary.rows(laid_out([basic, basic]).comparisons)[0]
    assert (row.duration, row.excessive, row.degree) == ("80.00 µs", "unknown", "-")
