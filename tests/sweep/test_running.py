"""What a sweep plans, sends to workers, keeps, reuses and shows; with recorded figures, and an ncu that fails."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, BadProblem, NotWritable, UnknownKernel, UsageError
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels import catalog, naming
from ncu_swizzle.kernels.catalog import Catalog
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import Destination
from ncu_swizzle.sweep import plan, running, worker
from ncu_swizzle.sweep.plan import PointValues, Sweep
from tests.support.places import ROOT
from tests.support.recordings import Recorded

RECORDED = Request(engine="recorded")


def sweep_of(known: Catalog, place: Path, variants: Sequence[str] = ("plain", "xor"), **how: Any) -> Sweep:
    planned = plan.make_plan(*known.family_or_kernels(["transpose"]), variants, {})
    overwrite = how.pop("overwrite", False)
    return running.run(planned, RECORDED, Destination(place, overwrite), **how)


def test_a_sweep_keeps_every_point(tmp_path: Path, recorded: Recorded) -> None:
    place = tmp_path / "sweep"
    sweep = sweep_of(catalog.shipped(), place)
    assert [one.values for one in sweep.outcomes] == [
        PointValues.of(recorded(one.point.kernel), one.where) for one in sweep.outcomes
    ]
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
    known = catalog.shipped()
    sweep_of(known, place, ("plain",))
    stamp = (place / "points" / "transpose-plain" / "n4096" / "profile.json").stat().st_mtime_ns
    sweep = sweep_of(known, place, resume=True)
    kept = [(each.point.kernel, each.kept) for each in sweep.outcomes]
    assert kept == [("transpose-plain", True), ("transpose-xor", False)]
    assert sweep.notes == (f"1 of 2 points were reused from {place}.",)
    assert (place / "points" / "transpose-plain" / "n4096" / "profile.json").stat().st_mtime_ns == stamp


def test_what_is_stale_is_profiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    monkeypatch.setattr(paths, "kernels", lambda: kernels)  # recordings are of the shipped families alone
    place = tmp_path / "sweep"
    sweep_of(catalog.load(kernels), place)
    header = kernels / "transpose" / "transpose.cuh"
    header.write_text(header.read_text(encoding="utf-8") + "// edited\n", encoding="utf-8")
    sweep = sweep_of(catalog.load(kernels), place, resume=True)
    assert not any(one.kept for one in sweep.outcomes)
    assert sweep.notes[0].startswith("0 of 2 points were reused")
    assert sweep.notes[1] == "transpose-plain n=4096 is profiled again because of changes to sources."
    options = replace(RECORDED, options=replace(RECORDED.options, clock_control="base"))
    planned = plan.make_plan(*catalog.load(kernels).family_or_kernels(["transpose"]), ["plain"], {})
    again = running.run(planned, options, Destination(place), resume=True)
    assert again.notes[1].endswith("is profiled again because of changes to options.")


def test_a_ruined_point_is_profiled_again(tmp_path: Path, recorded: Recorded) -> None:
    place, known = tmp_path / "sweep", catalog.shipped()
    sweep_of(known, place, ("xor",))
    point = place / "points" / "transpose-xor" / "n4096"
    for file, ruin in (
        ("profile.json", b""),
        ("profile.json", b'{"schema": 1}'),
        ("profile.json", b"[" * 100_000),
        ("point.json", b"{}"),
        ("point.json", b"[1]"),
        ("point.json", b"\xff\xfe"),
    ):
        (point / file).write_bytes(ruin)
        sweep = sweep_of(known, place, ("xor",), resume=True)
        assert [one.kept for one in sweep.outcomes] == [False], (file, ruin[:20])
        assert run_folder.load_profile(point / "profile.json") == recorded("transpose-xor")
        assert "is profiled again" in sweep.notes[1]
    assert sweep_of(known, place, ("xor",), resume=True).outcomes[0].kept


def test_no_sweep_is_written_over_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = catalog.shipped()
    place = tmp_path / "sweep"
    sweep_of(known, place, ("xor",))
    with pytest.raises(NotWritable, match="already holds"):
        sweep_of(known, place, ("plain",))
    sweep_of(known, place, ("plain",), overwrite=True)
    assert [one.name for one in (place / "points").iterdir()] == ["transpose-plain"]
    planned = plan.make_plan(*known.family_or_kernels(["vectors"]), ["4-stride"], {})
    with pytest.raises(BadFile, match="holds a sweep of transpose, not of vectors"):
        running.run(planned, RECORDED, Destination(place), resume=True)
    for number in ("", "-2"):
        planned = plan.make_plan(*known.family_or_kernels(["transpose"]), ["xor"], {})
        assert running.run(planned, RECORDED).folder == Path(f"swizzle-out/sweep-transpose{number}")
    resumed = running.run(planned, RECORDED, resume=True)
    assert resumed.folder == Path("swizzle-out/sweep-transpose-2")
    assert resumed.outcomes[0].kept
    again = running.run(planned, RECORDED, Destination(None, force_overwrite=True))
    assert again.folder == resumed.folder
    assert not again.outcomes[0].kept


def test_the_same_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    known, place = catalog.shipped(), tmp_path / "sweep"
    sweep_of(known, place)
    content = json.loads((place / "sweep.json").read_text(encoding="utf-8"))
    content["points"][1]["state"] = "open"
    (place / "sweep.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(NotWritable, match="already holds"):
        sweep_of(known, place, ("xor",))
    assert [one.kept for one in sweep_of(known, place).outcomes] == [True, True]
    with pytest.raises(NotWritable, match="already holds"):
        sweep_of(known, place)


def test_one_sweep_at_a_time_writes_to_a_folder_that_can_be_written_to(tmp_path: Path) -> None:
    with run_folder.held(tmp_path), pytest.raises(NotWritable, match="another command is writing"):
        sweep_of(catalog.shipped(), tmp_path, ("xor",))
    sweep_of(catalog.shipped(), tmp_path, ("xor",))
    with pytest.raises(NotWritable, match="cannot write to /proc/sweep"):
        sweep_of(catalog.shipped(), Path("/proc/sweep"), ("xor",))


def test_sizes_are_lists_by_name() -> None:
    table: list[tuple[list[str], dict[str, list[int]]]] = [
        (["n=1024,2048,4096"], {"n": [1024, 2048, 4096]}),
        (["n=1024", "n=2048", "m=1"], {"n": [1024, 2048], "m": [1]}),
        (["batch=1,2,seq=64, 128"], {"batch": [1, 2], "seq": [64, 128]}),
        ([], {}),
    ]
    for texts, sizes in table:
        assert plan.sizes(texts) == sizes
    for text in ("1024", "n", "n=", "=3", "n=1,x", "n=-1", "n=1.5"):
        with pytest.raises(UsageError, match="is neither NAME=SIZE nor a further size"):
            plan.sizes(["m=1", text])


def test_a_family_stands_for_its_own_variants() -> None:
    known = catalog.shipped()
    gemm = plan.make_plan(*known.family_or_kernels(["gemm"]), [], {"n": [512, 1024, 512]})
    assert [kernel.name for kernel in gemm.kernels] == [k.name for f, k in known if f.name == "gemm" and not k.library]
    assert [point.sizes["n"] for point in gemm.points] == [512] * 6 + [1024] * 6
    assert plan.make_plan(*known.family_or_kernels(["gemm"]), ["all"], {}).kernels == gemm.kernels
    named = plan.make_plan(*known.family_or_kernels(["gemm"]), ["swizzled", "gemm-plain", "reference-gemm"], {})
    assert [kernel.name for kernel in named.kernels] == ["gemm-swizzled", "gemm-plain", "reference-gemm"]
    both = plan.make_plan(
        *known.family_or_kernels(["kernel1", "kernel2", "kernel1"]), [], {"seq": [64, 128, 192], "heads": [1, 2]}
    )
    assert both.varied == ("seq", "heads"), "the one with most sizes is the axis"
    assert len(both.points) == 12
    assert len({point.folder for point in both.points}) == 12


UNSWEPT: list[tuple[list[str], list[str], dict[str, Sequence[int]], type[Exception], str]] = [
    (["gemn"], [], {}, UnknownKernel, "gemn"),
    (["gemm"], ["round"], {}, UsageError, "the family gemm has no variant 'round'"),
    (["kernel1", "gemm-plain"], [], {}, UsageError, "gemm-plain does not belong to the family attention"),
    (["kernel1"], ["kernel2"], {}, UsageError, "--variants selects from one family"),
    (["gemm"], [], {"n": [1024, 1000]}, BadProblem, "n=1000 is not supported: it must be a multiple of 256"),
    (["gemm"], [], {"k": [1]}, BadProblem, "has no parameter 'k'"),
    (["transpose"], [], {"n": range(1, 5000)}, UsageError, "that would be 24,995 points"),
]


def test_what_cannot_be_swept_is_said_before_anything_runs() -> None:
    known = catalog.shipped()
    for names, variants, sizes, error, said in UNSWEPT:
        with pytest.raises(error, match=re.escape(said)):
            plan.make_plan(*known.family_or_kernels(names), variants, sizes)


def test_a_variant_is_held_against_the_first_of_its_baselines_that_is_swept() -> None:
    known = catalog.shipped()
    gemm = plan.make_plan(
        *known.family_or_kernels(["gemm"]), ["plain", "swizzled", "wide", "reference-gemm"], {}
    ).baselines()
    # gemm-wide names gemm-pipelined, which is not swept
    assert gemm == {
        "gemm-plain": "gemm-plain",
        "gemm-swizzled": "gemm-plain",
        "gemm-wide": "gemm-wide",
        "reference-gemm": "gemm-plain",
    }
    assert plan.make_plan(*known.family_or_kernels(["gemm"]), [], {}).baselines()["gemm-wide"] == "gemm-plain"
    vectors = plan.make_plan(*known.family_or_kernels(["vectors"]), [], {}).baselines()
    assert (vectors["vectors-4-swizzle"], vectors["vectors-8-swizzle"]) == ("vectors-4-stride", "vectors-8-stride")


def test_only_what_kernels_read_travels(tmp_path: Path) -> None:
    project = tmp_path / "own"
    shutil.copytree(ROOT / "examples" / "own-kernel", project)
    (project / "secret.txt").write_text("private")
    (project / "tile.cuh").write_text("// included\n")
    source = project / "my.cu"
    source.write_text('#include "tile.cuh"\n' + source.read_text(encoding="utf-8"), encoding="utf-8")
    family, _ = naming.catalogue(start=project).named("tile-swizzled")
    files = worker.files_of(family)
    assert sorted(file.name for file in files) == ["my.cu", "reference.py", "tile.cuh"]
    wanted = worker.digests(files)
    assert worker.lacking(wanted) == {}
    contents = {str(file): file.read_bytes() for file in files}
    shutil.rmtree(project)
    assert worker.lacking(wanted) == wanted
    worker.unpack(contents, tmp_path / "there")
    moved = worker.moved_family(family, str(tmp_path / "there"))
    assert [file.name for file in worker.files_of(moved)] == [file.name for file in files]
    assert all((tmp_path / "there") in file.parents for file in worker.files_of(moved))
    assert moved.source_texts().keys() == {"my.cu", "tile.cuh"}


def test_shipped_kernels_do_not_travel() -> None:
    assert worker.files_of(catalog.shipped().named("kernel1")[0]) == ()


def test_a_file_that_differs_is_lacking(tmp_path: Path) -> None:
    file = tmp_path / "x.cu"
    file.write_text("one")
    wanted = worker.digests([file])
    file.write_text("two")
    assert worker.lacking(wanted) == wanted


def test_points_are_counted_before_they_are_made() -> None:
    known = catalog.shipped().family_or_kernels(["attention"])
    sizes = {name: list(range(1, 1001)) for name in ("batch", "heads", "seq")}
    with pytest.raises(BadProblem):  # the first one is not a multiple
        plan.make_plan(*known, (), sizes)
    sizes["seq"] = [64 * size for size in sizes["seq"]]
    with pytest.raises(UsageError, match=r"\d,000,000,000 points; the maximum is 20,000"):
        plan.make_plan(*known, (), sizes)
    with pytest.raises(BadProblem, match="rows"):
        plan.make_plan(*known, (), {**sizes, "rows": [1]})
