"""``ncu-swizzle lint``, but for what its command lines say: tests/data/sessions/gate/lint.txt."""

import json
import shutil
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.emulate import run
from ncu_swizzle.emulate.contents import GlobalAccesses
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.linting import LintOptions
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.places import ROOT


def test_without_a_compiler_nothing_is_judged(sources: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nothing can be compiled here"):
        list(linting.lint_kernels(LintOptions(files=("own.cu",)), EmulationSettings(Toolchain(sources / "nowhere"))))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max-degree is 0\.5"):
        LintOptions.typed((), KernelDescription(), max_degree=("0.5",))
    with pytest.raises(UsageError, match="unknown access kind 'LDX'"):
        LintOptions.typed((), KernelDescription(), max_degree=("LDX=2",))


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_no_note_is_lost_for_the_words_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch is said, whatever the kernel is called and whatever the reason says."""
    launch = description(grid="1", block="32", args=("y=float32[32]:out",))
    options = LintOptions(files=("known.cu",), description=launch)
    for why in ("the block at (0, 0, 0) ended", "a branch on an unknown value"):
        monkeypatch.setattr(run, "global_accesses", lambda *_, why=why: GlobalAccesses(lacking=why))
        (kernel,) = linting.lint_kernels(options, EmulationSettings(cached=False))
        assert f"sum_unknown: the bounds of global accesses were not checked: {why}." in kernel.notes


@pytest.mark.long
@NEEDS_ALL
@needs_fleet
def test_workers_find_what_one_process_finds(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "own-kernel", tmp_path / "own")
    own = tmp_path / "own"
    (own / "broken.cu").write_text("__global__ void broken(float* y) { y[0] = nothing; }")
    (own / "lone.cu").write_text("__global__ void lone(float* y) { y[0] = 1; }")
    words = ("lint", "my.cu", "lone.cu", "transpose-plain", "transpose-xor", "--json")
    alone = process.command(*words, "alone.json", folder=own)
    assert alone.returncode == 1, alone.stderr
    two = process.command(*words, "two.json", "--workers", "2", folder=own)
    assert (two.returncode, two.stdout, two.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    found, expected = (json.loads((own / f"{name}.json").read_text(encoding="utf-8")) for name in ("two", "alone"))
    assert found == expected
    assert len(found["checks"]) >= 3
