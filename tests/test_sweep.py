"""Sweeps: what is planned, kept, taken over and shown; with recorded figures, and with an ncu that fails at a point."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.catalog import collection
from ncu_swizzle.ncu import gpu
from ncu_swizzle.sweep import page
from ncu_swizzle import paths
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.errors import BadFile, BadProblem, NotWritable, ProgramFailed, UnknownKernel, UsageError
from ncu_swizzle.paths import child_environment
from ncu_swizzle.profiles.model import DURATION, Kernel, Profile
from ncu_swizzle.engines.context import Request
from ncu_swizzle.sweep import folder
from ncu_swizzle.sweep import plan
from ncu_swizzle.sweep import running
from ncu_swizzle.sweep import scales
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep import view
from ncu_swizzle.sweep.outcome import Outcome, Sweep
from tests import process
from tests.sweeps import transposes

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>|`[a](http://x)"
RECORDED = Request(engine="recorded")
Recorded = Callable[[str], Profile]


# ---------------------------------------------------------------------------------------------- the plan


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["n=1024,2048,4096"], {"n": [1024, 2048, 4096]}),
        (["n=1024", "n=2048", "m=1"], {"n": [1024, 2048], "m": [1]}),
        (["batch=1,2,seq=64, 128"], {"batch": [1, 2], "seq": [64, 128]}),
        ([], {}),
    ],
)
def test_sizes_are_lists_by_name(texts: list[str], found: dict[str, list[int]]) -> None:
    assert plan.sizes(texts) == found


@pytest.mark.parametrize("text", ["1024", "n", "n=", "=3", "n=1,x", "n=-1", "n=1.5"])
def test_a_size_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=SIZE"):
        plan.sizes(["m=1", text])


def test_a_family_stands_for_its_own_variants() -> None:
    known = collection.shipped()
    gemm = plan.make(known, ["gemm"], [], {"n": [512, 1024, 512]})
    assert [kernel.name for kernel in gemm.kernels] == [k.name for f, k in known if f.name == "gemm" and not k.library]
    assert [point.sizes["n"] for point in gemm.points] == [512] * 6 + [1024] * 6
    assert plan.make(known, ["gemm"], ["all"], {}).kernels == gemm.kernels
    named = plan.make(known, ["gemm"], ["swizzled", "gemm-plain", "reference-gemm"], {})
    assert [kernel.name for kernel in named.kernels] == ["gemm-swizzled", "gemm-plain", "reference-gemm"]
    both = plan.make(known, ["kernel1", "kernel2", "kernel1"], [], {"seq": [64, 128, 192], "heads": [1, 2]})
    assert both.varied == ("seq", "heads"), "the one with most sizes is the axis"
    assert len(both.points) == 12
    assert len({point.folder for point in both.points}) == 12


@pytest.mark.parametrize(
    ("names", "variants", "sizes", "error", "said"),
    [
        (["gemn"], [], {}, UnknownKernel, "gemn"),
        (["gemm"], ["round"], {}, UsageError, "the family gemm has no variant 'round'"),
        (["kernel1", "gemm-plain"], [], {}, UsageError, "not of the family attention"),
        (["kernel1"], ["kernel2"], {}, UsageError, "--variants are those of one family"),
        (["gemm"], [], {"n": [1024, 1000]}, BadProblem, "n=1000 is outside the limits: a multiple of 256"),
        (["gemm"], [], {"k": [1]}, BadProblem, "has no parameter 'k'"),
        (["transpose"], [], {"n": range(1, 300)}, UsageError, "that would be 1,495 points"),
    ],
)
def test_what_cannot_be_swept_is_said_before_anything_runs(
    names: list[str], variants: list[str], sizes: dict[str, Sequence[int]], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        plan.make(collection.shipped(), names, variants, sizes)


def test_a_variant_is_held_against_the_first_of_its_baselines_that_is_swept() -> None:
    known = collection.shipped()
    gemm = plan.make(known, ["gemm"], ["plain", "swizzled", "wide", "reference-gemm"], {}).baselines()
    # gemm-wide names gemm-pipelined, which is not swept
    assert gemm == {
        "gemm-plain": "gemm-plain",
        "gemm-swizzled": "gemm-plain",
        "gemm-wide": "gemm-wide",
        "reference-gemm": "gemm-plain",
    }
    assert plan.make(known, ["gemm"], [], {}).baselines()["gemm-wide"] == "gemm-plain"
    vectors = plan.make(known, ["vectors"], [], {}).baselines()
    assert (vectors["vectors-4-swizzle"], vectors["vectors-8-swizzle"]) == ("vectors-4-stride", "vectors-8-stride")


# ---------------------------------------------------------------------------------------------- axes


POSITIVE = st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=20)


@given(POSITIVE)
def test_every_value_has_its_place_on_every_axis(values: list[float]) -> None:
    for make in (scales.linear, scales.logarithmic, scales.counts, scales.degrees):
        scale = make(values)
        places = [scale.place(value) for value in sorted(values)]
        assert all(-1e-9 <= place <= 1 + 1e-9 for place in places), make
        assert places == sorted(places)
        assert 1 <= len(scale.ticks) <= 45
        assert all(-1e-9 <= scale.place(tick) <= 1 + 1e-9 for tick in scale.ticks)


def test_axes_are_marked_at_round_numbers() -> None:
    assert scales.linear([3.4]).ticks == (0, 1, 2, 3, 4)
    assert scales.linear([1.0, 0.2]).ticks == (0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0)
    assert scales.degrees([1.0]).ticks == (1, 2)
    assert scales.degrees([16.5]).ticks == (1, 2, 4, 8, 16, 32)
    assert scales.counts([0, 0]).ticks == (0,)
    assert scales.counts([0, 2e6, 3e7]).ticks == (0, 1e6, 1e7, 1e8)
    assert scales.counts([0, 5]).place(0) == 0
    assert scales.counts([0, 5]).place(5) > scales.ZERO_ROOM
    assert scales.sizes([7]).place(7) == 0.5
    assert math.isclose(scales.sizes([512, 1024, 2048]).place(1024), 0.5)


# ---------------------------------------------------------------------------------------------- table and page


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
    text = table.to_markdown(hostile(recorded))
    lines = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "<script" not in text
    assert "http://" not in text
    good = table.to_markdown(transposes(recorded))
    assert "| transpose-plain | 4,096 | 0.080 ms | 1.00× | 16,252,928 | 16.50 |" in good
    assert "- transpose-xor n=1024: out differs by 0.5 of its size" in good


def hostile(recorded: Recorded) -> Sweep:
    """Return a sweep whose names and messages are full of markup."""
    sweep = transposes(recorded, failing={("transpose-xor", 1024): ProgramFailed(HOSTILE, HOSTILE)})
    family = sweep.plan.family
    names = {kernel.name: f"{HOSTILE}{kernel.name}" for kernel in sweep.plan.kernels}
    kernels = tuple(replace(one, name=names[one.name], baseline="") for one in sweep.plan.kernels)
    outcomes = tuple(
        replace(
            one,
            point=replace(one.point, kernel=names[one.point.kernel]),
            profile=one.profile
            and replace(
                one.profile, kernel=Kernel(HOSTILE, HOSTILE), machine=replace(one.profile.machine, gpu=HOSTILE)
            ),
        )
        for one in sweep.outcomes
    )
    planned = replace(sweep.plan, family=replace(family, title=HOSTILE, name=HOSTILE), kernels=kernels)
    return replace(sweep, plan=planned, outcomes=outcomes, reason=HOSTILE, notes=(HOSTILE,))


def test_names_stay_names_on_the_page(recorded: Recorded) -> None:
    html = page.render(hostile(recorded))
    assert html.count("<script") == html.count("<img") == 0
    assert "&lt;script&gt;" in html
    assert page.render(hostile(recorded)) == html


def test_a_line_is_not_drawn_over_a_gap(recorded: Recorded) -> None:
    built = view.build(transposes(recorded))
    (group,) = built.groups
    assert [chart.title.split(",")[0] for chart in group.charts] == [
        figure.title.split(",")[0] for figure in view.FIGURES
    ]
    for chart in group.charts:
        xor = next(series for series in chart.series if series.label == "transpose-xor")
        assert len(xor.marks) == 4
        assert [line.count("L") for line in xor.lines] == [2], "512 stands alone, 2048 to 8192 are joined"
        for mark in (mark for series in chart.series for mark in series.marks):
            assert view.LEFT <= mark.x <= view.RIGHT
            assert view.TOP <= mark.y <= view.BOTTOM


def test_figures_that_nobody_has_have_no_chart(recorded: Recorded) -> None:
    sweep = transposes(recorded, failing={})
    timeless = tuple(
        replace(
            one, profile=replace(one.profile, metrics={k: v for k, v in one.profile.metrics.items() if k != DURATION})
        )
        for one in sweep.outcomes
        if one.profile
    )
    built = view.build(replace(sweep, engine="emulated", outcomes=timeless))
    assert [chart.title for chart in built.groups[0].charts] == [figure.title for figure in view.FIGURES[2:]]
    assert "unknown" in built.lines[0].cells
    assert built.where.startswith("Computed, not measured")
    nothing = replace(sweep, outcomes=tuple(Outcome(point) for point in sweep.plan.points))
    assert "No point has results." in page.render(nothing)


def test_a_second_parameter_gives_a_set_of_charts_each(recorded: Recorded) -> None:
    planned = plan.make(collection.shipped(), ["kernel1", "kernel2"], [], {"heads": [1, 2], "seq": [64, 128, 192]})
    outcomes = tuple(Outcome(point, recorded(point.kernel)) for point in planned.points)
    built = view.build(Sweep(planned, "recorded", outcomes))
    assert [group.title for group in built.groups] == ["heads=1", "heads=2"]
    assert {chart.axis for group in built.groups for chart in group.charts} == {"seq"}
    assert built.heads[:3] == ("Variant", "seq", "heads")


def test_more_variants_than_colours_still_differ(recorded: Recorded) -> None:
    planned = plan.make(collection.shipped(), ["transpose"], ["plain"], {"n": [512, 1024]})
    kernels = tuple(replace(planned.kernels[0], name=f"k{number}") for number in range(20))
    planned = replace(planned, kernels=kernels)
    outcomes = tuple(Outcome(point, recorded("transpose-plain")) for point in planned.points)
    legend = view.build(Sweep(planned, "recorded", outcomes)).legend
    assert len({(one.colour, one.shape, one.dashes) for one in legend}) == 20


# ---------------------------------------------------------------------------------------------- running


def sweep_of(known: Catalog, place: Path, variants: Sequence[str] = ("plain", "xor"), **how: Any) -> Sweep:
    planned = plan.make(known, ["transpose"], variants, {})
    return running.run(known, planned, RECORDED, place, **how)


def test_a_sweep_keeps_every_point(tmp_path: Path, recorded: Recorded) -> None:
    place = tmp_path / "sweep"
    sweep = sweep_of(collection.shipped(), place)
    assert [one.profile for one in sweep.outcomes] == [recorded("transpose-plain"), recorded("transpose-xor")]
    manifest = json.loads((place / "sweep.json").read_text(encoding="utf-8"))
    assert [point["state"] for point in manifest["points"]] == ["done", "done"]
    for point in manifest["points"]:
        assert run_folder.load_profile(place / point["profile"]) == recorded(point["kernel"])
    assert {file.name for file in (place / "points" / "transpose-xor" / "n4096").iterdir()} == {
        *("point.json", "profile.json", "transpose-xor.ncu-rep", "transpose-xor.facts.json")
    }
    assert (place / "report.html").is_file()
    assert not list(place.rglob(".*")), "nothing hidden is left"
    running.conclude(sweep)


def test_what_is_the_same_is_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "sweep"
    known = collection.shipped()
    sweep_of(known, place, ("plain",))
    stamp = (place / "points" / "transpose-plain" / "n4096" / "profile.json").stat().st_mtime_ns
    seen: list[tuple[str, bool]] = []
    sweep = sweep_of(known, place, resume=True, on_point=lambda one: seen.append((one.point.kernel, one.kept)))
    assert seen == [("transpose-plain", True), ("transpose-xor", False)]
    assert sweep.notes == (f"1 of 2 points were taken over from {place}.",)
    assert (place / "points" / "transpose-plain" / "n4096" / "profile.json").stat().st_mtime_ns == stamp


def test_what_is_stale_is_profiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    monkeypatch.setattr(paths, "kernels", lambda: kernels)  # recordings are of the shipped families alone
    place = tmp_path / "sweep"
    sweep_of(collection.load(kernels), place)
    header = kernels / "transpose" / "transpose.cuh"
    header.write_text(header.read_text(encoding="utf-8") + "// edited\n", encoding="utf-8")
    sweep = sweep_of(collection.load(kernels), place, resume=True)
    assert not any(one.kept for one in sweep.outcomes)
    assert sweep.notes[0].startswith("0 of 2 points were taken over")
    assert sweep.notes[1] == "transpose-plain n=4096 is profiled again: not the same sources."
    options = replace(RECORDED, options=replace(RECORDED.options, clock_control="base"))
    planned = plan.make(collection.load(kernels), ["transpose"], ["plain"], {})
    again = running.run(collection.load(kernels), planned, options, place, resume=True)
    assert again.notes[1].endswith("not the same options.")


@pytest.mark.parametrize("file", ["profile.json", "point.json"])
@pytest.mark.parametrize("ruin", [b"", b"{}", b"[1]", b'{"schema": 1}', b"\xff\xfe", b"[" * 100_000])
def test_a_ruined_point_is_profiled_again(file: str, ruin: bytes, tmp_path: Path, recorded: Recorded) -> None:
    place = tmp_path / "sweep"
    sweep_of(collection.shipped(), place, ("xor",))
    (place / "points" / "transpose-xor" / "n4096" / file).write_bytes(ruin)
    sweep = sweep_of(collection.shipped(), place, ("xor",), resume=True)
    assert [one.kept for one in sweep.outcomes] == [False]
    assert sweep.outcomes[0].profile == recorded("transpose-xor")
    assert "is profiled again" in sweep.notes[1]
    assert sweep_of(collection.shipped(), place, ("xor",), resume=True).outcomes[0].kept


def test_no_sweep_is_written_over_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = collection.shipped()
    place = tmp_path / "sweep"
    sweep_of(known, place, ("xor",))
    with pytest.raises(NotWritable, match="already holds"):
        sweep_of(known, place, ("plain",))
    sweep_of(known, place, ("plain",), overwrite=True)
    assert [one.name for one in (place / "points").iterdir()] == ["transpose-plain"]
    planned = plan.make(known, ["vectors"], ["4-stride"], {})
    with pytest.raises(BadFile, match="holds a sweep of transpose, not of vectors"):
        running.run(known, planned, RECORDED, place, resume=True)
    for number in ("", "-2"):
        planned = plan.make(known, ["transpose"], ["xor"], {})
        assert running.run(known, planned, RECORDED).folder == Path(f"swizzle-out/sweep-transpose{number}")
    resumed = running.run(known, planned, RECORDED, resume=True)
    assert resumed.folder == Path("swizzle-out/sweep-transpose-2")
    assert resumed.outcomes[0].kept


def test_one_sweep_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    with folder.opened(tmp_path), pytest.raises(NotWritable, match="another sweep is writing"):
        sweep_of(collection.shipped(), tmp_path, ("xor",))
    sweep_of(collection.shipped(), tmp_path, ("xor",))


def test_a_folder_that_cannot_be_written_to_is_said_at_once() -> None:
    with pytest.raises(NotWritable, match="cannot write to /proc/sweep"):
        sweep_of(collection.shipped(), Path("/proc/sweep"), ("xor",))


# ---------------------------------------------------------------------------------------------- the command

without_gpu = pytest.mark.skipif(not gpu.absent(), reason="about machines without a GPU")


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that gives the environment of an ncu which does well, but for one size: as a scenario says."""
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--version*) echo "Version 2025.3.1.0"; exit;; esac\n'
        f'echo "$*" >> {tmp_path}/launches\n'
        'case "$*" in *"seq=$BAD_SEQ"*) FAKE_NCU=$BAD;; *) FAKE_NCU=ok;; esac\n'
        f'export FAKE_NCU; exec {sys.executable} {ROOT / "tests" / "fake_ncu.py"} "$@"\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return lambda bad="ok", seq=0: {
        **os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "PATH": path, "BAD": bad, "BAD_SEQ": str(seq)
    }  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


