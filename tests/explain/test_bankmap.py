"""Bank maps and pictures: the worked examples of the articles, cell by cell."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.explain import shown
from ncu_swizzle.render import banks as view
from ncu_swizzle.render import page as report
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import access, bankmap, layout, mapping
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.smem.mapping import Mapping


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


# ---------------------------------------------------------------------------------------------- properties


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


# ---------------------------------------------------------------------------------------------- pages


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
