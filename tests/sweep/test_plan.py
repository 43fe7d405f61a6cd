"""What is swept, and which files travel to workers."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadProblem, UnknownKernel, UsageError
from ncu_swizzle.kernels import catalog, naming
from ncu_swizzle.sweep import plan, worker
from tests.support.places import ROOT


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
    family, _ = naming.everything(start=project).named("tile-swizzled")
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
