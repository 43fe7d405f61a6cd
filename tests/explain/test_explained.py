"""What `explain` answers of layouts, accesses and kernels; its bank maps are the articles' own, cell by cell."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ncu_swizzle
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.explain import banks as shown
from ncu_swizzle.explain import explained
from ncu_swizzle.explain.query import ExplainQuery
from ncu_swizzle.render import banks as view
from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import access, bankmap, code, layout, mapping
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.smem.mapping import Mapping
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import KEYWORDS
from tests.support.pages import Page
from tests.support.places import ROOT

PLACES = {"what": "(8,8):(8,1)", "swizzle": "bytes:3,2,3", "show": "places"}
PHASES = {"what": "(64,64):(64,1)", "element_bytes": 2, "swizzle": "128B", "access": "ldmatrix", "show": "phases"}


def pictures(**asked: Any) -> tuple[Page, ElementTree.Element]:
    """Return what is drawn, as HTML and as SVG."""
    query = ExplainQuery(**asked)
    html, svg = (explained.drawing(query, explained.explanation(query), svg=svg) for svg in (False, True))
    return Page(html), ElementTree.fromstring(svg)


def lines(svg: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in svg.iter() if text.tag.endswith("}text")]


def test_places_are_drawn_as_places() -> None:
    page, svg = pictures(**PLACES)
    assert "the cell at each position" in page.text
    row = [text for text in lines(svg) if text.startswith("r3")]
    titled = [
        "".join(f"position {at}: {cell}{cell}" for at, cell in enumerate(cells)) for cells in ("01234567", "32107654")
    ]
    assert row == [f"r3{cells}" for cells in titled]


def test_phases_are_stepped_through_in_html_and_side_by_side_in_a_picture() -> None:
    page, svg = pictures(**PHASES)
    assert page.values("value") == ["1", "2", "3", "4"]
    assert "Request 0, phase 3: lanes 24 to 31 access 4 banks, at most 8 words in each." in page.text
    titles = [text for text in lines(svg) if "phase" in text]
    assert [title.rpartition(" ")[2] for title in titles] == ["0", "1", "2", "3"] * 2
    assert len([path for path in svg.iter() if path.get("class") == "outline"]) == 8, "one phase on each map"
    page, _ = pictures(**PHASES, request=5)
    assert "Request 5, phase 0" in page.text
    assert "Request 0" not in page.text


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/model.md", "exec"), {})
    said = [line.split("# ")[1] for line in code.splitlines() if "# " in line]
    assert capsys.readouterr().out.splitlines() == said


HALF, WIDE = ({**KEYWORDS[f"{name}.cu"], "config": "none"} for name in ("half", "wide"))


@pytest.mark.usefixtures("own_tiles")
@NEEDS_ALL
def test_a_line_of_a_source_is_explained_alone() -> None:
    (counted,) = ncu_swizzle.predict("half.cu:9", **HALF)
    assert [(row.name, row.degree) for row in counted.predictions] == [("LDS half.cu:9", 32)]
    assert ncu_swizzle.banks("half.cu:6", **HALF)[0].access.name == "half.cu:6"
    (suggested,) = ncu_swizzle.suggest("half.cu:9", **HALF)
    assert "Swizzle<5,1,5>" in code.spelled(suggested.chosen.mapping)
    for function in (ncu_swizzle.predict, ncu_swizzle.suggest, ncu_swizzle.banks):
        with pytest.raises(UsageError, match=r"half\.cu:3"):
            function("half.cu:3", **HALF)


@pytest.mark.long
@NEEDS_ALL
def test_a_cubin_alone_and_an_emulated_run_are_enough(own_tiles: Path) -> None:
    run = ncu_swizzle.profile("wide.cu", engine="emulated", export="run", **WIDE)
    page = (own_tiles / "run" / "report.html").read_text(encoding="utf-8")
    assert "suggested: (32,16):(16,1) with Swizzle&lt;3,0,4&gt; on elements of 16 bytes" in page
    cubin = own_tiles / "alone" / "k.cubin"
    cubin.parent.mkdir()
    cubin.write_bytes((own_tiles / "run" / run.profile.report).read_bytes())
    for file in own_tiles.glob("*.cu"):
        file.unlink()
    for what, launch in ((cubin, WIDE), ("run", {}), ("run/wide_rows.json", {})):
        (suggested,) = ncu_swizzle.suggest(what, **launch)
        assert str(suggested.chosen.mapping.transform) == "Swizzle<3,0,4>", what
        (counted,) = ncu_swizzle.predict(what, **launch)
        assert [row.degree for row in counted.predictions if row.degree is not None] == [1, 8]
        before, _ = ncu_swizzle.banks(what, **launch)
        assert before.counts.excessive == 448


@pytest.mark.usefixtures("own_tiles")
def test_python_functions_take_layouts_and_refuse_unknown_options() -> None:
    assert len(ncu_swizzle.banks("(8,8):(1,8)", swizzle="3,2,3")) == 2
    assert len(ncu_swizzle.suggest("(32,32):(32,1)", writes="row", reads="column")) == 1
    with pytest.raises(UsageError, match="unknown option 'gird'"):
        ncu_swizzle.suggest("wide.cu", gird=1)


def maps(text: str, element_bytes: int, moved: str | None, name: str, banks: int = 32) -> tuple[BankMap, ...]:
    tile = mapping.parse(text, element_bytes, moved)
    accessed = access.parse(name, tile.layout, element_bytes)
    return tuple(bankmap.build(each, accessed, banks) for each in dict.fromkeys((tile.plain, tile)))


def counted(bank_map: BankMap) -> tuple[int, int, int]:
    """Return the wavefronts: actual, ideal, excessive."""
    return bank_map.counts.actual, bank_map.counts.ideal, bank_map.counts.excessive


def test_article_001_cell_by_cell() -> None:
    before, after = maps("(8,8):(1,8)", 4, "3,2,3", "row")
    row, column = np.indices((8, 8))
    plain = (row + 8 * column) % 32
    assert before.banks.tolist() == plain.tolist()
    assert after.banks.tolist() == (plain ^ np.where(column < 4, 0, 4)).tolist()
    assert (counted(before), counted(after)) == ((16, 8, 8), (8, 8, 0)), "Row-wise bank conflicts: 8, then 0"
    assert before.lines == ((2, 1),) * 8
    assert (before.ways == 2).all(), "columns 0 and 4, 1 and 5 … collide in every row"
    columns, _ = maps("(8,8):(1,8)", 4, "3,2,3", "column")
    assert counted(columns)[2] == 0


def test_article_002_addresses_and_places() -> None:
    tile = mapping.parse("(8,8):(8,1)", 4, "bytes:3,2,3")
    rows = mapping.bits(tile)
    assert [row.before for row in rows.rows] == [0, 32, 64, 96, 128, 160, 192, 224]
    assert rows.legend == "SSSTTT--"
    assert [row.before for row in mapping.bits(tile, 1).rows] == list(range(32, 64, 4))
    after = mapping.places(tile)
    assert after.stays_in_row
    assert after.columns.tolist() == (np.arange(8)[:, None] ^ np.arange(8)).tolist()
    assert mapping.places(tile.plain).columns.tolist() == [list(range(8))] * 8


def held_by(fragment: layout.Fragment, lane: int) -> tuple[tuple[int, int], ...]:
    """Return the cells of a lane, its first element first."""
    rows, columns = np.nonzero(fragment.lane == lane)
    order = np.argsort(fragment.element[rows, columns])
    return tuple((int(rows[i]), int(columns[i])) for i in order)


def test_the_fragments_of_mma() -> None:
    """The PTX ISA's tables, for lane 4 g + t."""
    (a8, b8, c8), (a16, b16, c16) = layout.fragments(8), layout.fragments(16)
    for lane in range(32):
        g, t = divmod(lane, 4)
        of_a = ((g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1))
        of_b = ((2 * t, g), (2 * t + 1, g))
        assert [held_by(fragment, lane) for fragment in (a8, b8, c8, c16)] == [of_a, of_b, of_a, of_a]
        assert held_by(a16, lane) == (*of_a, *((row, column + 8) for row, column in of_a))
        assert held_by(b16, lane) == (*of_b, *((row + 8, column) for row, column in of_b))


