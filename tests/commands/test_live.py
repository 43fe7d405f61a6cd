"""Functions with tensors, as `ncu_swizzle.profile` takes them; the notebook; programs and companions."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ncu_swizzle
from ncu_swizzle.base.errors import ProgramFailed, UsageError
from ncu_swizzle.commands import api, run_kernel
from ncu_swizzle.commands.run_program import program_name
from ncu_swizzle.engines import profiles
from ncu_swizzle.engines.settings import Context, Engine, Request
from ncu_swizzle.gate.verdict import Outcome
from ncu_swizzle.kernels.naming import TargetOrFile
from ncu_swizzle.kernels.options import KernelDescription, LaunchOptions
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import pairing
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Companions, Destination
from tests.support import captures, python_kernels
from tests.support.marks import NEEDS_ALL
from tests.support.places import PROGRAMS, ROOT
from tests.support.process import Done, Typed
from tests.support.repositories import TURN

KEYWORDS = tuple(inspect.signature(api.profile).parameters)


def kernel(x: Any, y: Any, n: int, BLOCK: int = 1) -> None:  # noqa: N803 - as in Triton
    """Stands for a function of a language."""


class Decorated:
    """What a decorator makes of a function."""

    def __init__(self, function: Any) -> None:
        self.fn = function


def making() -> Decorated:
    """Return a function that another one makes, decorated."""

    def made(x: Any) -> None:
        """Stands for a kernel of some width."""

    return Decorated(made)


bound = making()
renamed = Decorated(kernel)


class Turned:
    """A tensor whose rows are not one after the other: the view of another one."""

    shape, dtype = (4, 3), "torch.float32"

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        return (1, 8)


def described(folder: Path, args: Any, outputs: str = "", grid: Any = 1, **keywords: Any) -> KernelDescription:
    keywords |= {"args": args, "grid": grid}
    called = api.live_kernel(Decorated(kernel), outputs, keywords, KEYWORDS)
    assert called is not None
    return called.description(KernelDescription(launch=LaunchOptions(grid=keywords["grid"])), folder)


def test_arguments_go_by_position_or_by_name_and_the_rest_to_the_compiler(tmp_path: Path) -> None:
    given = described(tmp_path, ["float32[64]", "float32[64]:out", 64], BLOCK=32, num_warps=8)
    assert given.launch.args == ("x=float32[64]", "y=float32[64]:out", "n=64", "BLOCK=32")
    assert given.tuning == ("num_warps=8",)
    named = described(tmp_path, {"n": 64, "x": "float32[64]"}, y="float32[64]", outputs="y")
    assert named.launch.args == ("n=64", "x=float32[64]", "y=float32[64]:out")


def test_a_grid_may_be_a_function_of_the_arguments(tmp_path: Path) -> None:
    given = described(tmp_path, {"n": 64}, BLOCK=32, num_warps=4, grid=lambda meta: (meta["n"] // meta["BLOCK"], 2))
    assert given.launch.grid == "2,2"
    assert described(tmp_path, {}, grid="n//2,1").launch.grid == "n//2,1"
    assert described(tmp_path, {}, grid=7).launch.grid == "7"


def test_contents_of_arrays_are_kept_except_for_outputs(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    given = described(tmp_path, {"x": x, "y": x}, outputs="y")
    assert given.launch.args == (f"x=int32[2,3]:{tmp_path / 'x.npy'}", "y=int32[2,3]:out")
    assert np.array_equal(np.load(tmp_path / "x.npy"), x)


def test_a_view_is_as_long_as_its_memory(tmp_path: Path) -> None:
    assert described(tmp_path, {"y": Turned()}, outputs="y").launch.args == ("y=float32[20]:out",)


def test_a_function_is_named_as_its_file_calls_it() -> None:
    assert api.entry_of(bound) == f"{__file__}::bound"
    assert api.entry_of(renamed) == f"{__file__}::renamed"


def test_what_cannot_be_named_is_refused() -> None:
    assert api.entry_of(Decorated(kernel)) == f"{__file__}::kernel"
    with pytest.raises(UsageError, match="defined inside of another function"):
        api.entry_of(lambda x: x)
    with pytest.raises(UsageError, match="defined inside of another function"):
        api.entry_of(making())
    with pytest.raises(UsageError, match="a text of several lines") as refused:
        api.live_kernel("__global__ void f() {\n}", "", {}, KEYWORDS)
    assert "write CUDA C++ to a .cu file" in refused.value.hint
    made: dict[str, Any] = {}
    exec("def typed(): pass", made)
    with pytest.raises(UsageError, match="typed is in no file") as refused:
        api.entry_of(made["typed"])
    assert "%%writefile" in refused.value.hint
    with pytest.raises(UsageError, match="int is neither a kernel's name nor a function"):
        api.entry_of(7)
    with pytest.raises(UsageError, match="kernel takes 4 arguments, "):
        api.live_kernel(kernel, "", {"args": [1, 2, 3, 4, 5]}, KEYWORDS)


NOTEBOOK = ROOT / "examples" / "notebook" / "conflicts.ipynb"


@NEEDS_ALL
@pytest.mark.slow
def test_the_example_runs_and_every_result_shows_itself(tmp_path: Path) -> None:
    for module in ("nbconvert", "ipykernel"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'ncu-swizzle[docs]'")
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(NOTEBOOK)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / "ipython")},
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / NOTEBOOK.name).read_text("utf-8"))["cells"]
    shown = ["".join(output["data"].get("text/html", "")) for cell in cells for output in cell.get("outputs", ())
             if "data" in output]  # fmt: skip
    assert len(shown) == 4
    for said, html in zip(("transpose-xor", "LDS", "data:image/svg+xml", "9 of 9 points"), shown, strict=True):
        assert said in html
    printed = "".join("".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ()))
    assert "Swizzle" in printed
    assert "fail transpose-plain, LDS: degree 32" in printed


@pytest.mark.long
@NEEDS_ALL
def test_lint_as_a_function(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(TURN)
    launch = {"grid": 1, "block": (32, 32), "args": ["x=float32[1024]:random", "y=float32[1024]:out"]}
    verdict = ncu_swizzle.lint(tmp_path / "turn.cu", **launch)
    assert verdict.outcome is Outcome.failed
    assert [check.access for check in verdict.checks] == ["STS"]
    assert ncu_swizzle.lint(tmp_path / "turn.cu", max_degree=32, **launch).outcome is Outcome.passed


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


ASKED = Request(engine="recorded")


@pytest.mark.long
def test_a_reference_that_fails_unasked_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = profiles.profiles_of

    def failing(entry: TargetOrFile, engine: Engine, context: Context) -> Sequence[Profile]:
        if entry.name == "reference-attention":
            raise ProgramFailed("out of memory")
        return real(entry, engine, context)

    monkeypatch.setattr(profiles, "profiles_of", failing)
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
