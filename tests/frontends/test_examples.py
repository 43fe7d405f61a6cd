"""examples/python: its tests as its readers run them, and every launch that its project file describes."""

import subprocess
import sys

import pytest

from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.python_kernels import EXAMPLES, NEEDS_TRITON, recorded

PROJECT = str(EXAMPLES / "ncu-swizzle.toml")


@pytest.mark.long
@NEEDS_TRITON
def test_the_examples_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-c", "/dev/null", str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout or "skipped" in done.stdout


def test_every_kernel_that_is_described_was_recorded() -> None:
    described = {
        kernel.name for family, kernel in naming.everything(CatalogOptions(PROJECT, trust=True)) if not family.shipped
    }
    by_nvrtc = {"cuda-turn", "cuda-turn-padded", "cuda-reduce"}  # CUDA C++, which has no front end
    assert described | by_nvrtc == recorded()[0]["kernels"].keys()


def test_a_project_file_alone_executes_nothing() -> None:
    own = [family for family in naming.everything(CatalogOptions(PROJECT)).families if not family.shipped]
    assert own
    assert all(family.untrusted for family in own)
