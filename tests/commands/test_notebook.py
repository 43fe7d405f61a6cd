"""The example notebook, executed by Jupyter; what shows itself in a cell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ncu_swizzle
from ncu_swizzle.gate.verdict import Outcome
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT
from tests.support.repositories import TURN

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


def test_bank_maps_are_drawn_in_a_cell() -> None:
    maps = ncu_swizzle.banks("(8,8):(1,8)", swizzle="3,2,3", access="column")
    assert len(maps) == 2
    assert maps[0].access is not None
    html = maps._repr_html_()
    assert html.count("<img") == 2
    assert "flex-wrap:wrap" in html
    assert maps.svg().count("<svg") >= 1


@pytest.mark.long
@NEEDS_ALL
def test_a_sweep_is_a_table_in_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    swept = ncu_swizzle.profile_sweep("transpose-plain", "transpose-xor", problem={"n": [64, 128]}, engine="emulated")
    html = swept._repr_html_()
    assert html.count("<tr>") == 5
    assert "<script" not in html
    assert list(swept.to_frame()["excessive"][:2]) == [3968, 0]
    assert swept.html().startswith("<!DOCTYPE html>")
    assert swept.folder is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@NEEDS_ALL
def test_lint_as_a_function(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(TURN)
    launch = {"grid": 1, "block": (32, 32), "args": ["x=float32[1024]:random", "y=float32[1024]:out"]}
    verdict = ncu_swizzle.lint(tmp_path / "turn.cu", **launch)
    assert verdict.outcome is Outcome.failed
    assert [check.access for check in verdict.checks] == ["STS"]
    assert ncu_swizzle.lint(tmp_path / "turn.cu", max_degree=32, **launch).outcome is Outcome.passed
