"""tcgen05: what is said of mutated layouts, against an oracle of our own; no Blackwell was at hand."""

import re
import struct

import pytest

from bench.gemms import A, followed
from ncu_swizzle.base import codes
from ncu_swizzle.emulate.code import Sass, parse_instruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.effects import effects
from ncu_swizzle.emulate.tensor_map import Tiled, copied_bytes, decoded
from ncu_swizzle.emulate.tensor_probes import roundings
from ncu_swizzle.smem.tensor_core import UmmaDescriptor, UmmaShape
from tests.support.umma_cases import UmmaCase, right_cases, stored_cases
from tests.support.umma_mutations import mutated_cases

MUTATED = 1100  # of some 44,000
RIGHT = {case.label: case for case in right_cases()}
STORED = {case.label: case for case in stored_cases()}
BY_THREADS = 200  # of some 4,000
PER_TILE = 4  # instructions
LONG = pytest.mark.long
RIGHT_TOO = [pytest.param(label, marks=LONG) for label in ("f16 2 128x64 64", "i8 1 64x64 16", "mxf4 2 256x128 64")]


def of_label(label: str) -> UmmaCase:
    bases = (case for case in (RIGHT | STORED).values() if label.startswith(f"{case.label} "))
    return next(case for case in mutated_cases(bases) if case.label == label)


@pytest.mark.parametrize(
    "label",
    ["f16 1 128x128 128", "tf32 1 mm 128", "e2m3 1 km 128", "nvf4 1 128x64 128", "stored f16 1 mk 64", *RIGHT_TOO],
)
def test_what_computes_right_results_is_not_flagged(label: str) -> None:
    case = (RIGHT | STORED)[label]
    assert case.fate == "right"
    found = case.judged()
    assert not found.misfits
    assert not found.lacking
    assert found.followed == case.gemm.tiles * PER_TILE


@pytest.mark.parametrize(
    ("label", "code", "said"),
    [
        ("f16 1 128x128 128 a stride 512", codes.TILE, "an SBO of 1024 would fit"),
        ("f16 1 mm 128 instruction bit 15", codes.TILE, "the other transpose flag would fit"),
        pytest.param("f16 2 256x256 128 a peer x0", codes.TILE, "as a row before it is", marks=LONG),
        ("f16 1 128x128 128 a version 0", codes.DESCRIPTOR, "is 0, and Blackwell's is 1"),
        ("f16 1 128x128 128 b layout 3", codes.DESCRIPTOR, "the layouts are"),
        ("f16 1 128x128 128 instruction bit 8", codes.INSTRUCTION, "takes only one width"),
        ("f16 2 256x128 128 instruction bit 28", codes.INSTRUCTION, "M is 0: 128 or 256 would fit"),
        ("f16 1 128x128 128 allocated x0.5", codes.TENSOR_COLUMNS, "an allocation of 128 would fit"),
        pytest.param(
            "f16 1 128x128 128 allocated 96", codes.TENSOR_ALLOCATION, "32, 64, 128, 256 or 512 would fit", marks=LONG
        ),
        pytest.param("f16 1 128x32 64 allocated 48", codes.TENSOR_ALLOCATION, "it asks for 48 columns", marks=LONG),
        ("f16 1 128x128 128 freed 0", codes.TENSOR_ALLOCATION, "128 columns of tensor memory that are allocated here"),
        ("f16 1 128x128 128 column 32", codes.TENSOR_COLUMNS, "columns 32 to 159"),
        ("tf32 1 mm 128 a layout 2", codes.TILE, "32-byte atoms"),
        ("stored f16 1 128x128 128 a layout 4", codes.TILE, "row 1, k 0 is (32, 0); the 128-byte mode would fit"),
        ("stored f16 1 128x128 128 b further x0.5", codes.ALONG_K, "k 0 of A is element 32 along K"),
        (
            "stored f16 1 128x128 128 map b swizzle 2",
            codes.TILE,
            "but row 4, k 0 is (32, 4)",
        ),
        pytest.param("f16 1 128x128 128 instruction bit 7", codes.VALUES, "takes its elements for bf16", marks=LONG),
        ("e2m1 1 128x128 128 map a dtype 15", codes.VALUES, "of type 16U6_ALIGN16B, and tcgen05.mma takes"),
        ("e3m2 1 128x128 128 map b sizes x0.5", codes.TENSOR_MAP, "128 and a multiple of it fit"),
        ("mxf4 1 128x128 128 instruction bit 23", codes.INSTRUCTION, "1, ue8m0, would fit"),
        ("nvf4 1 128x128 128 instruction bit 29", codes.INSTRUCTION, "is 1: 0 would fit"),
        ("nvf4 1 128x128 128 scales_a stride 64", codes.TILE, "row 8 has those 64 bytes from those of row 0, and 128"),
        ("mxf8 1 128x64 128 scales_b reads 1", codes.TILE, "they begin with word 1 of 16 bytes"),
        ("mxf8 1 128x128 128 instruction bit 5", codes.ALONG_K, "do not advance along K as B does"),
        pytest.param("mxf4 1 128x128 128 scales_a further 0", codes.ALONG_K, "as A does", marks=LONG),
        pytest.param("mxf4 1 128x256 32 scales_b column -4", codes.TENSOR_ORDER, "of several tensor maps", marks=LONG),
        pytest.param("mxf4 1 128x128 128 scales_b column 0", codes.TENSOR_ORDER, "takes results of a", marks=LONG),
    ],
)
def test_what_computes_wrong_results_is_named(label: str, code: str, said: str) -> None:
    case = of_label(label)
    assert case.fate != "right"
    messages = [misfit.message for misfit in case.judged().misfits if misfit.code == code]
    assert re.search(re.escape(said), " / ".join(messages)), case.judged().misfits


