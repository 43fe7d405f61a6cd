"""Tiles from tensor maps to wgmma and tcgen05.mma, mbarriers and clusters: by hand, an H100's and an oracle's."""

import gzip
import json
import math
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from bench.oracles.gemms import A, MutatedCase, ShapeCase, followed, mutated_cases, repaired, shape_case
from bench.oracles.tile_oracle import outcome
from bench.oracles.umma_cases import UmmaCase
from bench.oracles.umma_mutations import umma_case
from ncu_swizzle.base import codes
from ncu_swizzle.emulate.code import STEP, Sass, parse_instruction
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.effects import effects
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.tensor_map import Tiled, copied_bytes, decoded_map
from ncu_swizzle.emulate.tensor_probes import roundings
from ncu_swizzle.smem.descriptors import UmmaDescriptor, UmmaShape
from tests.support.emulation import IN, OUT, kernel, pointers
from tests.support.places import DATA as ALL_DATA
from tests.support.places import measured, table

CASES = table("emulate/tiles.toml")
LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("measured", "shapes", "tcgen05_more")]
groups = pytest.mark.parametrize("group", ["quick", pytest.param("tcgen05", marks=pytest.mark.long), *LONG])


def case(label: str) -> MutatedCase | ShapeCase:
    measured = (one for one in mutated_cases() if one.label == label)
    return next(measured, None) or shape_case(label)


def cases(group: str, computes: str) -> Iterator[tuple[MutatedCase | ShapeCase | UmmaCase, Any]]:
    """Yield the cases of a group whose results are right or wrong, and what is said of each."""
    find = umma_case if group.startswith("tcgen05") else case
    for label, said in CASES[group][computes].items():
        one = find(label)
        assert one.right == (computes == "right"), label
        yield one, said


@groups
def test_what_computes_right_results_is_not_flagged(group: str) -> None:
    for one, count in cases(group, "right"):
        found = one.judged()
        assert (list(found.misfits), list(found.lacking), found.followed) == ([], [], count), one.label


@pytest.mark.long
@groups
def test_what_computes_wrong_results_is_named(group: str) -> None:
    for one, said in cases(group, "wrong"):
        pattern = ".*".join(map(re.escape, said.split(".*")))
        messages = [f"{misfit.code} {misfit.message}" for misfit in one.judged().misfits]
        assert any(re.search(pattern, message) for message in messages), (one.label, messages)


@pytest.mark.long
def test_what_is_named_fits() -> None:
    for label in CASES["shapes"]["repaired"]:
        wrong = shape_case(label)
        message = wrong.judged().misfits[0].message
        after = repaired(wrong, message)
        assert after.right, message
        assert not after.judged().misfits, message


@pytest.mark.long
def test_what_is_not_known_is_said() -> None:
    for label, why in CASES["unknown"].items():
        found = shape_case(label).judged()
        assert not found.misfits, label
        assert why in found.lacking, label


