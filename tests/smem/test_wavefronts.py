"""The wavefront model against what an H100 was measured to do, and against what must hold for any pattern."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LOAD, SPIN, STMATRIX, STORE, WARP

LANE = np.arange(WARP)
EVERY_LANE = np.ones(WARP, bool)
KINDS = {name: operations.find(name).kind for name in operations.NAMES}
PHASED = [
    name for name, kind in KINDS.items() if kind != COPY and (kind != LOAD or operations.find(name).width_bytes < 8)
]


def benchmark() -> Any:
    """Import bench/wavefronts.py, which is a program."""
    file = paths.kernels().parent / "bench" / "wavefronts.py"
    spec = importlib.util.spec_from_file_location("bench_wavefronts", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCHMARK = benchmark()
MEASURED = {measured.op: measured for measured in BENCHMARK.measurements()}


def counts(op: str, addresses: Any, active: Any = None, source: Any = None) -> tuple[int, int]:
    """Return actual and ideal of one request that is known."""
    result = wavefronts(op, addresses, active, source)
    assert result.known.all()
    return int(result.actual[0]), int(result.ideal[0])


@pytest.mark.parametrize("op", operations.NAMES)
def test_what_is_known_is_what_was_measured(op: str) -> None:
    measured = MEASURED[op]
    result = wavefronts(op, measured.addresses, measured.active, measured.source)
    np.testing.assert_array_equal(result.actual[result.known], measured.actual[result.known])
    np.testing.assert_array_equal(result.ideal[result.known], measured.ideal[result.known])


@pytest.mark.parametrize("op", operations.NAMES)
def test_next_to_everything_measured_is_known(op: str) -> None:
    measured = MEASURED[op]
    assert len(measured.actual) >= 48
    unknown = (~wavefronts(op, measured.addresses, measured.active, measured.source).known).sum()
    assert unknown == {"cp.async.cg.16": 9, "cp.async.cg.16.zfill": 1}.get(op, 0)


def test_the_table_in_the_docs_is_the_one_that_the_program_prints() -> None:
    text = (paths.kernels().parent / "docs" / "wavefronts.md").read_text(encoding="utf-8")
    table = text.split("<!-- accuracy -->\n")[1].split("\n<!-- /accuracy -->")[0]
    assert table == BENCHMARK.accuracy(), "paste what python3 bench/wavefronts.py prints"


# Worked examples of the articles
def test_phases_of_wide_accesses() -> None:
    for op, lanes, phases in (("ld.shared.b32", 32, 1), ("ld.shared.b64", 16, 2), ("st.shared.v4.b32", 8, 4)):
        operation = operations.find(op)
        assert (operation.lanes, len(operation.phases)) == (lanes, phases)
    assert operations.find("ldmatrix.x2").phases == (range(8), range(8, 16))


def test_lanes_of_different_phases_do_not_conflict() -> None:
    addresses = 16 * (LANE % 8) + 128 * (LANE // 8)
    assert counts("st.shared.v4.b32", addresses) == (4, 4)
    within = addresses.copy()
    within[1] = 128  # the chunk of lane 0, one row further on
    assert counts("st.shared.v4.b32", within) == (5, 4)


def test_ldmatrix_on_rows_of_128_bytes_is_8_way_and_the_xor_of_the_row_frees_it() -> None:
    row, matrix = LANE % 8, LANE // 8
    assert counts("ldmatrix.x4", 128 * row + 16 * matrix) == (32, 4)
    assert counts("ldmatrix.x4", 128 * row + 16 * (matrix ^ row)) == (4, 4)


def test_fragment_stores_of_4_bytes_on_rows_of_256_bytes_are_8_way() -> None:
    group, pair = LANE // 4, LANE % 4
    assert counts("st.shared.b32", 256 * group + 4 * pair) == (8, 1)
    assert counts("st.shared.b32", 256 * group + 16 * group + 4 * pair) == (1, 1)


@pytest.mark.parametrize(("pitch", "expected"), [(32, 32), (33, 1), (34, 2), (36, 4)])
def test_a_column_of_a_tile(pitch: int, expected: int) -> None:
    assert counts("ld.shared.b32", 4 * pitch * LANE) == (expected, 1)
    assert counts("st.shared.b32", 4 * pitch * LANE) == (expected, 1)


def test_a_row_of_column_major_8x8_floats_before_and_after_the_swizzle_of_3_2_3() -> None:
    offset = 8 * (LANE % 8)
    assert counts("ld.shared.b32", 4 * offset, LANE < 8) == (2, 1)
    assert counts("ld.shared.b32", 4 * (offset ^ (offset >> 3 & 0b11100)), LANE < 8) == (1, 1)


def test_a_broadcast_is_free_for_loads_and_costs_atomics_every_lane() -> None:
    zero = np.zeros(WARP, int)
    assert counts("ld.shared.b32", zero) == (1, 1)
    assert counts("ld.shared.v4.b32", zero) == (2, 2)
    assert counts("red.shared.add.u32", zero) == (32, 1)
    assert counts("atom.shared.cas.b32", zero) == (64, 2)


# Loads that merge
def test_a_64_bit_load_of_equal_pairs_takes_one_wavefront() -> None:
    assert counts("ld.shared.b64", 8 * (LANE // 2)) == (1, 1)
    assert counts("ld.shared.b64", 8 * (LANE & ~2)) == (2, 2)  # pairs, but of 32 x 8 bytes: two rows of banks
    assert counts("ld.shared.b64", 8 * (LANE % 16)) == (2, 2)  # no pairs
    assert counts("st.shared.b64", 8 * (LANE // 2)) == (2, 2)


def test_what_lane_31_does_to_the_lower_half_of_a_128_bit_load() -> None:
    scattered = 16 * (LANE * 5 % 8)
    paired = 16 * (LANE // 2 % 8)
    assert counts("ld.shared.v4.b32", scattered) == (4, 4)
    assert counts("ld.shared.v4.b32", paired) == (2, 2)
    assert counts("ld.shared.v4.b32", scattered, LANE != 31) == (3, 3)
    assert counts("ld.shared.v4.b32", scattered, LANE != 16) == (4, 4)
    assert counts("ld.shared.v4.b32", paired, LANE != 16) == (2, 2)
    assert counts("ld.shared.v4.b32", paired, LANE != 0) == (3, 3)  # lane 1 has no pair


def test_a_single_address_is_broadcast_to_16_lanes_of_a_128_bit_load_at_a_time() -> None:
    one = 0 * LANE
    assert counts("ld.shared.v4.b32", one, LANE != 0) == (2, 2)
    assert counts("ld.shared.v4.b32", one, LANE % 2 == 0) == (1, 1)  # 16 lanes of both halves
    assert counts("ld.shared.v4.b32", one, (LANE % 2 == 0) | (LANE == 31)) == (2, 2)  # 17
    assert counts("ld.shared.v4.b32", 16 * (LANE // 16), LANE % 2 == 0) == (2, 2)  # an address for each half
    assert counts("ld.shared.v2.b32", one, LANE != 0) == (1, 1)


# cp.async
def test_a_copy_of_rows_in_order_or_permuted_by_xor_is_ideal() -> None:
    row, chunk = LANE // 8, LANE % 8
    for op in ("cp.async.cg.16", "cp.async.ca.16"):
        for xor in range(8):
            assert counts(op, 128 * row + 16 * (chunk ^ xor)) == (4, 4)


def test_past_l1_a_rotation_by_an_odd_number_of_chunks_takes_twice_as_many() -> None:
    row, chunk = LANE // 8, LANE % 8
    for shift in range(8):
        rotated = 128 * row + 16 * ((chunk + shift) % 8)
        assert counts("cp.async.cg.16", rotated) == (8 if shift % 2 else 4, 4)
        assert counts("cp.async.ca.16", rotated) == (4, 4)


def test_lanes_that_write_zeros_take_a_second_pass_past_l1_and_read_no_bank_through_it() -> None:
    row = 16 * LANE
    tail = np.where(LANE < 9, row, -1)
    assert counts("cp.async.cg.16", row, source=tail) == (2 + 4, 2 + 4)
    assert counts("cp.async.cg.16", row, LANE < 8, tail) == (1, 1)  # none of them writes zeros
    assert counts("cp.async.cg.16.zfill", row, LANE < 8, tail) == (2, 2)
    assert counts("cp.async.ca.16", row, source=128 * LANE) == (32, 4)  # all read one bank
    assert counts("cp.async.ca.16", row, source=np.where(LANE % 8 < 2, 128 * LANE, -1)) == (8, 4)


def test_a_64_bit_exchange_conflicts_within_half_a_warp() -> None:
    assert counts("atom.shared.exch.b64", 8 * LANE) == (2, 2)
    assert counts("atom.shared.exch.b64", 16 * LANE) == (4, 2)
    assert counts("atom.shared.cas.b64", 16 * LANE) == (8, 4)


def test_lanes_that_copy_to_one_address_count_once_past_l1_and_each_through_it() -> None:
    zero = np.zeros(WARP, int)
    assert counts("cp.async.cg.16", zero) == (1, 1)
    assert counts("cp.async.ca.16", zero) == (32, 4)
    assert counts("cp.async.ca.4", zero) == (32, 1)


def test_through_l1_lanes_conflict_where_they_read_as_well_as_where_they_write() -> None:
    row, chunk = LANE // 8, LANE % 8
    assert counts("cp.async.ca.4", 4 * LANE) == (4, 1)  # four lines, read at the same banks
    assert counts("cp.async.ca.4", 4 * (chunk ^ row)) == (7, 1)  # and written from different ones: 4 + 4 - 1
    assert counts("cp.async.ca.4", 4 * chunk) == (4, 1)  # the same conflicts twice are no more


def test_a_source_in_another_order() -> None:
    assert counts("cp.async.cg.16", 16 * LANE, source=16 * (31 - LANE)) == (4, 4)  # chunks XOR 7
    assert counts("cp.async.cg.16", 16 * LANE, source=4096 * (LANE // 8) + 16 * (LANE % 8)) == (4, 4)
    assert counts("cp.async.ca.4", 4 * LANE, source=4 * LANE) == (1, 1)
    assert counts("cp.async.ca.4", 4 * LANE, source=128 * LANE) == (32, 1)


def test_past_l1_a_chunk_that_goes_to_two_places_takes_two_wavefronts() -> None:
    lanes = LANE < 2
    assert counts("cp.async.cg.16", 64 * LANE, lanes, source=0 * LANE) == (2, 1)


def test_a_sector_with_a_chunk_that_is_read_twice_is_not_known() -> None:
    lanes, source = LANE < 3, np.where(LANE < 2, 80, 64)
    addresses = np.where(LANE == 0, 64, np.where(LANE == 1, 96, 80))
    unknown = wavefronts("cp.async.cg.16", addresses, lanes, source)
    assert (unknown.known[0], unknown.actual[0], unknown.ideal[0], unknown.excessive[0]) == (False, -1, 1, -1)
    assert wavefronts("cp.async.cg.16", addresses, lanes, source + 16 * (LANE == 2) * 2).known[0]


# What holds for any pattern
@st.composite
def requests(draw: st.DrawFn, names: list[str]) -> tuple[str, NDArray[np.int64], NDArray[np.bool_]]:
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


@given(requests(list(operations.NAMES)))
def test_bounds(request: tuple[str, NDArray[np.int64], NDArray[np.bool_]]) -> None:
    op, addresses, active = request
    result = wavefronts(op, addresses, active)
    some = active.any(axis=1)
    assert result.known.all()
    assert (result.actual >= result.ideal).all()
    assert (result.ideal[some] >= 1).all()
    assert (result.actual[~some] == 0).all()
    assert (result.actual <= 2 * WARP).all()
    assert (result.excessive == result.actual - result.ideal).all()


@given(requests(list(operations.NAMES)), st.integers(1, 50))
def test_a_shift_by_whole_rows_of_banks_changes_nothing(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]], rows: int
) -> None:
    op, addresses, active = request
    assert_equal(wavefronts(op, addresses + 128 * rows, active), wavefronts(op, addresses, active))


@given(requests(list(operations.NAMES)))
def test_addresses_of_inactive_lanes_do_not_matter(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    op, addresses, active = request
    assert_equal(wavefronts(op, np.where(active, addresses, -1), active), wavefronts(op, addresses, active))


@given(requests(list(operations.NAMES)))
def test_requests_together_are_the_requests_apart(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    op, addresses, active = request
    together = wavefronts(op, addresses, active)
    for index in range(len(addresses)):
        alone = wavefronts(op, addresses[index], active[index])
        assert (alone.actual[0], alone.ideal[0], alone.known[0]) == (
            together.actual[index],
            together.ideal[index],
            together.known[index],
        )


@given(requests(PHASED), st.randoms(use_true_random=False))
def test_the_order_of_lanes_within_a_phase_does_not_matter(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]], random: Any
) -> None:
    op, addresses, active = request
    order = LANE.copy()
    for phase in operations.find(op).phases:
        order[phase.start : phase.stop] = random.sample(list(phase), len(phase))
    assert_equal(wavefronts(op, addresses[:, order], active[:, order]), wavefronts(op, addresses, active))


@given(requests([name for name, kind in KINDS.items() if kind == STORE]))
def test_a_load_never_takes_more_than_the_store_of_its_width(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    op, addresses, active = request
    load = wavefronts(op.replace("st.", "ld."), addresses, active)
    assert (load.actual <= wavefronts(op, addresses, active).actual).all()


# Compare-and-swap of a loop reads what a load before it has read.
@given(requests([name for name, kind in KINDS.items() if kind == ATOMIC and name != SPIN]))
def test_an_atomic_never_takes_less_than_a_load(request: tuple[str, NDArray[np.int64], NDArray[np.bool_]]) -> None:
    op, addresses, active = request
    assert (wavefronts(op, addresses, active).actual >= wavefronts("ld.shared.b32", addresses, active).actual).all()


@settings(max_examples=20)
@given(requests(list(operations.NAMES)))
def test_many_requests_are_counted_in_chunks_without_a_seam(
    request: tuple[str, NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    op, addresses, active = request
    few = wavefronts(op, addresses, active)
    times = (1 << 10) // len(addresses) + 1
    many = wavefronts(op, np.tile(addresses, (times, 1)), np.tile(active, (times, 1)))
    assert (many.actual == np.tile(few.actual, times)).all()


def assert_equal(left: Any, right: Any) -> None:
    for name in ("actual", "ideal", "known"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


# Input
def test_one_request_may_be_a_plain_list_and_none_at_all_is_fine() -> None:
    assert counts("ld.shared.b32", [4 * lane for lane in range(32)]) == (1, 1)
    for op in operations.NAMES:
        assert wavefronts(op, np.zeros((0, WARP), int)).actual.shape == (0,)


@pytest.mark.parametrize("name", ["ld.shared.f32", "ld.shared.u32", "ld.shared.s32"])
def test_a_type_of_the_same_size_will_do(name: str) -> None:
    assert operations.find(name).name == "ld.shared.b32"


def test_the_widths_of_vectors() -> None:
    assert operations.find("st.shared.v4.f32").name == "st.shared.v4.b32"
    assert operations.find("ld.shared.v2.b64").name == "ld.shared.v4.b32"
    assert operations.find("st.shared.v2.u16").name == "st.shared.b32"


def test_an_unknown_operation_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"unknown operation 'ldmatrix.x3', did you mean 'ldmatrix.x[124]'\?") as error:
        wavefronts("ldmatrix.x3", LANE)
    assert "ld.shared.b32" in error.value.hint
    for name in ("ld.shared.v4.b64", "ld.shared", "", "st.global.b32"):
        with pytest.raises(UsageError, match="unknown operation"):
            wavefronts(name, LANE)


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        (np.zeros(31, int), r"addresses of shape \(31,\)"),
        (np.zeros((2, 3, 32), int), r"addresses of shape \(2, 3, 32\)"),
        (np.zeros(32), "addresses of type float64"),
        (LANE, r"ld.shared.b32 faults at address 1 \(request 0, lane 1\)"),
        (-4 * LANE, r"faults at address -4"),
    ],
)
def test_addresses_that_cannot_be(addresses: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        wavefronts("ld.shared.b32", addresses)
    assert error.value.hint


def test_masks_and_sources_that_cannot_be() -> None:
    with pytest.raises(UsageError, match=r"active of shape \(1, 31\)"):
        wavefronts("ld.shared.b32", 4 * LANE, EVERY_LANE[:31])
    with pytest.raises(UsageError, match="type int64"):
        wavefronts("ld.shared.b32", 4 * LANE, LANE)
    with pytest.raises(UsageError, match=r"ldmatrix\.x4 with inactive lanes"):
        wavefronts("ldmatrix.x4", 16 * LANE, LANE < 31)
    assert counts("ldmatrix.x1", 16 * LANE, LANE < 8) == (1, 1)
    with pytest.raises(UsageError, match=r"cp\.async\.ca\.8 faults at address 4"):
        wavefronts("cp.async.ca.8", 8 * LANE, source=4 * LANE)
    with pytest.raises(UsageError, match="too far apart"):
        wavefronts("cp.async.cg.16", 16 * LANE, source=LANE << 45)
    with pytest.raises(UsageError, match="2 requests in source, 1 in addresses"):
        wavefronts("cp.async.ca.8", 8 * LANE, source=np.zeros((2, WARP), int))
