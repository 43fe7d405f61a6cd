"""What `explain` answers about layouts, accesses, kernels and Hopper's tiles, and what mistakes lead to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ncu_swizzle
from tests.support.explaining import data, drawn, kernel, printed
from tests.support.pages import Page
from tests.support.places import ROOT

ARTICLE_001 = {"what": "(8,8):(1,8)", "swizzle": "3,2,3"}
BITS = {"what": "(8,8):(8,1)", "swizzle": "bytes:3,2,3", "show": "bits"}
PLACES = BITS | {"show": "places"}
PHASES = {"what": "(64,64):(64,1)", "element_bytes": 2, "swizzle": "128B", "access": "ldmatrix", "show": "phases"}
COLUMN = {"what": "(32,32):(32,1)", "access": "column"}
TILE = {"what": "(64,64):(64,1)", "element_bytes": 2, "writes": ("rows:16",), "reads": ("ldmatrix",)}


def pictures(**asked: Any) -> tuple[Page, ElementTree.Element]:
    """Return what is drawn, as HTML and as SVG."""
    return Page(drawn(svg=False, **asked)), ElementTree.fromstring(drawn(svg=True, **asked))


def lines(svg: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in svg.iter() if text.tag.endswith("}text")]


# ---------------------------------------------------------------------------------------------- banks


def test_the_maps_of_article_001() -> None:
    said = printed(**ARTICLE_001)
    rows = [line for line in said.splitlines() if re.match(r"r\d", line)]
    assert all(row.count("*") == 8 and row.endswith("2/1") for row in rows[:8]), "marks, not only colours"
    assert all("*" not in row and row.endswith("1/1") for row in rows[8:])
    assert "16 wavefronts, 8 ideal: 8 excessive" in said
    assert "8 wavefronts, 8 ideal: conflict-free" in said
    before, after = data(**ARTICLE_001)["map"]
    assert before["counts"] == {"requests": 8, "known": True, "actual": 16, "ideal": 8, "excessive": 8}
    assert after["counts"]["excessive"] == 0
    assert after["banks"][4] == [4, 12, 20, 28, 0, 8, 16, 24]
    assert (after["transform"], after["tma"], after["bijection"]) == ("Swizzle<3,2,3>", "128B", True)
    assert "Bank map of (8,8):(1,8)" in drawn(svg=False, **ARTICLE_001)


def test_bits_are_drawn_as_bits() -> None:
    page, svg = pictures(**BITS)
    for texts in (page.texts, lines(svg)):
        assert "00100000" in texts, "row 1, before"
        assert "00100100" in texts, "and after"
        assert "→ 0x0024" in texts
        assert [text for text in texts if text in ("S", "T")] == [*"SSSTTT"] * 2
    assert "banks" not in " ".join(lines(svg)).lower()
    _, svg = pictures(**BITS, row=2)
    assert [text for text in lines(svg) if text.startswith("column")] == [f"column {number}" for number in range(8)]
    bits = data(**BITS)["bits"]
    assert (bits["source"], bits["target"], bits["rows"][1]["after"]) == (0b11100000, 0b11100, 0b00100100)


def test_places_are_drawn_as_places() -> None:
    page, svg = pictures(**PLACES)
    assert "the cell at each position" in page.text
    row = [text for text in lines(svg) if text.startswith("r3")]
    titled = [
        "".join(f"position {at}: {cell}{cell}" for at, cell in enumerate(cells)) for cells in ("01234567", "32107654")
    ]
    assert row == [f"r3{cells}" for cells in titled]
    before, after = data(**PLACES)["places"]
    assert (before["columns"][3], after["columns"][3]) == ([0, 1, 2, 3, 4, 5, 6, 7], [3, 2, 1, 0, 7, 6, 5, 4])


def test_phases_are_stepped_through_in_html_and_side_by_side_in_a_picture() -> None:
    page, svg = pictures(**PHASES)
    assert page.values("value") == ["1", "2", "3", "4"]
    assert "Request 0, phase 3: lanes 24 to 31 access 4 banks, at most 8 words in each." in page.text
    titles = [text for text in lines(svg) if "phase" in text]
    assert [title.rpartition(" ")[2] for title in titles] == ["0", "1", "2", "3"] * 2
    assert len([path for path in svg.iter() if path.get("class") == "outline"]) == 8, "one phase on each map"
    plain, swizzled = data(**PHASES)["phases"]
    assert plain[0]["words"][:4] == [8] * 4
    assert [load["words"] for load in swizzled] == [[1] * 32] * 4
    page, _ = pictures(**PHASES, request=5)
    assert "Request 5, phase 0" in page.text
    assert "Request 0" not in page.text


def test_hoppers_tiles_as_data_and_as_files() -> None:
    asked = {"what": "box(8,64)+k-major(8,16,1024)", "swizzle": "128B"}
    box, operand = data(**asked)["tiles"]
    assert box["title"] == "TMA writes: box of 8 x 64, 128-byte swizzle"
    assert box["chunks"][1] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert operand["chunks"][2] == [-1, -1, 0, 1, -1, -1, -1, -1]
    assert operand["rows"][2] == [-1, -1, 2, 2, -1, -1, -1, -1]
    page, svg = pictures(**asked)
    assert "wgmma reads: k-major, 128-byte swizzle" in page.text
    assert svg.tag.endswith("svg")


# ---------------------------------------------------------------------------------------------- wavefronts


def test_wavefronts_of_a_kernel_beside_its_recording() -> None:
    (answer,) = data(what="transpose-plain")["wavefronts"]
    assert answer["agrees"]
    by_access = {row["access"]: row for row in answer["counted"]}
    assert by_access["LDS"]["wavefronts"] == by_access["LDS"]["counted"] == 16_777_216
    (small,) = data(what="transpose-plain", kernel=kernel(problem={"n": 64}))["wavefronts"]
    assert small["counted"] == []
    assert "not compared" in small["origin"]


@pytest.mark.long
def test_wavefronts_beside_a_saved_profile(tmp_path: Path) -> None:
    ncu_swizzle.profile("transpose-xor", reference="none", baseline="none", export=tmp_path / "run")
    saved = str(tmp_path / "run" / "transpose-xor.json")
    (answer,) = data(what="transpose-xor", profile=saved)["wavefronts"]
    assert (answer["agrees"], answer["origin"]) == (True, saved)
    (other,) = data(what="transpose-plain", profile=saved)["wavefronts"]
    assert not other["agrees"]


def test_wavefronts_of_layouts_expressions_and_files(tmp_path: Path) -> None:
    file = tmp_path / "lanes.csv"
    file.write_text(",".join(str(128 * i) for i in range(32)) + "\n")
    rows: list[tuple[dict[str, Any], int]] = [
        ({"what": "(64,64):(64,1)", "element_bytes": 2, "reads": ("ldmatrix",)}, 512),
        ({"what": "tid * 128", "op": "ld.shared.b32", "active": "lane < 8"}, 8),
        ({"what": str(file), "op": "st.shared.b32"}, 32),
    ]
    for asked, wavefronts in rows:
        (answer,) = data(**asked)["wavefronts"]
        assert answer["accesses"][0]["wavefronts"] == wavefronts
    linear = " ".join(printed(what="tid * 256", op="st.shared.v2.b32").split())
    assert "rank 4) and 2^0 of their banks (rank 0), so 16 units share each bank" in linear


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/model.md", "exec"), {})
    said = [line.split("# ")[1] for line in code.splitlines() if "# " in line]
    assert capsys.readouterr().out.splitlines() == said


# ---------------------------------------------------------------------------------------------- mappings


def test_a_mapping_comes_with_code_to_paste() -> None:
    said = printed(**TILE, show="mapping")
    assert "Use Swizzle<3,3,3> on elements of 2 bytes (offset ^ ((offset >> 3) & 0x38))." in said
    assert "(offset ^ ((offset >> 3) & 0x38)) * 2" in said
    assert "cute::composition(cute::Swizzle<3,3,3>{}, Plain{})" in said
    assert max(map(len, said.split("\nCUDA\n")[0].splitlines())) <= 80
    only = printed(**TILE, show="mapping", code="cuda")
    assert "struct Tile" in only
    assert "cute::" not in only
    (answer,) = data(**TILE, show="mapping")["mapping"]
    assert answer["clean"][0]["mapping"] == "Swizzle<3,3,3>"
    assert answer["plain"]["wavefronts"] == 576
    policy = printed(what="transpose-plain", show="mapping")
    assert "Use Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f))." in policy
    assert "static __device__ constexpr int bytes(int rows)" in policy


def test_what_is_impossible_says_what_to_leave_out() -> None:
    said = printed(what="(32,32):(32,1)", writes=("rows:16",), reads=("column",), show="mapping")
    assert "Impossible within these constraints" in said
    assert "Without rows:16, Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) works." in (
        " ".join(said.split())
    )


# ---------------------------------------------------------------------------------------------- mistakes