@pytest.mark.long
def test_a_launch_says_what_does_not_fit() -> None:
    code = kernel("tiles", "kk")
    counts = emulate(code, case("0 A SBO 512").launch())
    blamed = [code.instructions[misfit.offset // STEP].text for misfit in counts.tiles.misfits]
    assert len(blamed) == 4
    assert all(text.startswith("HGMMA") for text in blamed)
    assert not counts.unknown


@pytest.mark.parametrize("label", ["0 as it is", "0 A SBO 512", "0 K pairs swapped", "5 A map outer size 512"])
def test_a_gemm_computes_what_it_did(label: str) -> None:
    case = next(one for one in mutated_cases() if one.label == label)
    assert outcome(case.gemm(), case.arrangements) == case.fields["result"]


def test_descriptors_are_read_as_they_are_encoded() -> None:
    bits = 0x1234 | 5 << 16 | 64 << 32 | 1 << 46 | 3 << 49 | 1 << 52 | 4 << 61
    one = UmmaDescriptor.of_bits(bits)
    assert (one.start, one.leading, one.stride, one.base_offset, one.span) == (0x12340, 80, 1024, 3, 64)
    assert one.absolute
    shape = UmmaShape.of_bits(1 << 4 | 1 << 7 | 1 << 10 | 1 << 16 | 16 << 17 | 8 << 24, "UTCHMMA", (), scaled=False)
    assert (shape.m, shape.n, shape.types) == (128, 128, ("bf16", "bf16"))
    assert (shape.a_mn_major, shape.b_mn_major) == (False, True)
    assert not shape.refused


def test_packed_types_and_larger_atoms_are_encoded_as_ptxas_replaces_them() -> None:
    # tensormap.replace writes the type to bits 7 to 10 of the mode word, and the atoms to bits 19 to 21.
    for data_type, code, bits in ((13, 11, 4), (14, 12, 4), (15, 13, 6)):
        tensor = Tiled(A, data_type, (256, 64), (256,), (128, 64), 4)
        content = tensor.encoded()
        mode = struct.unpack_from("<I", content, 8)[0]
        assert (mode >> 7 & 15, mode >> 13 & 3, mode >> 19 & 7) == (code, 3, 1)
        assert decoded_map(content) == tensor
        assert copied_bytes(content) == 128 * 64 * bits // 8  # gaps are not counted


@pytest.mark.parametrize(
    ("lane", "column", "stored", "code", "said"),
    [
        (32, 8, 16, "", ""),
        (16, 0, 8, codes.TENSOR_LANES, "begins in lane 16 of tensor memory: 0 would fit"),
        (0, 28, 32, codes.TENSOR_COLUMNS, "columns 28 to 35"),
        (0, 8, 8, codes.TENSOR_ORDER, "columns 8 to 15 of tensor memory, which nothing has written"),
    ],
)
def test_a_shift_is_of_32_lanes_and_8_columns(lane: int, column: int, stored: int, code: str, said: str) -> None:
    parameters = struct.pack("<Qiii", A, lane, column, stored)
    found = followed("shift", "shifted", Launch(grid=(1, 1, 1), block=(128, 1, 1), parameters=parameters))
    assert [misfit.code for misfit in found.misfits] == ([code] if code else [])
    assert all(said in misfit.message for misfit in found.misfits)


@pytest.mark.long
def test_what_a_product_is_added_to_was_written() -> None:
    launch = Launch(grid=(1, 1, 1), block=(128, 1, 1), parameters=pointers(0)[:16])
    for name, said in (("two_issue", []), ("added_to_nothing", ["columns 0 to 15 of tensor memory, which nothing"])):
        misfits = [each for each in followed("tensor_races", name, launch).misfits if each.code == codes.TENSOR_ORDER]
        assert [part in each.message for part, each in zip(said, misfits, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("shift", "found"), [("R.U32.HI UR4, URZ, 0x5, UR6", {0: 16}), ("L.U32 UR4, UR6, 0x5, URZ", {})]
)
def test_only_a_shift_to_the_right_makes_units_of_columns(shift: str, found: dict[int, int]) -> None:
    sass = [f"USHF.{shift}", "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR5, UR4"]
    assert roundings([parse_instruction(Sass(16 * k, text)) for k, text in enumerate(sass)]) == found


@pytest.mark.parametrize(
    ("m", "n", "pair", "shared", "math", "columns"),
    [
        (128, 64, False, 48, 32, (4, 2)),
        (128, 128, False, 64, 64, (4, 4)),
        (128, 256, False, 96, 128, (4, 8)),
        (256, 256, True, 64, 128, (4, 8)),
        (128, 256, True, 48, 64, (2, 4)),
    ],
)
def test_the_time_of_an_instruction_and_the_columns_of_its_scale_factors(
    m: int, n: int, pair: bool, shared: float, math: float, columns: tuple[int, int]
) -> None:
    """The time is that of shared memory or of the math; a pair's smaller tile is split like its columns."""
    bits, words = n >> 3 << 17 | m >> 4 << 24, ("2CTA",) if pair else ()
    shape = UmmaShape.of_bits(1 << 4 | bits, "UTCHMMA", words, scaled=False)
    assert shape.cycles(a_in_shared=True) == (shared, math)
    assert bool(shape.bound(a_in_shared=True)) == (shared > math)
    assert not shape.bound(a_in_shared=False)
    scaled = UmmaShape.of_bits(bits, "UTCQMMA", words, scaled=True)
    assert scaled.scale_columns == columns, "as CUTLASS allocates them: tmem_sf_frg"


def test_uniform_registers_beyond_62_are_registers_of_their_own() -> None:
    def written(sass: str) -> int:
        return effects(parse_instruction(Sass(0, sass))).writes

    ones = [written(sass) for sass in ("UMOV UR63, 0x1", "UMOV UR66, 0x1", "ISETP.GE.AND P2, PT, R2, 0x1, PT")]
    assert len(set(ones)) == len(ones)
    assert all(ones)
    assert not written("UMOV URZ, 0x1")


MAP_AT = 0x70  # in the parameters
BOX = 64 * 64 * 2
TILES = 10
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # by CUtensorMapDataType


def encoded_maps() -> Iterator[dict[str, Any]]:
    with gzip.open(ALL_DATA / "tensor_maps_h100.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from (entry for entry in map(json.loads, lines) if entry["status"] == 0)


def tensor_map(box_bytes: int = BOX) -> bytes:
    """Return a map of 64 x 64 elements of 16 bits: a measured one with another box."""
    entry = next(m for m in encoded_maps() if (m["box"], m["dtype"], m["swizzle"]) == ([64, 32], 6, 0))
    content = bytearray.fromhex(entry["map"])
    content[56] = 63
    struct.pack_into("<I", content, 64, box_bytes)
    return bytes(content)


def with_map(content: bytes, *values: int, form: str) -> bytes:
    return bytes(MAP_AT) + content + struct.pack(form, *values)


def counted(counts: Counts, opcode: str) -> list[tuple[int | None, int | None, int | None]]:
    return [(r.executed, r.wavefronts, r.ideal) for r in counts.rows if r.opcode.split(".")[0] == opcode and r.access]


def specialised(content: bytes, *, grid: tuple[int, int, int], row_words: int) -> Counts:
    parameters = with_map(content, OUT, TILES, row_words, form="<Qii")
    launch = Launch(grid=grid, block=(384, 1, 1), shared_dynamic=9 * BOX, parameters=parameters)
    return emulate(kernel("hopper", "specialised"), launch)


@pytest.mark.long
@pytest.mark.parametrize("content", [tensor_map(), tensor_map(BOX - 1)], ids=["known map", "unknown map"])
def test_producers_and_consumers_of_a_pipeline_wait_for_each_other(content: bytes) -> None:
    counts = specialised(content, grid=(3, 2, 1), row_words=64)
    assert not counts.unknown
    warps = 6 * 8  # of the consumers
    assert counted(counts, "HGMMA") == [(warps * TILES, 8 * warps * TILES, 8 * warps * TILES)] * 4
    assert counted(counts, "STS") == [(warps, 8 * warps, warps)] * 8  # rows of 64 words: 8 of them in each request
    assert counted(counts, "LDS") == [(warps, warps, warps)]


@pytest.mark.long
def test_how_often_a_wait_goes_round_is_unknown() -> None:
    counts = specialised(tensor_map(), grid=(1, 1, 1), row_words=68)
    unknown = {row.opcode.split(".")[0]: row.reason for row in counts.rows if row.executed is None}
    assert "USETMAXREG" in unknown
    assert "when registers are free" in unknown["USETMAXREG"]
    assert "how long a barrier in shared memory takes" in unknown["SYNCS"]
    assert counted(counts, "STS") == [(8, 8, 8)] * 8


def test_threads_that_a_waiting_one_leaves_behind_go_on_without_it() -> None:
    """On an H100, BSYNC lets the other threads of the warp pass as soon as one yields while it waits."""
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1), parameters=struct.pack("<Qi", OUT, 6))
    rows = {row.offset: row for row in emulate(kernel("hopper", "mailbox"), launch).rows}
    assert rows[0x550].executed is None
    assert rows[0x550].wavefronts is None
    assert "how long a barrier in shared memory takes" in rows[0x550].reason
    assert rows[0x4E0].executed == 3, "one warp, and the two parts of the other"
    assert rows[0x320].executed == 6, "what only the thread that waits executes is known"


@pytest.mark.long
def test_blocks_of_a_cluster_copy_for_each_other() -> None:
    parameters = with_map(tensor_map(), OUT, TILES, form="<Qi")
    launch = Launch(grid=(6, 1, 1), block=(256, 1, 1), shared_dynamic=9 * BOX, parameters=parameters, cluster=(2, 1, 1))
    for exhaustive in (False, True):
        counts = emulate(kernel("hopper", "multicast"), launch, exhaustive=exhaustive)
        assert not counts.unknown
        assert counted(counts, "HGMMA") == [(6 * 4 * TILES, 6 * 32 * TILES, 6 * 32 * TILES)] * 4


def test_what_an_mbarrier_orders_is_read_in_order() -> None:
    """A consumer that overtakes its producer, or falls behind it, would use another stride."""
    launch = Launch(grid=(2, 1, 1), block=(64, 1, 1), parameters=struct.pack("<Qi", OUT, 6))
    counts = emulate(kernel("hopper", "mailbox"), launch)
    last = [row for row in counts.rows if row.sass.startswith("LDS R5")]
    assert counts.unknown == tuple(last), "all but what comes after the threads should have reconverged"
    strided = 2 * sum(2**i for i in range(6))
    assert counted(counts, "STS") == [(12, 12, 12), (12, strided, 12)]


def test_states_of_arrivals_and_copies_that_arrive() -> None:
    parameters = struct.pack("<QQi", IN, OUT, 6)
    counts = emulate(kernel("hopper", "tokens"), Launch(grid=(2, 1, 1), block=(64, 1, 1), parameters=parameters))
    assert not counts.unknown
    strided = 4 * sum(2**i for i in range(6))
    assert counted(counts, "STS") == [(24, 12, 12), (24, strided, 24)]
    assert counted(counts, "LDGSTS") == [(24, 24, 24)]


MAP = {
    OUT + (1 << 20) - 128: Tiled(OUT, 2, (256, 256), (1024,), (32, 8)).encoded()
}  # where bench/recording/hopper has it


@pytest.mark.long
def test_clusters_and_bulk_copies_count_as_measured() -> None:
    rows = measured("cluster")
    launches = dict.fromkeys((row["kernel"], row["a"], row["b"]) for row in rows)
    assert len(launches) == 21
    for name, a, b in launches:
        blocks = 2 if name in ("distributed", "bulk") else 1
        parameters = struct.pack("<QQiiQ", int(a), int(b), 0, 0, OUT)
        launch = Launch(
            grid=(blocks, 1, 1), block=(32, 1, 1), parameters=parameters, cluster=(blocks, 1, 1), memory=MAP
        )
        counts = emulate(kernel("cluster", name), launch)
        assert not counts.unknown, (name, a, b)
        ours = [(r.sass, r.executed, r.wavefronts, r.ideal) for r in counts.rows if r.access]
        theirs = [
            (row["sass"], int(row["executed"]), int(row["wavefronts"]), int(row["ideal"]))
            for row in rows
            if (row["kernel"], row["a"], row["b"]) == (name, a, b) and row["wavefronts"]
        ]
        assert ours == theirs, (name, a, b)


def test_tensor_maps_are_encoded_and_decoded_as_the_driver_encodes_them() -> None:
    """All bytes are understood but those of maps whose element strides do not divide the box."""
    tiled = understood = 0
    for entry in encoded_maps():
        content = bytes.fromhex(entry["map"])
        steps = list(zip(entry["box"], entry["steps"], strict=False))  # of im2col none
        plain = not entry["channels"] and set(entry["steps"]) == {1}
        places = (tuple(entry[name]) for name in ("sizes", "strides", "box"))
        settings = {name: entry[name] for name in ("swizzle", "interleave", "promotion", "fill")}
        ours = Tiled(entry["address"], entry["dtype"], *places, **settings)
        assert decoded_map(content) == (ours if plain else None), entry
        assert not plain or ours.encoded() == content, entry
        elements = entry["channels"] * entry["pixels"] or math.prod(-(-box // step) for box, step in steps)
        found = copied_bytes(content)
        assert found in (None, elements * ELEMENT_BYTES[entry["dtype"]]), entry
        assert found is not None or any(box % step for box, step in steps), entry
        tiled, understood = tiled + plain, understood + (found is not None)
    assert (tiled, understood) == (121, 153)
