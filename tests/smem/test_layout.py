"""Layouts, swizzles, mappings, accesses and banks: against other implementations and the CUDA source, and any text."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.attacks.corpus import hostile
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.kernels import catalog
from ncu_swizzle.smem import access, bankmap, layout, mapping, swizzle
from ncu_swizzle.smem.access import Access, evaluate
from ncu_swizzle.smem.bankmap import loads, worst_request
from ncu_swizzle.smem.layout import Layout, parse_layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.suggestions import suggest
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Table, parse_swizzle
from tests.support.places import DATA
from tests.support.properties import examples, holds
from tests.support.refusals import accepted

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])
STRIDES = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 24, 33])
FLAT = st.lists(st.tuples(SIZES, STRIDES), min_size=1, max_size=4)


def nested(leaves: list[tuple[int, int]]) -> Layout:
    """Return a layout of two modes, the second one nested where there are leaves enough."""
    parts = [Layout(size, stride) for size, stride in [*leaves, (1, 0)]]
    rest = tuple(part.shape for part in parts[1:]), tuple(part.stride for part in parts[1:])
    return Layout((parts[0].shape, rest[0]), (parts[0].stride, rest[1]))


# ---------------------------------------------------------------------------------------------- layouts


def test_the_layout_of_article_001() -> None:
    plain = layout.parse_layout("(8,8):(1,8)")
    assert plain(0, 4) == 32
    assert Swizzle(bits=3, base=2, shift=3)(plain(0, 4)) == 36
    assert str(plain) == "(8,8):(1,8)"
    assert (plain.size, plain.cosize) == (64, 64)


def test_nested_modes_run_with_their_first_part_fastest() -> None:
    assert layout.product(((4, 2), 8)) == 64
    found = layout.parse_layout("((4,2),8):((1,32),4)")
    assert [int(found(row, 0)) for row in range(8)] == [0, 1, 2, 3, 32, 33, 34, 35]
    assert int(found(5, 3)) == 33 + 12
    assert int(found(4 * 2 + 1)) == int(found(1, 1)), "one integer runs through all modes"
    assert layout.parse_layout("((_4,_2),_8):((_1,_32),_4)") == found, "static integers, as CuTe prints them"


@given(FLAT)
def test_offsets_and_coalescing_agree_with_another_implementation(leaves: list[tuple[int, int]]) -> None:
    other = pytest.importorskip("tensor_layouts")
    mine = nested(leaves)
    theirs = other.Layout(mine.shape, mine.stride)
    assert mine.offsets().tolist() == [theirs(i) for i in range(mine.size)]
    assert mine.cosize == other.cosize(theirs)
    assert (mine.coalesce().offsets() == mine.offsets()).all()
    assert len(mine.coalesce().leaves) <= len(mine.leaves)


@given(FLAT, FLAT)
def test_composition_is_one_function_after_the_other(
    outer: list[tuple[int, int]], inner: list[tuple[int, int]]
) -> None:
    first, second = nested(inner), nested([*outer, (64, 64)])
    assume(first.cosize <= second.size)
    try:
        composed = second.compose(first)
    except UsageError:
        return  # not every pair has a layout; that it says so is tested below
    assert (composed.offsets() == second(first.offsets())).all()


def test_composition_reads_as_text() -> None:
    assert str(layout.parse_layout("(8,8):(8,1) o (4,4):(1,8)")) == "(4,4):(8,1)"
    with pytest.raises(UsageError, match="does not fit"):
        layout.parse_layout("(6,8):(8,1) o 4:4")


# ---------------------------------------------------------------------------------------------- swizzles


@given(st.integers(0, 5), st.integers(0, 5), st.integers(-6, 6))
def test_a_swizzle_is_a_bijection_and_its_own_inverse(bits: int, base: int, shift: int) -> None:
    if abs(shift) < bits:
        with pytest.raises(UsageError, match="with themselves"):
            Swizzle(bits=bits, base=base, shift=shift)
        return
    one = Swizzle(bits=bits, base=base, shift=shift)
    offsets = np.arange(1 << min(bits + base + abs(shift), 16))
    moved = one(offsets)
    assert (np.sort(moved) == offsets).all()
    assert (one(moved) == offsets).all()


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
def test_addition_is_a_bijection_and_the_others_are_not(bits: int, base: int, more: int) -> None:
    offsets = np.arange(1 << bits + base + bits + more)
    for combine, loses in (("xor", False), ("add", False), ("and", True), ("or", True)):
        moved = Swizzle(bits=bits, base=base, shift=bits + more, combine=combine)(offsets)
        assert (len(np.unique(moved)) < len(offsets)) == loses, combine


def test_and_and_or_name_the_cells_that_they_merge() -> None:
    lost = mapping.parse("(8,8):(8,1)", 4, "and:3,0,3").collision()
    tile = mapping.parse("(8,8):(8,1)", 4, "and:3,0,3")
    assert tile.elements(*lost.first) == tile.elements(*lost.second) == lost.offset
    with pytest.raises(UsageError, match="both land at element"):
        tile.inverse()
    assert mapping.parse("(8,8):(8,1)", 4, "or:3,0,3").collision() is not None


def test_the_inverse_of_a_mapping_finds_every_cell() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4, pad=1)
    cells = tile.inverse()
    assert (cells[tile.all_elements()] == np.arange(1024).reshape(32, 32)).all()
    assert (cells == -1).sum() == 31, "a gap after each row but the last"


SWIZZLES = [
    ("3,2,3", 4, Swizzle(bits=3, base=2, shift=3)),
    ("Swizzle<3,2,3>", 4, Swizzle(bits=3, base=2, shift=3)),
    ("bytes:3,2,3", 4, Swizzle(bits=3, base=0, shift=3)),
    ("128B", 2, Swizzle(bits=3, base=3, shift=3)),
    ("128b", 4, Swizzle(bits=3, base=2, shift=3)),
    ("64B", 2, Swizzle(bits=2, base=3, shift=3)),
    ("32B", 2, Swizzle(bits=1, base=3, shift=3)),
    ("add:5,0,5", 4, Swizzle(bits=5, base=0, shift=5, combine="add")),
]


def test_swizzles_read_as_text() -> None:
    read = [(text, size, swizzle.parse_swizzle(text, size)) for text, size, _ in SWIZZLES]
    assert read == SWIZZLES


@given(st.sampled_from(["3,2,3", "3,3,3", "5,0,5", "4,1,4", "add:3,2,3"]), st.sampled_from([1, 2, 4]))
def test_a_swizzle_keeps_its_granule_together(text: str, element_bytes: int) -> None:
    tile = mapping.parse("(64,64):(64,1)", element_bytes, text)
    expected = min(16, tile.transform.granule * element_bytes)
    assert tile.vector_bytes() == expected


def test_padding_keeps_alignment_only_in_whole_vectors() -> None:
    assert mapping.parse("(32,32):(32,1)", 4, pad=1).vector_bytes() == 4
    assert mapping.parse("(32,32):(32,1)", 4, pad=4).vector_bytes() == 16
    assert mapping.parse("(32,32):(32,1)", 4, pad=1).bytes == 32 * 33 * 4
    assert mapping.parse("(8,8):(1,8)", 4).vector_bytes() == 16, "down the columns"


TMA = [
    ("(64,64):(64,1)", 2, "128B", "128B"),
    ("(64,64):(64,1)", 2, None, "none"),
    ("(64,128):(128,1)", 2, "128B", None),  # rows of 256 bytes are too long for a box
    ("(64,128):(128,1)", 2, "3,3,4", None),
    ("(64,32):(32,1)", 2, "64B", "64B"),
    ("(64,64):(64,1)", 2, "64B", None),
    ("(32,33):(33,1)", 4, None, None),
]


def test_which_mappings_tma_can_write() -> None:
    modes = [(*given, mapping.tma_mode(mapping.parse(*given))) for *given, _ in TMA]
    assert modes == TMA


# ---------------------------------------------------------------------------------------------- squares


def test_squares_are_latin_ones() -> None:
    assert [np.argsort(row).tolist() for row in swizzle.SQUARE_4] == [
        [2, 3, 1, 0],
        [0, 1, 2, 3],
        [1, 0, 3, 2],
        [3, 2, 0, 1],
    ]
    square = np.array(swizzle.square_32())
    assert (np.sort(square, axis=0) == np.arange(32)[:, None]).all()
    assert (np.sort(square, axis=1) == np.arange(32)).all()
    tile = Mapping(layout.parse_layout("(32,32):(32,1)"), Table(swizzle.square_32()))
    assert tile.collision() is None


# ---------------------------------------------------------------------------------------------- the CUDA source

SOURCE = (paths.kernels() / "common" / "layout.cuh").read_text(encoding="utf-8")
CASES = [
    (policy, rows, columns, element_bytes, unit_bytes)
    for policy in catalog.NAMES if policy != "Sudoku" and f"struct {policy} " in SOURCE
    for rows, columns, element_bytes, unit_bytes in
    [(64, 128, 2, 16), (64, 64, 2, 16), (32, 32, 4, 4), (32, 32, 4, 8), (32, 32, 4, 16)]
]  # fmt: skip


def output(folder: Path, *command: str) -> list[int]:
    """Return the numbers that a program prints, once it is compiled."""
    program = str(folder / "program")
    subprocess.run([*command, "-std=c++17", "-o", program], check=True, capture_output=True)
    return [int(word) for word in subprocess.run([program], check=True, capture_output=True).stdout.split()]


def expected(policy: str, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> list[int]:
    tile = catalog.policy_mapping(policy, rows, columns, element_bytes, unit_bytes)
    unit = unit_bytes // element_bytes
    cells = tile.addresses(np.arange(rows)[:, None], np.arange(0, columns, unit)[None, :])
    return [tile.bytes, *cells.ravel().tolist()]


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_the_policies_are_the_mappings(tmp_path: Path) -> None:
    lines = [
        f"    print<layout::{policy}<{columns * size}, {unit}>>({rows}, {columns * size // unit});"
        for policy, rows, columns, size, unit in CASES
    ]
    (tmp_path / "cases.h").write_text("\n".join(lines), encoding="utf-8")
    include = (f"-I{paths.kernels() / 'common'}", f"-I{tmp_path}")
    printed = output(tmp_path, "nvcc", "--expt-relaxed-constexpr", *include, str(DATA / "kernels" / "policies.cu"))
    assert printed == [number for case in CASES for number in expected(*case)]


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_the_square_of_the_cuda_source_is_the_table(tmp_path: Path) -> None:
    square = SOURCE[SOURCE.index("struct Square {") : SOURCE.index("static __device__ const Square")]
    source = tmp_path / "square.cpp"
    source.write_text(
        f"#include <cstdint>\n#include <cstdio>\n{square}\n"
        'int main() { Square s; for (auto &row : s.place) for (int p : row) printf("%d\\n", p); }\n',
        encoding="utf-8",
    )
    printed = output(tmp_path, "g++", str(source))
    assert np.array(printed).reshape(32, 32).tolist() == [list(row) for row in swizzle.square_32()]


def test_the_boxes_of_tma() -> None:
    """Chunk c of row r: bits 4 to 6 of the address XORed with bits 7 to 9, as far as a row of the box has chunks."""
    for span in (32, 64, 128):
        rows, columns, chunks = 16, 128, span // 16
        tile = catalog.boxed(span, rows, columns, 2)
        for row in range(rows):
            for chunk in range(columns // 8):
                inner = (chunk ^ (row * span // 128)) % chunks
                place = chunk // chunks * rows * span + row * span + inner * 16
                assert int(tile.addresses(row, 8 * chunk)) == place
        assert mapping.tma_mode(catalog.boxed(span, rows, span // 2, 2)) == f"{span}B"


def test_a_policy_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="Nonsense"):
        catalog.policy_mapping("Nonsense", 32, 32, 4, 4)
    assert isinstance(catalog.policy_mapping("Padded", 32, 32, 4, 4).transform, Padding)


@pytest.mark.long
def test_the_model_needs_numpy_alone() -> None:
    code = "import sys, ncu_swizzle.smem; print([n for n in ('pandas', 'jinja2', 'rich', 'typer') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


def test_ldmatrix_is_served_in_phases_of_eight_rows_of_four_banks() -> None:
    tile = mapping.parse("(64,64):(64,1)", 2)
    phases = list(loads(bankmap.build(tile, access.parse("ldmatrix", tile.layout, 2))))[:4]
    assert [phase.words for phase in phases] == [(*[0] * i, *[8] * 4, *[0] * (28 - i)) for i in (0, 0, 4, 4)]
    assert [phase.lanes for phase in phases] == [tuple(range(n, n + 8)) for n in (0, 8, 16, 24)]
    assert phases[0].cells == tuple((row, 0) for row in range(8))
    assert {(phase.request, phase.phases, phase.busiest) for phase in phases} == {(0, 4, 8)}


def test_a_broadcast_is_one_word_but_an_atomic_counts_every_lane() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4)
    same = np.zeros((1, 32), np.int64)
    for op, words in (("ld.shared.b32", 1), ("atom.shared.add.u32", 32)):
        (load,) = loads(bankmap.build(tile, Access("same", op, same, same)))
        assert (load.busiest, load.every_lane) == (words, words == 32)


def test_inactive_lanes_want_nothing_and_the_worst_request_comes_first() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4)
    lane, zero = np.arange(32), np.zeros(32, np.int64)
    active = np.ones((3, 32), bool)
    active[1, 4:] = False
    three = Access("three", "ld.shared.b32", np.stack([zero, lane, lane]), np.stack([lane, zero, zero]), active)
    built = bankmap.build(tile, three)
    assert worst_request([built]) == 2
    assert [load.request for load in loads(built, 2)] == [2, 0, 1]
    assert [load.busiest for load in loads(built)] == [1, 4, 32]
    assert next(loads(built, 1)).lanes == (0, 1, 2, 3)


# ---------------------------------------------------------------------------------------------- limits

HUGE = "1" + "0" * 5000
OP = "ld.shared.b32"


LAYOUTS = (
    "", "8", "(8,8)", "(8,8):", "(8,8):(1)", "(8,:(1,2)", "(8,8):(1,8))", "(a,8):(1,8)", "(8,8):(1,-8)",
    "(0,8):(1,8)", "():()", "(8,8):(1,8) o", "(999999,999999):(0,0)", "(8,8):(1,99999999999)",
    "(100000,100000):(1,1)", "(1048576,1):(1,1)", f"({HUGE},1):(1,1)", f"(8,8):(1,{HUGE})", "(8,8):(1,9999999999)",
    "(" * 5000 + "1" + ")" * 5000 + ":1", "(1," * 3000 + "1" + ")" * 3000 + ":1", "(" * 200_000,
    "(" + "1," * 200_000 + "1):1", "1:0 o " * 100_000 + "1:0", "(" * 40 + "1" + ")" * 40 + ":1",
)  # fmt: skip
NO_SWIZZLES = (
    *("3,2", "3,2,1", "mul:3,2,3", "bytes:3,1,3", "99,0,99", "256B", "", "sudoku"),
    *(f"{HUGE},1,1", f"3,{HUGE},3", f"3,3,-{HUGE}", "9" * 30 + ",1,1", "3,200,3"),
)
ACCESSES = (f"row:{HUGE}", f"{OP}@{'(' * 5000},0", f"{OP}@{'tid+' * 5000}0,0", f"{OP}@{'9' * 30},0")
EXPRESSIONS = ("tid*" * 5000 + "1", "(" * 9000, "-" * 9999 + "1", "tid << 40 << 40", "tid * " + "9" * 30)
PRODUCTS = (*("tid + 4294967296*4294967296", "tid*4294967296*4294967296", "1099511627775<<40", "-tid*(1<<40)*(1<<40)"),)


def test_what_is_not_valid_or_absurd_is_refused() -> None:
    tile = mapping.parse("(8,8):(8,1)")
    assert accepted(parse_layout, *LAYOUTS) == []
    assert accepted(lambda text: parse_swizzle(text, 4, columns=8), *NO_SWIZZLES) == []
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
