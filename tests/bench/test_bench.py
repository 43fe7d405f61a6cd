"""The tables that the documentation shows are what the commands print; variants of the section that ncu collects."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.marks import NEEDS_ALL
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


@pytest.mark.slow
@NEEDS_ALL
def test_the_triton_case_is_free_of_excess_with_k_contiguous(bench: Bench) -> None:
    pytest.importorskip("triton", reason="needs triton")
    cases = bench("cases")
    (row, turned, half) = cases.lines(list(cases.products("emulated")))
    assert row == "| matmul-tf32-128x128x32 | 3.97 | not measured |  |  |"
    assert turned == "| matmul-tf32-turned-b | 1.00 | not measured |  |  |"
    assert half == "| matmul-f16-128x128x32 | 1.19 | not measured |  |  |"


@pytest.mark.slow
def test_random_kernels_count_alike_with_and_without_representatives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_kernels = bench("random_kernels")
    assert random_kernels.Writer(5).kernel() == random_kernels.Writer(5).kernel() != random_kernels.Writer(6).kernel()
    monkeypatch.setattr("sys.argv", ["random_kernels.py", "--seed", "7", "--count", "3"])
    with pytest.raises(SystemExit) as ended:
        random_kernels.main()
    assert ended.value.code == 0


SECTION = ROOT / "rules" / "SwizzleConflicts.section"


def stand_in(folder: Path) -> Path:
    """Return an ncu whose launch takes as many passes as the section that it is given has metrics."""
    program = folder / "ncu"
    program.write_text(
        "#!/bin/bash\n"
        'while [ "$1" != "--section-folder" ]; do shift; done\n'
        'grep -q fails "$2"/*.section && { echo "==ERROR== no such counter"; exit 9; }\n'
        'echo "==PROF== Profiling \\"k\\" - 0: 0%....50%....100% - $(grep -c Name: "$2"/*.section) passes"\n'
    )
    program.chmod(0o755)
    return program


def test_every_variant_has_the_metrics_that_it_says(passes: Any) -> None:
    text = SECTION.read_text(encoding="utf-8")
    names = set(passes.METRIC.findall(text))
    for variant in passes.VARIANTS:
        made = passes.section(text, variant)
        found = passes.METRIC.findall(made)
        assert set(found) == names - set(variant.fewer) | set(variant.more)
        assert made.count("{") == made.count("}")
    assert passes.section(text, passes.VARIANTS[0]) == text


def test_passes_are_read_from_what_ncu_prints(passes: Any, tmp_path: Path) -> None:
    lines = list(passes.rows(stand_in(tmp_path), ["true"], 60.0))
    counts = [int(line.split(" | ")[1]) for line in lines]
    assert counts[1] == counts[0] + len(passes.GMMA)
    assert counts[2] == counts[0] + 1
    assert counts[3] == counts[0]
    assert all(line.endswith("no |") for line in lines)


def test_a_variant_that_ncu_refuses_says_why(passes: Any, tmp_path: Path) -> None:
    assert passes.passes(stand_in(tmp_path), ["true"], "fails") == "ended with 9: ==ERROR== no such counter"


def test_no_variant_is_started_when_the_time_is_over(passes: Any, tmp_path: Path) -> None:
    lines = list(passes.rows(stand_in(tmp_path), ["true"], -1.0))
    assert len(lines) == len(passes.VARIANTS)
    assert all("not tried" in line for line in lines)


def test_a_metric_that_the_section_lacks_is_an_error(passes: Any) -> None:
    with pytest.raises(SystemExit, match="the section has no gone"):
        passes.section(SECTION.read_text(encoding="utf-8"), passes.Variant("x", fewer=("gone",)))
