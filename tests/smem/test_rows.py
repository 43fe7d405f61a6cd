"""The rows of a tile as its accesses show them, what no mapping changes, and the code of a mapping against its text."""

from collections.abc import Iterator

import numpy as np
import pytest

from ncu_swizzle.smem import code, floors, operations
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.observed import RowLength, Touched, row_length
from ncu_swizzle.smem.operations import Ints
from ncu_swizzle.smem.suggestions import suggest
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, Swizzle, Transform, XorMatrix

LANE = np.arange(32)


def touched(*elements: Ints) -> Touched:
    rows = 4 * np.stack([np.atleast_1d(each) for each in elements])
    return Touched(rows, np.ones(rows.shape, bool), 4)


def rows_of(width: int, pitch: int, halo: int = 0) -> Iterator[Ints]:
    """Yield requests of 32 lanes that cover rows of so many threads, shifted over a halo."""
    x, y = LANE % width, LANE // width
    for first in range(0, 16, 32 // width):
        for shift in range(halo + 1):
            yield (y + first + shift) * pitch + x + shift


def test_rows_are_inferred_from_all_lanes_of_all_accesses() -> None:
    backwards = [128 * (LANE // 16 + first) + 127 - (j + LANE % 16) for first in (0, 2) for j in range(0, 128, 16)]
    for what, length, requests in (
        ("16 x 4 threads on rows of 128, not of 113", 512, backwards),
        ("17 wide", 68, rows_of(16, 17)), ("24 wide", 96, rows_of(16, 24)),
        ("16 and a halo of 2", 72, rows_of(16, 18, 2)), ("8 and a halo of 4", 48, rows_of(8, 12, 4)),
        ("a column, and rows copied two at a time", 64, [LANE * 16, *(LANE + 32 * row for row in range(8))]),
    ):  # fmt: skip
        every = touched(*requests)
        assert row_length([every], 0) == RowLength(length), what
        moved = Touched(every.addresses + 1040, every.used, 4)
        assert row_length([moved], None) == RowLength(length), f"{what}, which begin nobody knows where"
    begun = row_length([touched(*(4 + LANE // 4 * 8 + LANE % 4 for _ in range(2)))], 0)
    assert begun == RowLength(32), "the first half of each row is not accessed"


def test_rows_that_no_length_explains_are_not_known() -> None:
    thread = np.arange(256).reshape(8, 32)
    sort = [2 * thread - (thread & (d - 1)) for d in (1, 2, 4, 8, 16, 32, 64, 128)]
    for what, requests in (
        ("a bitonic sort", [row for step in sort for row in step]),
        ("a diagonal and a column", [LANE * 33, LANE * 32]),
        ("one interval tells nothing", [LANE, LANE + 32]),
        ("nothing", []),
    ):
        assert row_length([touched(*requests)] if requests else [], 0) is None, what


@pytest.mark.parametrize("seed", range(8))
def test_no_mapping_takes_fewer_wavefronts_than_the_floor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in operations.NAMES:
        operation = operations.find(name)
        rows, columns = rng.integers(0, 32, (2, 3, 32))
        if rng.random() < 0.5:
            rows = np.broadcast_to(LANE % rng.integers(1, 33), rows.shape)
        active = None if "matrix" in name or rng.random() < 0.5 else rng.random((3, 32)) < 0.7
        source = rng.integers(0, 64, (3, 32)) * operation.width_bytes if operation.kind == operations.COPY else None
        access = Access(name, name, rows, columns, active, source)
        plain = Mapping(Layout((32, 32), (32, 1)), element_bytes=operation.width_bytes)
        for bits in (0, 2, 5):
            mapping = Mapping(plain.layout, Swizzle(bits=bits, base=0, shift=5), operation.width_bytes)
            counted = access.wavefronts(mapping)
            assert (floors.least(access, plain, counted.ideal) <= counted.actual)[counted.known].all(), name


def test_what_no_layout_changes_is_said() -> None:
    plain = Mapping(Layout((32, 32), (32, 1)))
    wide = Mapping(Layout((32, 8), (8, 1)), element_bytes=16)
    half_lines = LANE // 4 * 128 + LANE % 4 * 16
    doubles = Access("part", "st.shared.b64", LANE[None] // 16, LANE[None] % 16, active=(LANE % 16 < 2)[None])
    for says, tile, access in (
        ("32 lanes of a request update one word", plain,
         Access("bin", "atom.shared.add.u32", LANE[None] * 0, LANE[None] * 0)),
        ("a request takes 8 passes to read its source, and 4 would do", wide,
         Access("copy", "cp.async.ca.16", LANE[None] // 8, LANE[None] % 8, source=half_lines[None])),
        ("the 4 active lanes of a request lie in 2 of its phases", Mapping(plain.layout, element_bytes=8), doubles),
    ):  # fmt: skip
        found = suggest(tile, [access])
        assert found.best is not None
        assert found.best.mapping == tile, "another layout is not advised"
        ((_, why),) = found.fixed
        assert says in why


def test_padding_that_is_there_already_gives_way_to_an_xor() -> None:
    x, y = LANE % 16, LANE // 16
    steps = np.arange(0, 16, 2)[:, None]
    written = Access("write", "st.shared.b32", y + steps, x + 0 * steps)
    read = Access("read", "ld.shared.b32", x + 0 * steps, y + steps)
    found = suggest(Mapping(Layout((16, 17), (17, 1))), [written, read])
    assert found.best is not None
    assert found.best.spelled.startswith("rows of 16 instead of 17 elements of 4 bytes, with Swizzle<4,0,4>")
    assert (found.best.extra_bytes, found.tried.lengths) == (-64, 33)


@pytest.mark.parametrize(
    ("plain", "transform"),
    [
        (Layout((8, 32), (32, 1)), Swizzle(bits=3, base=0, shift=5)),
        (Layout((8, 24), (24, 1)), RowXor(columns=24, rows=0, bits=2, base=1, drop=1)),
        (Layout((8, 20), (20, 1)), Padding(20, 28)),
        (Layout((8, 32), (32, 1)), XorMatrix(((1, 4), (5, 3)))),
        (Layout((8, 12), (12, 1)), Swapped(columns=12, rows=8)),
    ],
)
def test_code_is_checked_as_it_is_printed(plain: Layout, transform: Transform) -> None:
    mapping = Mapping(plain, transform)
    rows, columns = (part.reshape(-1, 32) for part in np.indices(mapping.shape))
    access = Access("a", "ld.shared.b32", rows, columns)
    for flat in (False, True):
        text = code.cuda(mapping, flat=flat, now=0 if flat else plain.modes[1].size)
        assert code.contradiction(text, mapping, [access]) == ""
        for wrong in (text.replace("* 4;", "* 0;"), text.replace("kBytes = ", "kBytes = 1; //"), "struct Tile {};"):
            assert code.contradiction(wrong, mapping, [access]) != ""
    other = Mapping(plain, Padding(plain.modes[1].size, 3))
    assert "elsewhere" in code.contradiction(code.cuda(other), mapping, [access])
    pairs = Access("pairs", "ld.shared.b64", rows, columns // 2 * 2)
    whole = code.contradiction(code.cuda(mapping), mapping, [pairs]) == ""
    assert whole is (transform.granule % 2 == 0), "a vector's elements have to stay side by side"


def test_rows_that_only_have_columns_read_are_swapped() -> None:
    """Two rows of 16 lanes, down the columns of a halo tile: no XOR, and no bytes either."""
    x, y = LANE % 16, LANE // 16
    halo = np.array([(step + dy, dx) for step in range(0, 16, 2) for dy in range(3) for dx in range(3)])[:, :, None]
    read = Access("read", "ld.shared.b32", y + halo[:, 0], x + halo[:, 1])
    found = suggest(Mapping(Layout((18, 18), (18, 1))), [read])
    assert found.best is not None
    assert found.best.mapping.transform == Swapped(columns=18, rows=18)
    assert found.best.spelled == "swapped indices on elements of 4 bytes (column * 18 + row)"


def test_what_narrower_accesses_would_allow_is_told() -> None:
    stores = Access("write", "st.shared.v4.b32", LANE[None] // 4, LANE[None] % 4 * 4)
    reads = Access("read", "ld.shared.b32", LANE[None] % 16, LANE[None] // 16)
    found = suggest(Mapping(Layout((16, 16), (16, 1))), [stores, reads])
    assert found.best is None
    assert found.apart is not None
    assert (found.narrow, found.apart.clean) == (4, True)