def test_descriptors_are_read_as_they_are_encoded() -> None:
    bits = 0x1234 | 5 << 16 | 64 << 32 | 1 << 46 | 3 << 49 | 1 << 52 | 4 << 61
    one = UmmaDescriptor.of_bits(bits)
    assert (one.start, one.leading, one.stride, one.base_offset, one.span) == (0x12340, 80, 1024, 3, 64)
    assert one.absolute
    shape = UmmaShape.of_bits(1 << 4 | 1 << 7 | 1 << 10 | 1 << 16 | 16 << 17 | 8 << 24, "UTCHMMA", (), scaled=False)
    assert (shape.m, shape.n, shape.types, shape.a_mn_major, shape.b_mn_major) == (
        128,
        128,
        ("bf16", "bf16"),
        False,
        True,
    )
    assert not shape.refused


def test_packed_types_and_larger_atoms_are_encoded_as_ptxas_replaces_them() -> None:
    # tensormap.replace writes the type to bits 7 to 10 of the mode word, and the atoms to bits 19 to 21.
    for data_type, code, bits in ((13, 11, 4), (14, 12, 4), (15, 13, 6)):
        tensor = Tiled(A, data_type, (256, 64), (256,), (128, 64), 4)
        content = tensor.encoded()
        mode = struct.unpack_from("<I", content, 8)[0]
        assert (mode >> 7 & 15, mode >> 13 & 3, mode >> 19 & 7) == (code, 3, 1)
        assert decoded(content) == tensor
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


@pytest.mark.parametrize(
    ("shift", "found"), [("R.U32.HI UR4, URZ, 0x5, UR6", {0: 16}), ("L.U32 UR4, UR6, 0x5, URZ", {})]
)
def test_only_a_shift_to_the_right_makes_units_of_columns(shift: str, found: dict[int, int]) -> None:
    sass = [f"USHF.{shift}", "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR5, UR4"]
    assert roundings([parse_instruction(Sass(16 * k, text)) for k, text in enumerate(sass)]) == found


@pytest.mark.slow
def test_every_wrong_case_is_flagged_and_no_right_one() -> None:
    cases = [*mutated_cases(RIGHT.values())]
    chosen = cases[:: len(cases) // MUTATED]
    wrong = [case.label for case in chosen if bool(case.judged().misfits) == (case.fate == "right")]
    assert wrong == []


@pytest.mark.slow
def test_tiles_that_threads_store_are_followed_if_they_are_right_and_never_taken_for_right_if_not() -> None:
    mutated = [*mutated_cases(STORED.values())]
    for case in (*STORED.values(), *mutated[:: len(mutated) // BY_THREADS]):
        found, right = case.judged(), case.fate == "right"
        assert not (right and found.misfits), case.label
        assert right or found.misfits or found.lacking, case.label


@pytest.mark.parametrize(
    ("m", "n", "pair", "shared", "math"),
    [(128, 64, False, 48, 32), (128, 128, False, 64, 64), (128, 256, False, 96, 128), (256, 256, True, 64, 128)],
)
def test_the_time_of_an_instruction_is_that_of_shared_memory_or_of_the_math(
    m: int, n: int, pair: bool, shared: float, math: float
) -> None:
    bits = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    shape = UmmaShape.of_bits(bits, "UTCHMMA", ("2CTA",) if pair else (), scaled=False)
    assert shape.cycles(a_in_shared=True) == (shared, math)
    assert bool(shape.bound(a_in_shared=True)) == (shared > math)
    assert not shape.bound(a_in_shared=False)


@pytest.mark.parametrize(
    ("m", "n", "pair", "columns"),
    [(128, 64, False, (4, 2)), (128, 256, False, (4, 8)), (256, 256, True, (4, 8)), (128, 256, True, (2, 4))],
)
def test_scale_factors_of_a_pairs_smaller_tile_are_split_like_its_columns(
    m: int, n: int, pair: bool, columns: tuple[int, int]
) -> None:
    shape = UmmaShape.of_bits(n >> 3 << 17 | m >> 4 << 24, "UTCQMMA", ("2CTA",) if pair else (), scaled=True)
    assert shape.scale_columns == columns, "as CUTLASS allocates them: tmem_sf_frg"


def test_uniform_registers_beyond_62_are_registers_of_their_own() -> None:
    def written(sass: str) -> int:
        return effects(parse_instruction(Sass(0, sass))).writes

    ones = [written(sass) for sass in ("UMOV UR63, 0x1", "UMOV UR66, 0x1", "ISETP.GE.AND P2, PT, R2, 0x1, PT")]
    assert len(set(ones)) == len(ones)
    assert all(ones)
    assert not written("UMOV URZ, 0x1")
