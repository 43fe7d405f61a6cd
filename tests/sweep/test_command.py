"""``ncu-swizzle sweep``: its failures, its table, the display of its workers, and its page in a browser."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.base.paths import child_environment
from ncu_swizzle.engines.settings import Done
from ncu_swizzle.kernels import catalog
from ncu_swizzle.sweep import plan, table
from ncu_swizzle.sweep.crew import TOGETHER, CrewProgress
from ncu_swizzle.sweep.plan import PointOutcome, PointValues, Sweep
from ncu_swizzle.sweep.worker import Whereabouts
from tests.support import process
from tests.support.marks import NEEDS_ALL
from tests.support.processes import wait_until
from tests.support.recordings import Recorded
from tests.support.sweeps import hostile, many, transposes
from tests.support.writers import poisoned_sweep

if TYPE_CHECKING:
    from tests.support.chromium import Browser


Fake = Callable[..., dict[str, str]]
OUT = "swizzle-out/sweep-attention"
SWEEP = ("sweep", "kernel1", "kernel2", "--problem", "seq=1024,2048", "--engine", "ncu")


def command(*arguments: str, at: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, folder=at, env=env)


def launches(work: Path) -> int:
    return len((work.parent / "launches").read_text(encoding="utf-8").splitlines())


def states(work: Path) -> list[str]:
    manifest = json.loads((work / OUT / "sweep.json").read_text(encoding="utf-8"))
    return [point["state"] for point in manifest["points"]]


@pytest.mark.long
def test_a_failing_point_does_not_lose_the_others_and_another_ncu_profiles_all_again(work: Path, fake: Fake) -> None:
    done = command(*SWEEP, "--csv", "points.csv", at=work, env=fake("prepare", 2048))
    assert done.returncode == 4
    assert states(work) == ["done", "done", "failed", "failed"]
    assert "Measured: NVIDIA H100 80GB HBM3" in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert "failed: kernel1 batch=4 heads=16 seq=2048: ncu could not profile the kernel" in " ".join(
        done.stdout.split()
    )
    assert "error: 2 of 4 points failed" in done.stderr
    assert "compute-sanitizer" in done.stderr
    rows = list(csv.DictReader((work / "points.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["state"] for row in rows] == ["done", "done", "failed", "failed"]
    assert (work / OUT / "report.html").is_file()
    assert launches(work) == 4

    again = command(*SWEEP, "--resume", "--json", "-", at=work, env=fake())
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert [(point["state"], point["unknowns"]) for point in found["points"]] == [("done", [])] * 4
    assert found["notes"] == ["2 of 4 points were reused from swizzle-out/sweep-attention."]
    assert launches(work) == 6, "only what had failed was launched again"

    program = work.parent / "bin" / "ncu"
    program.write_text(program.read_text().replace("2025.3.1.0", "2026.1.0.0"))
    other = command(*SWEEP, "--resume", "--markdown", "-", at=work, env=fake())
    assert "0 of 4 points were reused" in other.stdout
    assert "is profiled again because of changes to ncu" in other.stdout
    assert launches(work) == 10


@contextlib.contextmanager
def hanging(work: Path, fake: Fake) -> Iterator[subprocess.Popen[str]]:
    """Start the sweep with an ncu that hangs at the third of four points, and wait until it does."""
    with process.opened(*SWEEP, folder=work, env=fake("hang", 2048)) as started:
        third = "points/kernel1/.batch4-heads16-seq2048.*/.ncu-*/kernel1.ncu-rep"
        wait_until(lambda: list((work / OUT).glob(third)))
        yield started


@pytest.mark.long
def test_an_interrupt_keeps_what_is_done(work: Path, fake: Fake) -> None:
    with hanging(work, fake) as started:
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 130, said
    assert f"interrupted: 2 of 4 points are saved in {OUT}" in said
    assert "nothing was written" not in said
    assert f"-o {OUT} --resume" in said
    assert states(work) == ["done", "done", "open", "open"]
    assert (work / OUT / "report.html").is_file()
    assert not list((work / OUT).rglob(".*"))
    done = command(*SWEEP, "-o", OUT, "--resume", at=work, env=fake())
    assert done.returncode == 0, done.stderr
    assert states(work) == ["done"] * 4


@pytest.mark.long
def test_after_a_kill_the_next_run_takes_over_what_is_done(work: Path, fake: Fake) -> None:
    with hanging(work, fake) as started:
        started.kill()
    assert list((work / OUT).rglob(".batch4-heads16-seq2048.*"))
    done = command(*SWEEP, "--resume", at=work, env=fake())
    assert done.returncode == 0, done.stderr
    assert states(work) == ["done"] * 4
    assert launches(work) == 5, "two, the one that was killed, and two"
    assert not list((work / OUT).rglob(".*"))


@pytest.mark.long
@NEEDS_ALL
def test_kernels_of_a_project_are_swept(project: Path) -> None:
    def swept(*words: str) -> subprocess.CompletedProcess[str]:
        sizes = ("--problem", "n=64,128", "--engine", "emulated")
        return command("sweep", "tile", *sizes, *words, at=project, env=child_environment())

    first = swept("--csv", "-")
    assert first.returncode == 0, first.stderr
    conflicts = [
        (row["kernel"], row["n"], row["excessive"] == "0") for row in csv.DictReader(io.StringIO(first.stdout))
    ]
    assert conflicts == [
        (f"tile-{way}", n, way == "swizzled") for n in ("64", "128") for way in ("rowmajor", "swizzled")
    ]
    assert swept("--resume", "--csv", "-").stdout == first.stdout
    toml = project / "ncu-swizzle.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace("tolerance = { y = 0 }", "tolerance = { y = 1 }"), "utf-8")
    changed = swept("--resume")
    assert "description" in changed.stdout + changed.stderr, "what was described otherwise is profiled again"


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


@pytest.mark.long
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


def test_it_opens_without_an_error_fetches_nothing_but_itself_and_needs_no_scripts(
    browser: Browser, page_file: Path, hostile_file: Path
) -> None:
    for file in (page_file, hostile_file):
        browser.open(file)
        assert browser.errors() == []
        assert browser.fetched() == [file.as_uri()]
        assert not browser.alerted()
        assert browser.script("document.querySelectorAll('script, img, iframe, object').length") == 0
    browser.scripting(False)
    browser.open(page_file)
    assert len(browser.texts(".points tbody tr")) == 20


def test_the_table_shows_every_point(browser: Browser, page_file: Path, sweep: Sweep) -> None:
    browser.open(page_file)
    shown = browser.script(
        "[...document.querySelectorAll('.points tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    rows = table.rows_table(sweep)
    unit = table.time_unit(rows)
    for cells, row in zip(shown, rows, strict=True):
        if row.error:
            assert cells[:2] == table.cells(row, ("n",), unit)[:2]
            assert cells[2].split("\n") == ["failed: out differs by 0.5 of its size", "try: read it as it was written"]
        else:
            assert cells == table.cells(row, ("n",), unit)


def test_only_tables_scroll_sideways(browser: Browser, page_file: Path, hostile_file: Path) -> None:
    for file in (page_file, hostile_file):
        browser.open(file)
        for width in (400, 700, 1280):
            browser.resize(width)
            assert browser.script("document.documentElement.scrollWidth") <= width
