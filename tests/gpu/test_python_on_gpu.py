"""Functions in Python with live tensors on a real GPU: measured, their outputs checked against a function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ncu_swizzle
from ncu_swizzle.answers import Profile
from ncu_swizzle.errors import WrongOutput
from tests.support.process import started as command
from tests.support.python_recordings import EXAMPLES

PROGRAM = """import torch
from rows import softmax

x = torch.randn(512, 1000, device="cuda")
y = torch.empty_like(x)
softmax[(512,)](x, y, 1000, BLOCK=1024)
torch.cuda.synchronize()
"""


def test_a_function_with_live_tensors_is_measured_and_checked(
    ncu_profile: Callable[..., Profile], tiles: Any, launch: dict[str, Any]
) -> None:
    profile = ncu_profile(tiles.transpose, reference=lambda x: x.T, **launch)
    assert profile.engine == "ncu"
    assert profile.errors == {"y": 0}
    assert profile.machine.gpu
    ncu_swizzle.assert_no_excess(profile)


def test_an_output_that_differs_from_the_function_is_refused(
    ncu_profile: Callable[..., Profile], tiles: Any, launch: dict[str, Any]
) -> None:
    with pytest.raises(WrongOutput, match=r"y differs from the reference: relative error .* \(allowed: "):
        ncu_profile(tiles.transpose, reference=lambda x: x, **launch)


def test_lines_of_a_program_in_triton_are_those_that_call_its_library(tmp_path: Path, monkeypatch: Any) -> None:
    for package in ("torch", "triton"):
        pytest.importorskip(package)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES), prepend=":")
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = command("profile", "-k", "softmax", "--export", "run", "--", sys.executable, str(program))
    assert done.returncode == 0, done.stderr
    assert "rows.py:" in done.stdout
    assert "standard.py:" not in done.stdout
