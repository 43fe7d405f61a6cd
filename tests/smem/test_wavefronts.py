"""The rules of shared, global and local memory, and what wgmma and TMA access, against what an H100 counted."""

import lzma
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.figures import wavefronts as measured_rules
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, WARPS, Descriptor, box_chunks, warpgroup_wavefronts
from ncu_swizzle.smem.operations import LDMATRIX, STMATRIX, WARP
from tests.support.places import DATA, measured, text

LANE = np.arange(WARP)
EVERY_LANE = np.ones(WARP, bool)


Request = tuple[str, NDArray[np.int64], NDArray[np.bool_]]


def counts(op: str, addresses: Any, active: Any = None, source: Any = None) -> tuple[int, int]:
    """Return actual and ideal of one request that is known."""
    result = wavefronts(op, addresses, active, source)
    assert result.known.all()
    return int(result.actual[0]), int(result.ideal[0])


def test_what_is_known_is_what_was_measured_and_next_to_everything_is() -> None:
    measurements = {of_gpu.op: of_gpu for of_gpu in measured_rules.measurements()}
    assert measurements.keys() == set(operations.NAMES)
    for op, of_gpu in measurements.items():
        result = wavefronts(op, of_gpu.addresses, of_gpu.active, of_gpu.source)
        np.testing.assert_array_equal(result.actual[result.known], of_gpu.actual[result.known], op)
        np.testing.assert_array_equal(result.ideal[result.known], of_gpu.ideal[result.known], op)
        assert len(of_gpu.actual) >= 48, op
        assert (~result.known).sum() == {"cp.async.cg.16": 9, "cp.async.cg.16.zfill": 1}.get(op, 0), op


def test_the_table_in_the_docs_is_the_one_that_the_program_prints() -> None:
    page = (paths.kernels().parent / "docs" / "wavefronts.md").read_text(encoding="utf-8")
    table = page.split("<!-- accuracy -->\n")[1].split("\n<!-- /accuracy -->")[0]
    assert table == measured_rules.accuracy(), "paste what python3 bench/figures/wavefronts.py prints"


# ---------------------------------------------------------------------------------------------- examples by hand

PAST_L1 = "cp.async.cg.16"
NAMES = {"LANE": LANE, "ROW": LANE // 8, "CHUNK": LANE % 8, "where": np.where}
NAMES["TAIL"] = np.where(LANE < 9, 16 * LANE, -1)
BY_HAND = text("smem/requests.txt").partition("\n\n")[2].splitlines()


def test_requests_counted_by_hand() -> None:
    wrong = []
    for line in (line for line in BY_HAND if not line.startswith("#")):
        op, *arrays, expected = (part.strip() for part in line.split(";"))
        found = "{} {}".format(*counts(op, *(eval(array, NAMES) if array else None for array in arrays)))
        wrong += [f"{line}, not {found}"] if found != expected else []
    assert wrong == []


def test_a_sector_with_a_chunk_that_is_read_twice_is_not_known() -> None:
    lanes, source = LANE < 3, np.where(LANE < 2, 80, 64)
    addresses = np.where(LANE == 0, 64, np.where(LANE == 1, 96, 80))
    unknown = wavefronts(PAST_L1, addresses, lanes, source)
    assert (unknown.known[0], unknown.actual[0], unknown.ideal[0], unknown.excessive[0]) == (False, -1, 1, -1)
    assert wavefronts(PAST_L1, addresses, lanes, source + 16 * (LANE == 2) * 2).known[0]


# ---------------------------------------------------------------------------------------------- any pattern


@st.composite
def requests(draw: st.DrawFn, names: list[str]) -> Request:
    """Draw an operation, up to 4 requests with few different banks, and their masks."""
    op = draw(st.sampled_from(names))
    operation = operations.find(op)
    seed, count, span = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 4)), draw(st.sampled_from([4, 40, 400]))
    random = np.random.default_rng(seed)
    addresses = random.integers(0, span, (count, WARP)) * operation.width_bytes
    active = random.random((count, WARP)) < draw(st.sampled_from([0.2, 0.7, 1.0]))
    if operation.kind in (LDMATRIX, STMATRIX):
        active[:] = True
    return op, addresses, active


