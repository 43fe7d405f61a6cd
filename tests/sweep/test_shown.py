"""A sweep as a table and as a page, and the display of its workers."""

import csv
import io
import json
from dataclasses import replace

import pytest

from ncu_swizzle.engines.settings import Done
from ncu_swizzle.kernels import catalog
from ncu_swizzle.sweep import plan, table
from ncu_swizzle.sweep.crew import LOST, MOST_LINES, TOGETHER, CrewProgress
from ncu_swizzle.sweep.folder import PointOutcome, PointValues, Sweep
from ncu_swizzle.sweep.worker import Whereabouts
from tests.support.recordings import Recorded
from tests.support.sweeps import hostile, many, transposes
from tests.support.writers import poisoned_sweep


def test_the_table_has_a_row_per_point(recorded: Recorded) -> None:
    sweep = transposes(recorded)
    rows = list(csv.DictReader(io.StringIO(table.to_csv(sweep))))
    assert list(rows[0]) == ["kernel", "n", *(column.name for column in table.COLUMNS)]
    assert len(rows) == len(sweep.outcomes)
    plain, padded = recorded("transpose-plain"), recorded("transpose-padded")
    row = next(row for row in rows if row["kernel"] == "transpose-padded" and row["n"] == "4096")
    assert float(row["duration"]) == pytest.approx((padded.duration_ns or 0) / 1e6)
    assert float(row["speedup"]) == pytest.approx((plain.duration_ns or 0) / (padded.duration_ns or 1))
    assert (row["baseline"], row["excessive"], row["degree"], row["error"]) == ("transpose-plain", "0", "1.0", "")
    failed = next(row for row in rows if row["state"] == "failed")
    assert failed["error"] == "out differs by 0.5 of its size"
    assert failed["duration"] == failed["excessive"] == failed["speedup"] == ""
    found = json.loads(table.to_json(sweep))
    assert [point["kernel"] for point in found["points"]] == [row["kernel"] for row in rows]
    assert found["varied"] == ["n"]
    assert next(point for point in found["points"] if point["state"] == "failed")["degree"] is None


def test_markdown_has_as_many_cells_in_every_row(recorded: Recorded) -> None:
    text = table.to_markdown(poisoned_sweep(transposes(recorded), hostile))
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "<script" not in text
    assert "http://" not in text
    good = table.to_markdown(transposes(recorded))
    assert "| transpose-plain | 4,096 | 0.080 ms | 1.00× | 16,252,928 | 16.50 |" in good
    assert "- transpose-xor n=1024: out differs by 0.5 of its size" in good


def test_what_is_unknown_has_no_figure(recorded: Recorded) -> None:
    sweep = transposes(recorded, failing={})
    timeless = tuple(replace(one, values=replace(one.values, duration_ns=None)) for one in sweep.outcomes if one.values)
    page = table.page_of(replace(sweep, engine="emulated", outcomes=timeless))
    assert "unknown" in page.lines[0].cells
    assert page.where.startswith("Computed, not measured")
    nothing = replace(sweep, outcomes=tuple(PointOutcome(point) for point in sweep.plan.points))
    assert f"0 of {len(sweep.plan.points)} points are done." in table.to_html(nothing)


def test_recorded_times_are_not_called_computed(recorded: Recorded) -> None:
    sweep = transposes(recorded, failing={})
    beside = "recorded on a GPU, 2026-01-02"
    outcomes = [replace(o, values=replace(o.values, engine="emulated", beside=beside * (o.point.sizes["n"] == 4096)))
                for o in sweep.outcomes if o.values]  # fmt: skip
    where = table.page_of(replace(sweep, engine="emulated", outcomes=tuple(outcomes))).where
    assert where == f"Wavefronts computed, not measured, and outputs not checked; times of 4 of 20 points {beside}."


def test_a_second_parameter_has_a_column(recorded: Recorded) -> None:
    planned = plan.make_plan(
        *catalog.shipped().family_or_kernels(["kernel1", "kernel2"]), [], {"heads": [1, 2], "seq": [64, 128, 192]}
    )
    outcomes = tuple(PointOutcome(point, PointValues.of(recorded(point.kernel))) for point in planned.points)
    page = table.page_of(Sweep(plan=planned, engine="recorded", outcomes=outcomes))
    assert page.heads[:3] == ("Variant", "seq", "heads")


def test_ten_thousand_points_can_be_searched(recorded: Recorded) -> None:
    page = table.to_html(many(recorded))
    assert len(page) < 8e6
    assert ("<script" in page, "<script" in table.to_html(transposes(recorded))) == (True, False)


GPU = Whereabouts(worker="gpu-0", host="host1", gpu="NVIDIA H200", uuid="GPU-1")
LINE = "gpu-0, NVIDIA H200 on host1"
Said = list[tuple[str, float, str, str]]


def display(said: Said, total: int = 3, link: str = "") -> CrewProgress:
    def progress(line: str, done: Done) -> None:
        said.append((line, round(100 * done.fraction, 6), done.words, done.aside))

    return CrewProgress(progress, total, link)


def event(address: str, task: int, name: str, percent: float) -> tuple[float, dict[str, object]]:
    return 0.0, {"worker": address, "task": task, "name": name, "fraction": percent / 100}


def test_a_line_says_which_point_runs_on_which_worker_and_the_dashboard_comes_first() -> None:
    said: Said = []
    display(said, link="http://127.0.0.1:8787/status").finished("tls://a", 2, failed=False)
    assert [aside for *_, aside in said] == ["Dask's dashboard: http://127.0.0.1:8787/status", ""]
    said.clear()
    shown = display(said)
    assert said == [(TOGETHER, 0.0, "0 of 3", "")]
    shown.joined("tls://a", GPU)
    shown.hear(event("tls://a", 1, "kernel2 seq=1024", 50))
    shown.hear(event("tls://unknown", 2, "kernel1 seq=1024", 10))
    shown.finished("tls://a", 2, failed=True)
    assert said[1:] == [
        (LINE, 50.0, "kernel2 seq=1024", ""),
        (LINE, 100.0, "", ""),
        (TOGETHER, 33.333333, "1 of 3, 1 failed", ""),
    ]
    assert shown.running == {"tls://a": 1, "tls://unknown": 2}


def test_a_worker_that_was_started_again_has_its_line_again() -> None:
    said: Said = []
    shown = display(said)
    shown.joined("tls://a", GPU)
    shown.lost("tls://a")
    shown.hear(event("tls://a", 1, "late", 50))
    assert said[1:] == [(LINE, 0.0, LOST, "")], "what a lost worker says late is not shown"
    shown.joined("tls://b", GPU)
    shown.hear(event("tls://b", 1, "kernel2 seq=1024", 0))
    assert said[-1] == (LINE, 0.0, "kernel2 seq=1024", "")


def test_very_many_workers_share_the_line_of_all() -> None:
    said: Said = []
    shown = display(said)
    for number in range(MOST_LINES + 5):
        shown.joined(f"tls://{number}", Whereabouts(worker=f"worker-{number}"))
        shown.hear(event(f"tls://{number}", number, "point", 0))
    assert len({line for line, *_ in said}) == MOST_LINES + 1