@pytest.mark.long
@settings(deadline=None)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.sampled_from(["row", "column", "rows", "columns"]))
def test_the_ways_of_32_bit_accesses_are_their_wavefronts(bits: int, base: int, more: int, name: str) -> None:
    tile = mapping.parse("(32,32):(32,1)", 4, f"{bits},{base},{bits + more}")
    one = access.parse(name, tile.layout, 4)
    ways = bankmap.contention(one, tile)
    assert ways.max(axis=1).tolist() == one.wavefronts(tile).actual.tolist()


def test_an_access_may_be_of_any_lanes_and_what_is_none_is_refused() -> None:
    square = mapping.parse("(32,32):(32,1)", 4)
    one = access.parse("ld.shared.b32@tid%32,tid/32", square.layout, 4, threads=64)
    assert one.requests == 2
    assert one.wavefronts(square).actual.tolist() == [32, 32]
    assert bankmap.build(square, one).ways[:, 2:].max() == 0, "two columns are read, the others are not"
    for text in (
        "rowz", "row:3", "row:32", "ldmatrix:8", "cp.async:2", "ld.shared.b33@tid,0", "ld.shared.b32@tid",
        "ld.shared.b32@tid*9,0", "ld.shared.b32@tid/0,0", "ld.shared.b32@open(1),0", "mma:16", "",
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            access.parse(text, square.layout, 4)
        assert refused.value.hint, text


def test_matrices_need_whole_rows() -> None:
    with pytest.raises(UsageError, match="does not fit"):
        access.parse("ldmatrix", layout.parse_layout("(4,8):(8,1)"), 2)
    assert access.parse("ldmatrix", layout.parse_layout("(8,8):(8,1)"), 2).op == "ldmatrix.x1"
    assert access.parse("ldmatrix.x2.trans", layout.parse_layout("(16,8):(8,1)"), 2).op == "ldmatrix.x2.trans"
    column_major = access.parse("ldmatrix", layout.parse_layout("(64,64):(1,64)"), 2)
    assert column_major.op == "ldmatrix.x4"
    assert (column_major.rows % 8 == 0).all(), "its rows of 16 bytes run down the tile's columns"


def test_the_page_says_in_words_what_it_shows_in_colour() -> None:
    page = report.render_banks(maps("(8,8):(1,8)", 4, "3,2,3", "row"), "<script>alert(1)</script>")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count('<tspan class="contended"') == 64
    (borders,) = re.findall(r'<path class="conflict" d="([^"]*)"', page.partition('class="bankload')[0])
    assert borders.count("M") == 64, "a border around each of them"
    assert "border marks a cell that conflicts" in page
    assert page.count("row: 16 wavefronts, 8 ideal: 8 excessive.") == 2, "as text, and for who cannot see the map"
    assert "http" not in page.replace("http-equiv", "")


def test_a_map_that_repeats_itself_is_drawn_once() -> None:
    one, _ = maps("(64,64):(64,1)", 2, "128B", "ldmatrix")
    assert one.period == 8
    (picture,) = view.bank_board([one]).pictures
    assert sum(len(line.cells) for line in picture.lines) == 64
    assert "rows after r7 repeat these" in picture.note
    assert Mapping(layout.parse_layout("(5,8):(8,1)")).shape == (5, 8)
    assert bankmap.build(mapping.parse("(5,8):(8,1)")).period == 5


@pytest.mark.long
def test_a_report_draws_the_worst_access(recorded: Callable[[str], Profile]) -> None:
    found = view.section(compare([recorded("kernel1"), recorded("kernel2")]), report.declared_tiles)
    assert found.access == "Q, K, V and O, K out (ldmatrix.x4)"
    assert [bool(picture.borders) for picture in found.board.pictures] == [True, False]
    assert found.board.pictures[1].title == (
        "kernel2: (64,128):(128,1) with Swizzle<3,3,4> on elements of 2 bytes (offset ^ ((offset >> 4) & 0x38))"
    )
    stranger = replace(recorded("kernel1"), kernel=replace(recorded("kernel1").kernel, family=""))
    assert view.section(compare([stranger, recorded("kernel2")]), report.declared_tiles) is None, (
        "somebody else's kernel1"
    )
    for clean in (["kernel2", "kernel3"], ["kernel2", "reference-attention"]):
        assert view.section(compare([recorded(name) for name in clean]), report.declared_tiles) is None


def test_unknown_wavefronts_are_called_so() -> None:
    found, _ = maps("(8,8):(1,8)", 4, "3,2,3", "row")
    assert found.counts is not None
    unknown = replace(found, counts=replace(found.counts, known=False))
    assert view.bank_board([unknown]).pictures[0].verdict == "row: no rule is known for its wavefronts."
    assert "wavefronts unknown" in shown.counted("row", "ld.shared.b32", replace(found.counts, known=False))