@given(requests(list(operations.NAMES)), st.integers(1, 50))
def test_what_holds_for_any_request(request: Request, rows: int) -> None:
    op, addresses, active = request
    result = wavefronts(op, addresses, active)
    some = active.any(axis=1)
    assert result.known.all()
    assert (result.actual >= result.ideal).all()
    assert (result.ideal[some] >= 1).all()
    assert (result.actual[~some] == 0).all()
    assert (result.actual <= 2 * WARP).all()
    assert (result.excessive == result.actual - result.ideal).all()
    assert_equal(wavefronts(op, addresses + 128 * rows, active), result)  # whole rows of banks further on
    assert_equal(wavefronts(op, np.where(active, addresses, -1), active), result)  # inactive lanes do not matter
    for index in range(len(addresses)):
        alone = wavefronts(op, addresses[index], active[index])
        one = (result.actual[index], result.ideal[index], result.known[index])
        assert (alone.actual[0], alone.ideal[0], alone.known[0]) == one


@settings(max_examples=20)
@given(requests(list(operations.NAMES)))
def test_many_requests_are_counted_in_chunks_without_a_seam(request: Request) -> None:
    op, addresses, active = request
    few = wavefronts(op, addresses, active)
    times = (1 << 10) // len(addresses) + 1
    many = wavefronts(op, np.tile(addresses, (times, 1)), np.tile(active, (times, 1)))
    assert (many.actual == np.tile(few.actual, times)).all()


def assert_equal(left: Any, right: Any) -> None:
    for name in ("actual", "ideal", "known"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


# ---------------------------------------------------------------------------------------------- input


def test_one_request_may_be_a_plain_list_and_none_at_all_is_fine() -> None:
    assert counts("ld.shared.b32", [4 * lane for lane in range(32)]) == (1, 1)
    for op in operations.NAMES:
        assert wavefronts(op, np.zeros((0, WARP), int)).actual.shape == (0,)


def test_types_and_vectors_of_the_same_size_will_do() -> None:
    others = ("ld.shared.f32", "ld.shared.u32", "st.shared.v4.f32", "ld.shared.v2.b64", "st.shared.v2.u16")
    names = ["ld.shared.b32", "ld.shared.b32", "st.shared.v4.b32", "ld.shared.v4.b32", "st.shared.b32"]
    assert [operations.find(name).name for name in others] == names


def test_an_unknown_operation_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"unknown operation 'ldmatrix.x3', did you mean 'ldmatrix.x[124]'\?") as error:
        wavefronts("ldmatrix.x3", LANE)
    assert "ld.shared.b32" in error.value.hint
    for name in ("ld.shared.v4.b64", "ld.shared", "", "st.global.b32"):
        with pytest.raises(UsageError, match="unknown operation"):
            wavefronts(name, LANE)


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("ld.shared.b32", (np.zeros(31, int),), r"addresses of shape \(31,\)"),
    ("ld.shared.b32", (np.zeros((2, 3, 32), int),), r"addresses of shape \(2, 3, 32\)"),
    ("ld.shared.b32", (np.zeros(32),), "addresses of type float64"),
    ("ld.shared.b32", (LANE,), r"ld.shared.b32 faults at address 1 \(request 0, lane 1\)"),
    ("ld.shared.b32", (-4 * LANE,), r"faults at address -4"),
    ("ld.shared.b32", (4 * LANE, EVERY_LANE[:31]), r"active of shape \(1, 31\)"),
    ("ld.shared.b32", (4 * LANE, LANE), "type int64"),
    ("ldmatrix.x4", (16 * LANE, LANE < 31), r"ldmatrix\.x4 with inactive lanes"),
    ("cp.async.ca.8", (8 * LANE, None, 4 * LANE), r"cp\.async\.ca\.8 faults at address 4"),
    (PAST_L1, (16 * LANE, None, LANE << 45), "too far apart"),
    ("cp.async.ca.8", (8 * LANE, None, np.zeros((2, WARP), int)), "2 requests in source, 1 in addresses"),
]


