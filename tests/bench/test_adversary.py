"""The adversary of fix: its CPU shim tells right versions of a kernel from wrong ones."""

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import text

needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

TILED, UNTILED = text("bench/tiled.cu"), text("bench/untiled.cu")
VERSIONS = {
    "swizzled": TILED.replace("at<32>(tile, r, tx)", "at<32>(tile, r, tx ^ r)").replace(
        "at<32>(tile, tx, r)", "at<32>(tile, tx, r ^ tx)"
    ),
    "untiled": UNTILED,  # the same without shared memory and barriers: what the other one must come to
    "helper": TILED.replace("r * W + c", "r * W + (c ^ r)"),  # also of g, which the described launch does not read
    "barrier": TILED.replace("    __syncthreads();\n", ""),
    "beyond": TILED.replace("y[b * 1024", "y[8000 + b * 1024"),
    "crash": TILED.replace("y[b * 1024", "y[1000000000 + b * 1024"),
}


@pytest.mark.long
@needs_gxx
def test_the_shim_tells_right_versions_from_wrong_ones(adversary: Any, tmp_path: Path) -> None:
    launch = importlib.import_module("adversary_kernels").Launch
    program = adversary.Program(
        name="known", text=TILED, element="int", dynamic=0, described=launch(), features=frozenset(),
        others=(launch(blocks=2), launch(flag=1, other="RANDOM")),
    )  # fmt: skip
    pairs = [adversary.Pair(name=name, program=program, after=text) for name, text in VERSIONS.items()]
    found = adversary.verdicts(pairs, tmp_path)
    words = {name: (verdict.word, verdict.described) for name, verdict in found.items()}
    assert words == {
        "swizzled": ("same", False), "untiled": ("same", False), "helper": ("differ", False),
        "barrier": ("differ", True), "beyond": ("differ", True), "crash": ("crashed", True),
    }  # fmt: skip
    assert found["helper"].launch == program.others[1]
