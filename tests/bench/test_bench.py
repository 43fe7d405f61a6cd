"""The tables that the documentation shows are what the commands print, where that needs no GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

import pytest

from ncu_swizzle.catalog import collection
from ncu_swizzle.profiles.model import Profile
from tests.support.places import ROOT


def test_the_bottlenecks_are_those_of_the_recordings(
    recorded: Callable[[str], Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "bench")
    bottlenecks = importlib.import_module("bottlenecks")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    shown = re.search(r"written by bench/bottlenecks.py -->\n(.*?)<!-- end of bottlenecks -->", page, re.DOTALL)
    assert shown
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in shown[1].splitlines()[2:]}
    assert list(lines) == [kernel.name for _, kernel in collection.shipped()]
    for name in ("kernel1", "kernel2", "gemm-pipelined", "transpose-plain", "tma-128"):  # reading all takes long
        assert lines[name] == bottlenecks.line(recorded(name)), "python3 bench/bottlenecks.py --write"


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
    ["README.md", "docs/measured.md", "docs/rules.md", "docs/security.md", "docs/performance.md", "docs/fleet.md"],
)
def test_every_table_has_both_its_markers(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    started = re.findall(r"<!-- (\w+): written by", text)
    assert started
    assert started == re.findall(r"<!-- end of (\w+) -->", text)
