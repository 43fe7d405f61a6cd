"""The tables that the documentation shows are what the commands print, where that needs no GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT


@pytest.mark.long
def test_the_bottlenecks_are_those_of_the_recordings(
    recorded: Callable[[str], Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    bottlenecks = importlib.import_module("bottlenecks")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    shown = re.search(r"written by bench/bottlenecks.py -->\n(.*?)<!-- end of bottlenecks -->", page, re.DOTALL)
    assert shown
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in shown[1].splitlines()[2:]}
    assert list(lines) == [kernel.name for _, kernel in catalog.shipped()]
    for name in ("kernel1", "kernel2", "gemm-pipelined", "transpose-plain", "tma-128"):  # reading all takes long
        assert lines[name] == bottlenecks.line(recorded(name)), "python3 bench/bottlenecks.py --write"


@pytest.mark.long
def test_the_estimates_outside_the_catalogue_are_those_of_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    rules = importlib.import_module("rules")
    pairs = list(rules.outside())
    assert len(pairs) >= 4
    assert [pair for pair in pairs if not pair.holds] == []
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert rules.table_outside(pairs) in page, "python3 bench/rules.py --write"


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "docs/install.md",
        "docs/measured.md",
        "docs/rules.md",
        "docs/security.md",
        "docs/performance.md",
        "docs/fleet.md",
    ],
)
def test_every_table_has_both_its_markers(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    started = re.findall(r"<!-- (\w+): written by", text)
    assert started
    assert started == re.findall(r"<!-- end of (\w+) -->", text)


def test_every_extra_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    extras = importlib.import_module("extras")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^\| `?([\w-]+)`? \| ([\d,]+) MB \|$", page, re.MULTILINE))
    assert sizes.keys() == {"none", *extras.extras()} - {*extras.LEFT_OUT}, "python3 bench/extras.py --write"
    assert re.findall(r"^\| .* \| `([\w-]+)` \| .* \|$", page, re.MULTILINE) == extras.extras()


def test_what_an_extra_adds_is_what_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    extras = importlib.import_module("extras")
    packages = extras.environment(tmp_path / "empty", tmp_path)
    (packages / "library").mkdir()
    (packages / "library" / "code.so").write_bytes(bytes(3_000_000))
    assert extras.megabytes(extras.size(packages)) == "3 MB"


@pytest.mark.slow
@NEEDS_ALL
def test_the_triton_case_is_free_of_excess_with_k_contiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="needs triton")
    monkeypatch.syspath_prepend(ROOT / "bench")
    cases = importlib.import_module("cases")
    (row, turned, half) = cases.lines(list(cases.products("emulated")))
    assert row == "| matmul-tf32-128x128x32 | 3.97 | not measured |  |  |"
    assert turned == "| matmul-tf32-turned-b | 1.00 | not measured |  |  |"
    assert half == "| matmul-f16-128x128x32 | 1.19 | not measured |  |  |"


@pytest.mark.slow
def test_random_kernels_count_alike_with_and_without_representatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    bench = importlib.import_module("random_kernels")
    assert bench.Writer(5).kernel() == bench.Writer(5).kernel() != bench.Writer(6).kernel()
    monkeypatch.setattr("sys.argv", ["random_kernels.py", "--seed", "7", "--count", "3"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 0
