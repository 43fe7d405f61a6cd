"""The tables that the documentation shows are what the commands print."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.places import ROOT

Bench = Callable[[str], ModuleType]


@pytest.mark.long
def test_the_bottlenecks_are_those_of_the_recordings(recorded: Callable[[str], Profile], bench: Bench) -> None:
    bottlenecks = bench("bottlenecks")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    shown = re.search(r"written by bench/bottlenecks.py -->\n(.*?)<!-- end of bottlenecks -->", page, re.DOTALL)
    assert shown
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in shown[1].splitlines()[2:]}
    assert list(lines) == [kernel.name for _, kernel in catalog.shipped().run()]
    for name in ("kernel1", "kernel2", "gemm-pipelined", "transpose-plain", "tma-128"):  # reading all takes long
        assert lines[name] == bottlenecks.line(recorded(name)), "python3 bench/bottlenecks.py --write"


@pytest.mark.slow
def test_the_estimates_outside_the_catalogue_are_those_of_the_reports(bench: Bench) -> None:
    rules = bench("rules")
    pairs = list(rules.outside())
    assert len(pairs) >= 4
    assert [pair for pair in pairs if not pair.holds] == []
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert rules.table_outside(pairs) in page, "python3 bench/rules.py --write"


def test_every_table_has_both_its_markers() -> None:
    for name in ("docs/install", "docs/measured", "docs/rules", "docs/security", "docs/performance", "docs/fleet"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        started = re.findall(r"<!-- (\w+): written by", text)
        assert started, name
        assert started == re.findall(r"<!-- end of (\w+) -->", text)


def test_every_extra_has_a_size(bench: Bench) -> None:
    extras = bench("extras")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^\| `?([\w-]+)`? \| ([\d,]+) MB \|$", page, re.MULTILINE))
    assert sizes.keys() == {"none", *extras.extras()} - {*extras.LEFT_OUT}, "python3 bench/extras.py --write"
    assert re.findall(r"^\| .* \| `([\w-]+)` \| .* \|$", page, re.MULTILINE) == extras.extras()


def test_what_an_extra_adds_is_what_lies_there(tmp_path: Path, bench: Bench) -> None:
    extras = bench("extras")
    packages = extras.environment(tmp_path / "empty", tmp_path)
    (packages / "library").mkdir()
    (packages / "library" / "code.so").write_bytes(bytes(3_000_000))
    assert extras.megabytes(extras.size(packages)) == "3 MB"
