"""What programs of bench/ say: the documentation's tables, verdicts of the adversary."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.places import ROOT, text

Bench = Callable[[str], ModuleType]


@pytest.mark.long
def test_the_bottlenecks_are_those_of_the_recordings(recorded: Callable[[str], Profile], bench: Bench) -> None:
    bottlenecks = bench("figures.bottlenecks")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    shown = re.search(r"written by bench/figures/bottlenecks.py -->\n(.*?)<!-- end of bottlenecks -->", page, re.DOTALL)
    assert shown
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in shown[1].splitlines()[2:]}
    assert list(lines) == [kernel.name for _, kernel in catalog.shipped().run()]
    for name in ("kernel1", "kernel2", "gemm-pipelined", "transpose-plain", "tma-128"):  # reading all takes long
        assert lines[name] == bottlenecks.line(recorded(name)), "python3 bench/figures/bottlenecks.py --write"


def test_every_extra_has_a_size(bench: Bench) -> None:
    extras = bench("figures.extras")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^\| `?([\w-]+)`? \| ([\d,]+) MB \|$", page, re.MULTILINE))
    assert sizes.keys() == {"none", *extras.extras()} - {*extras.LEFT_OUT}, "python3 bench/figures/extras.py --write"
    assert re.findall(r"^\| .* \| `([\w-]+)` \| .* \|$", page, re.MULTILINE) == extras.extras()


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
def test_the_shim_tells_right_versions_from_wrong_ones(bench: Bench, tmp_path: Path) -> None:
    adversary: Any = bench("attacks.adversary")
    launch = bench("attacks.adversary_kernels").Launch
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
