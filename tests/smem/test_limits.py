"""Layouts, swizzles, accesses and files of addresses are understood or refused, whatever they say."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from bench.corpus import hostile
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.smem import access, bankmap, layout, mapping
from ncu_swizzle.smem.access import evaluate
from ncu_swizzle.smem.layout import Layout, parse_layout
from ncu_swizzle.smem.suggestions import suggest
from ncu_swizzle.smem.swizzle import parse_swizzle
from tests.support.properties import examples, holds
from tests.support.refusals import accepted

HUGE = "1" + "0" * 5000
OP = "ld.shared.b32"


LAYOUTS = (
    "", "8", "(8,8)", "(8,8):", "(8,8):(1)", "(8,:(1,2)", "(8,8):(1,8))", "(a,8):(1,8)", "(8,8):(1,-8)",
    "(0,8):(1,8)", "():()", "(8,8):(1,8) o", "(999999,999999):(0,0)", "(8,8):(1,99999999999)",
    "(100000,100000):(1,1)", "(1048576,1):(1,1)", f"({HUGE},1):(1,1)", f"(8,8):(1,{HUGE})", "(8,8):(1,9999999999)",
    "(" * 5000 + "1" + ")" * 5000 + ":1", "(1," * 3000 + "1" + ")" * 3000 + ":1", "(" * 200_000,
    "(" + "1," * 200_000 + "1):1", "1:0 o " * 100_000 + "1:0", "(" * 40 + "1" + ")" * 40 + ":1",
)  # fmt: skip
SWIZZLES = (
    *("3,2", "3,2,1", "mul:3,2,3", "bytes:3,1,3", "99,0,99", "256B", "", "sudoku"),
    *(f"{HUGE},1,1", f"3,{HUGE},3", f"3,3,-{HUGE}", "9" * 30 + ",1,1", "3,200,3"),
)
ACCESSES = (f"row:{HUGE}", f"{OP}@{'(' * 5000},0", f"{OP}@{'tid+' * 5000}0,0", f"{OP}@{'9' * 30},0")
EXPRESSIONS = ("tid*" * 5000 + "1", "(" * 9000, "-" * 9999 + "1", "tid << 40 << 40", "tid * " + "9" * 30)
PRODUCTS = (*("tid + 4294967296*4294967296", "tid*4294967296*4294967296", "1099511627775<<40", "-tid*(1<<40)*(1<<40)"),)


def test_what_is_not_valid_or_absurd_is_refused() -> None:
    tile = mapping.parse("(8,8):(8,1)")
    assert accepted(parse_layout, *LAYOUTS) == []
    assert accepted(lambda text: parse_swizzle(text, 4, columns=8), *SWIZZLES) == []
    assert accepted(lambda text: access.parse(text, tile.layout, 4), *ACCESSES) == []
    assert accepted(evaluate, *EXPRESSIONS) == []
    assert accepted(evaluate, *PRODUCTS, match="too large for an address") == []
    pads = (-1, 1 << 30, 1 << 63, 10**30, int("9" * 4000))
    assert accepted(lambda pad: mapping.parse("(8,8):(8,1)", pad=pad), *pads) == []
    assert accepted(lambda banks: bankmap.build(tile, banks=banks), 0, -1, 1 << 40, 10**30, match="banks") == []


def test_a_search_over_too_many_requests_is_refused() -> None:
    tile = mapping.parse("(65536,1):(1,1)")
    requested = [access.parse("row", tile.layout, 4)]
    with pytest.raises(UsageError, match="65,536 requests") as error:
        suggest(tile, requested)
    assert "part of the tile" in error.value.hint


def test_the_largest_tile_is_still_drawn() -> None:
    tile = mapping.parse("(512,512):(512,1)", 1)
    assert bankmap.build(tile, access.parse("row:4", tile.layout, 1)).counts is not None
    with pytest.raises(UsageError, match="more than shared memory holds"):
        Layout((513, 512), (512, 1))


HOSTILE = st.sampled_from(
    (*hostile.VALUES["sizes"], *hostile.VALUES["numbers"], "٣:١", "²:1", "(2,2):(1,2) o " * 200 + "4:1")
)
NAMES = st.sampled_from(
    ["row", "rows:16", "column", "cp.async:4", "ldmatrix.x2.trans", "mma:8", "ld.shared.b32@tid%32,0"]
)
NUMBERS = st.tuples(*[st.integers(0, 70)] * 2, st.integers(-70, 70)).map("{0[0]},{0[1]},{0[2]}".format)
TILE = parse_layout("(32,32):(32,1)")
# By what reads it: texts that are nearly right, and what holds of what is read.
READERS: dict[str, tuple[st.SearchStrategy[str], Callable[[str], object]]] = {
    "a layout": (st.text("0123456789(),:_ o∘", max_size=30), lambda text: parse_layout(str(parse_layout(text))).size),
    "an expression": (
        st.text("tidlanewrp0123456789+-*/%<>&|^~()= .", max_size=30),
        lambda text: [evaluate(text, threads).shape == (threads,) for threads in (32, 1024)] == [True, True],
    ),
    "a swizzle": (
        st.text("0123456789,- bytesxorandSwizzle<>B:", max_size=20) | NUMBERS,
        lambda text: [str(parse_swizzle(text, size, 32)) for size in (1, 2, 4, 8, 16)],
    ),
    "an access": (
        NAMES | st.builds("{}{}".format, NAMES, st.text(max_size=6)),
        lambda text: [access.parse(text, TILE, 4, write).requests for write in (False, True)] >= [1, 1],
    ),
}
SHAPES = st.recursive(st.integers(1, 4), lambda part: st.lists(part, min_size=1, max_size=3).map(tuple), max_leaves=5)


@pytest.mark.parametrize("what", READERS)
@examples
def test_any_text_is_understood_or_refused(examples: int, what: str) -> None:
    texts, holds_of = READERS[what]

    def check(text: str) -> None:
        with contextlib.suppress(NcuSwizzleError):
            assert holds_of(text)

    holds(examples, check, texts | st.text(max_size=20) | HOSTILE)


@examples
def test_a_layout_is_read_as_it_was_written(examples: int) -> None:
    def check(shape: layout.IntTuple) -> None:
        strided = Layout(shape, shape)
        assert parse_layout(str(strided)) == strided
        assert parse_layout(str(strided).replace("(", "( _").replace("_(", "(")) == strided

    holds(examples, check, SHAPES)
