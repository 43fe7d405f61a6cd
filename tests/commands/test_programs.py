"""Programs and their launches, and profiles with companions, but for what tests/data/sessions/commands tells."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_program import program_name
from ncu_swizzle.engines import profiles
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import pairing
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Companions, Destination
from tests.support import captures, python_kernels
from tests.support.marks import NEEDS_ALL
from tests.support.places import PROGRAMS
from tests.support.process import Done, Typed


@pytest.mark.long
@NEEDS_ALL
def test_a_pull_request_that_brings_a_conflict_back_fails(typed: Typed, work: Path) -> None:
    shutil.copy(captures.recorded("driver"), work)
    text = (PROGRAMS / "driver.cu").read_text(encoding="utf-8")

    def judged(old: str, new: str, job: str = "check") -> Done:
        (work / "driver.cu").write_text(text.replace(old, new), encoding="utf-8")
        unit = f'#include "{work / "driver.cu"}"\n'
        (work / "new.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
        return typed(f"{job} driver.launches --cubin new.cubin")

    good = judged("threadIdx.x * strides.row", "threadIdx.x * 33")
    assert good.returncode == 0, good.stdout + good.stderr
    bad = judged("threadIdx.x * strides.row", "threadIdx.x * 32")
    assert bad.returncode == 1
    assert "(driver.cu:27)" in bad.stdout
    other = judged("char odd,", "int odd,")
    assert other.returncode == 2
    assert "the parameters of columns changed" in other.stderr
    assert "the parameters of columns changed" in judged("char odd,", "int odd,", job="lint").stderr


@pytest.mark.long
def test_a_program_in_triton_is_shown_again_without_its_cache(app: Path, typed: Typed, fake: dict[str, str]) -> None:
    (app / "triton.ncu-rep").write_bytes(python_kernels.report())
    cache = python_kernels.fill(app / "cache")
    triton = {**fake, "FAKE_NCU_REPORT": "triton.ncu-rep", "TRITON_CACHE_DIR": "cache"}
    done = typed("profile --engine ncu -- ./app", **triton)
    assert done.returncode == 0, done.stderr
    cache.rename(app / "gone")
    again = typed("report swizzle-out/app/report.ncu-rep --launch 0 -o page.html --json -")
    (profile,) = json.loads(again.stdout)["profiles"]
    assert profile["instructions"]["stacks"]
    stacks = {tuple(map(tuple, stack)) for stack in profile["instructions"]["stacks"]}
    assert ((python_kernels.HELPERS, 17), (python_kernels.SOURCE, 14)) in stacks
    assert "source lines end" not in again.stdout


def test_a_program_is_called_after_what_it_runs() -> None:
    names = {
        "./app --size 4096": "app",
        "python train.py --steps 3": "train",
        "/usr/bin/python3.12 -u -X dev -m pkg.module": "pkg.module",
        "python3 -c print()": "python3",
        "pythonic x.py": "pythonic",
        "": "program",
    }
    assert {line: program_name(line.split()) for line in names} == names


@pytest.mark.long
@given(st.text())
def test_any_text_has_a_name_that_can_be_printed(text: str) -> None:
    (column,) = pairing.columns([text])
    assert all(letter.isprintable() for letter in column) or column == text
    assert program_name([text])


# ------------------------------------------------------------------------------------------------- as a function


ASKED = Request(engine="recorded")


@pytest.mark.long
def test_a_reference_that_fails_unasked_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = profiles.profiles_of

    def failing(entry: TargetOrFile, context: Context) -> Sequence[Profile]:
        if entry.name == "reference-attention":
            raise ProgramFailed("out of memory")
        return real(entry, context)

    monkeypatch.setattr(run_kernel, "profiles_of", failing)
    result = run_kernel.profile(
        run_kernel.lineup_of("kernel2", KernelDescription()), ASKED, destination=Destination(tmp_path / "out")
    )
    assert result.comparison.labels == ("kernel1", "kernel2")
    assert result.comparison.warnings == ("Without reference-attention: out of memory.",)
    with pytest.raises(ProgramFailed):
        run_kernel.profile(
            run_kernel.lineup_of("kernel2", KernelDescription(), Companions(reference="reference-attention")),
            ASKED,
            Destination(tmp_path / "2"),
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.long
def test_a_reference_has_no_reference_of_its_own(tmp_path: Path) -> None:
    result = run_kernel.profile(
        run_kernel.lineup_of("reference-attention", KernelDescription()),
        ASKED,
        destination=Destination(tmp_path / "out"),
    )
    assert result.comparison.labels == ("reference-attention",)