SWEEP = ("sweep", "kernel1", "kernel2", "--problem", "seq=1024,2048", "--engine", "ncu")


def command(*arguments: str, at: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, folder=at, env=env)


def launches(work: Path) -> int:
    return len((work.parent / "launches").read_text(encoding="utf-8").splitlines())


def states(work: Path) -> list[str]:
    manifest = json.loads((work / "swizzle-out" / "sweep-attention" / "sweep.json").read_text(encoding="utf-8"))
    return [point["state"] for point in manifest["points"]]


def test_a_failing_point_does_not_lose_the_others(work: Path, fake: Callable[..., dict[str, str]]) -> None:
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
    assert (work / "swizzle-out" / "sweep-attention" / "report.html").is_file()
    assert launches(work) == 4

    again = command(*SWEEP, "--resume", "--json", "-", at=work, env=fake())
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert [point["state"] for point in found["points"]] == ["done"] * 4
    assert found["notes"] == ["2 of 4 points were taken over from swizzle-out/sweep-attention."]
    assert launches(work) == 6, "only what had failed was launched again"


def test_an_interrupt_keeps_what_is_done(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ncu_swizzle", *SWEEP],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=work,
        env=fake("hang", 2048),
    )
    deadline = time.monotonic() + 60
    hidden = "points/kernel1/.batch4-heads16-seq2048.*/.ncu-*/kernel1.ncu-rep"
    place = work / "swizzle-out" / "sweep-attention"
    while not list(place.glob(hidden)) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted: 2 of 4 points are kept in swizzle-out/sweep-attention" in said
    assert "-o swizzle-out/sweep-attention --resume" in said
    assert states(work) == ["done", "done", "open", "open"]
    assert (place / "report.html").is_file()
    assert not list(place.rglob(".*"))
    done = command(*SWEEP, "-o", "swizzle-out/sweep-attention", "--resume", at=work, env=fake())
    assert done.returncode == 0, done.stderr
    assert states(work) == ["done"] * 4


