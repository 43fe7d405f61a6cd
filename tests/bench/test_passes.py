"""How bench/passes.py makes variants of the section, and what it reads from ncu; a script stands in for ncu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

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