def test_arrays_that_do_not_fit_are_refused() -> None:
    for op, arrays, message in WRONG:
        with pytest.raises(UsageError, match=message) as error:
            wavefronts(op, *arrays)
        assert error.value.hint, message


ROWS = {"A": 64, "B": 128}
WORDS = 64  # of a row of the tensor that the boxes are of


def test_descriptors_read_what_was_measured() -> None:
    rows = measured("descriptor_reads")
    assert len(rows) == 2800
    for row in rows:
        fields = (int(row[name]) for name in ("start", "leading", "stride", "base_offset", "mode"))
        descriptor = Descriptor(*fields)
        chunks = descriptor.chunks(ROWS[row["side"]], row["mn"] == "1")
        read = (chunks.T if row["mn"] == "1" else chunks).ravel() // CHUNK
        assert read.tolist() == [int(chunk) for chunk in row["chunks"].split()], descriptor


def test_bits_are_the_fields() -> None:
    bits = 0x1230 >> 4 | 8192 >> 4 << 16 | 1024 >> 4 << 32 | 5 << 49 | 1 << 62
    assert Descriptor.of_bits(bits) == Descriptor(0x1230, 8192, 1024, 5, 1)


def test_boxes_are_where_they_were_measured() -> None:
    rows = measured("boxes")
    placed = [row for row in rows if row["result"] == "placed"]
    assert len(placed) == 144
    for row in placed:
        span, columns, down = BOX_SPANS[int(row["swizzle"])], int(row["columns"]), int(row["rows"])
        chunks = box_chunks(down, 4 * columns, span, int(row["start"])) // CHUNK
        held = row["words"].split()
        expected = np.full(len(held), -1)
        expected[chunks] = np.arange(down)[:, None] * WORDS + np.arange(columns // 4) * 4
        assert [-1 if word == "." else int(word) for word in held] == expected.tolist()


def test_the_wavefronts_of_a_wgmma_follow_from_its_shape() -> None:
    rows = measured("wgmma")
    assert len(rows) == 1298
    for row in rows:
        shape = re.search(r"64x(\d+)x", row["sass"])
        a_in_shared = ", R" not in row["sass"].split("gdesc")[0].split(" ", 1)[1]
        per_group = warpgroup_wavefronts(int(shape[1]), a_in_shared, ".SP." in row["sass"])
        expected = int(row["executed"]) * per_group / WARPS
        assert int(row["wavefronts"]) == int(row["ideal"]) == expected, row
    # The rule names no descriptor, so the measurements must not all share one.
    fields = ("mode", "leading", "stride", "start", "base_offset")
    assert len({tuple(row[f"a_{field}"] for field in fields) for row in rows}) > 100
    assert {row["a_mode"] for row in rows} == {row["b_mode"] for row in rows} == {"0", "1", "2", "3"}


# ---------------------------------------------------------------------------------------------- global and local memory


@pytest.fixture(scope="module")
def sectors(bench: Callable[[str], ModuleType]) -> Any:
    return bench("figures.sectors")


# The rule of wavefronts past L1 says 7 of one copy with 8, which reads a chunk twice: docs/wavefronts.md, "Limits".
DIFFERENT = [("cp.async.cg.shared.global.16 placed", 8, 7)]
NO_RULE = {
    "memory_l1_wavefronts_shared": {"ATOM", "LDGSTS", "LDGSTS.BYPASS"},
    "memory_l1_wavefronts_shared_ideal": {"ATOM", "LDGSTS", "LDGSTS.BYPASS"},
    "memory_l2_theoretical_sectors_global": {"LDGSTS.BYPASS"},
    "memory_l2_theoretical_sectors_global_ideal": {"LDGSTS.BYPASS"},
}


def test_every_figure_of_every_instruction_is_the_rules_except_for_what_has_none(sectors: Any) -> None:
    m = sectors.measurements()
    accesses = ~m.where("mode", "construct")
    for half in ("0", "1"):
        assert (accesses & m.where("held_out", half)).sum() > 10_000
    different, without = [], {}
    for column, ours in sectors.predicted(m).items():
        theirs = m.measured(column)
        known = (ours != sectors.UNKNOWN) & (theirs != sectors.NOT_MEASURED)
        for number in np.flatnonzero(known & (ours != theirs)):
            different.append((m.rows[number]["form"], theirs[number], ours[number]))
        no_rule = accesses & (ours == sectors.UNKNOWN) & (theirs != sectors.NOT_MEASURED)
        if no_rule.any():
            without[column] = {sectors.opcode(m.rows[number]["sass"]) for number in np.flatnonzero(no_rule)}
    assert different == DIFFERENT
    assert without == NO_RULE
    # Of what reads and writes global memory, only copies of zeros past L1 under !P0 have no rule.
    unknown = accesses & (sectors.predicted(m)[sectors.SECTORS] == sectors.UNKNOWN) & (m.measured(sectors.SECTORS) >= 0)
    assert {bool(re.match(r"@!P0 LDGSTS.*BYPASS.*, !?P\d$", m.rows[n]["sass"])) for n in np.flatnonzero(unknown)} == {
        True
    }


@pytest.mark.long
def test_a_branch_counts_the_places_that_its_threads_go_to(sectors: Any) -> None:
    m = sectors.measurements()
    uniform, divergent = (m.measured(column) for column in sectors.TARGETS)
    executed, threads, taken = (m.measured(c) for c in (sectors.EXECUTED, sectors.THREADS, sectors.PREDICATED_ON))
    branches = np.isin(m.opcodes, ["BRA", "CALL"])
    assert (branches | (m.opcodes == "BRX") == (uniform != sectors.NOT_MEASURED)).all()
    assert (uniform + divergent == executed)[branches].all()
    once = branches & (executed == 1)
    assert (divergent == ((taken > 0) & (taken < threads)))[once].all()
    for number in np.flatnonzero(m.opcodes == "BRX"):
        pattern = m.pattern_of[np.flatnonzero(m.row_of == number)[0]]
        labels = "ABAC" if m.rows[number]["form"] == "table" else "ABCD"  # as in bench/recording/memory_kernels.py
        targets = len({labels[value] for value in (m.extra[pattern] & 3)[m.live[number]].tolist()})
        assert (uniform[number], divergent[number]) == (targets == 1, targets - 1)


def test_the_hardware_s_counter_differs_for_atomics_and_for_copies_past_l1(sectors: Any) -> None:
    kernels = list(sectors.counters(sectors.measurements()))
    assert len(kernels) > 50
    for kernel in kernels:
        other = kernel.form.startswith(("atom", "red", "cp.async.cg"))
        assert kernel.hardware == (kernel.instead if other else kernel.counted), kernel


def test_the_page_has_the_tables_of_the_data(sectors: Any) -> None:
    page = text("../../docs/sectors.md")
    for name, table in (("accuracy", sectors.accuracy()), ("hardware", sectors.hardware())):
        assert page.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- /{name} -->")[0] == table, (
            "paste what python3 bench/figures/sectors.py prints"
        )


def replayed(sectors: Any, kernel: str, live: str) -> int:
    """Compare an emulated kernel of branches with what was measured of one launch; return the number of figures."""
    rows = [row for row in sectors.measurements().rows if (row["kernel"], row["live"]) == (kernel, live)]
    code = lzma.decompress((DATA / sectors.BRANCHES[kernel]).read_bytes())
    figures = list(sectors.compared(sectors.emulated(code, kernel, int(live, 16)), rows))
    assert [figure for figure in figures if figure[3] is not None and figure[2] != figure[3]] == []
    return sum(figure[3] is not None for figure in figures)


@pytest.mark.long
def test_the_emulator_counts_threads_and_divergence_as_ncu_does(sectors: Any) -> None:
    assert replayed(sectors, "branches_0", "a5c3f01e") > 13_000
    assert replayed(sectors, "more_branches_0", "a5c3f01e") > 600


@pytest.mark.long
@pytest.mark.parametrize("live", ["ffffffff", "0000ffff", "00010000"])
def test_so_it_does_for_other_masks(sectors: Any, live: str) -> None:
    assert replayed(sectors, "branches_0", live) > 13_000