def test_an_ncu_that_is_another_one_makes_points_stale(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    assert command(*SWEEP, at=work, env=fake()).returncode == 0
    program = work.parent / "bin" / "ncu"
    program.write_text(program.read_text().replace("2025.3.1.0", "2026.1.0.0"))
    again = command(*SWEEP, "--resume", "--markdown", "-", at=work, env=fake())
    assert again.returncode == 0, again.stderr
    assert "0 of 4 points were taken over" in again.stdout
    assert "is profiled again: not the same ncu" in again.stdout
    assert launches(work) == 8


@without_gpu
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["gemm", "--problem", "n=1000"], 2, "n=1000 is outside the limits"),
        (["gemm", "--problem", "1000"], 2, "is not NAME=SIZE"),
        (["gemm", "--variants", "round"], 2, "has no variant 'round'"),
        (["gemm", "--engine", "ncu"], 3, "ncu) was not found"),
        (["gemm", "--json", "-", "--csv", "-"], 2, "only one format"),
    ],
)
def test_mistakes_are_said_before_anything_runs(arguments: list[str], status: int, said: str, work: Path) -> None:
    done = command("sweep", *arguments, at=work, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(work.iterdir())


@pytest.mark.skipif(bool(Toolchain().lacking()), reason="needs CUDA's compiler")
def test_kernels_of_a_project_are_swept(tmp_path: Path) -> None:
    project = tmp_path / "own"
    shutil.copytree(ROOT / "examples" / "own-kernel", project)
    sizes = ("--problem", "n=64,128", "--engine", "emulated")
    again = ("--resume", "--csv", "-")
    first = command("sweep", "tile", *sizes, "--csv", "-", at=project, env=child_environment())
    assert first.returncode == 0, first.stderr
    rows = list(csv.DictReader(io.StringIO(first.stdout)))
    conflicts = [(row["kernel"], row["n"], row["excessive"] == "0") for row in rows]
    assert conflicts == [
        (f"tile-{way}", n, way == "swizzled") for n in ("64", "128") for way in ("rowmajor", "swizzled")
    ]
    assert command("sweep", "tile", *sizes, *again, at=project, env=child_environment()).stdout == first.stdout
    toml = project / "ncu-swizzle.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace("tolerance = { y = 0 }", "tolerance = { y = 1 }"), "utf-8")
    changed = command("sweep", "tile", *sizes, "--resume", at=project, env=child_environment())
    assert "description" in changed.stdout + changed.stderr, "what was described otherwise is profiled again"
