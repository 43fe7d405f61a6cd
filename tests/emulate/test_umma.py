"""tcgen05: what is said of mutated layouts, against an oracle of our own; no Blackwell was at hand."""

import re

import pytest

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.code import Sass, parse_instruction
from ncu_swizzle.emulate.effects import effects
from ncu_swizzle.smem.tensor_core import UmmaDescriptor, UmmaShape
from tests.support.umma_cases import UmmaCase, right_cases
from tests.support.umma_mutations import mutated_cases

MUTATED = 1100  # of some 18,000
RIGHT = {case.label: case for case in right_cases()}
PER_TILE = 4  # instructions
LONG = pytest.mark.long
RIGHT_TOO = [pytest.param(label, marks=LONG) for label in ("f16 2 128x64 64", "i8 1 64x64 16")]


def of_label(label: str) -> UmmaCase:
    bases = (case for case in RIGHT.values() if label.startswith(f"{case.label} "))
    return next(case for case in mutated_cases(bases) if case.label == label)


@pytest.mark.parametrize("label", ["f16 1 128x128 128", "tf32 1 mm 128", *RIGHT_TOO])
def test_what_computes_right_results_is_not_flagged(label: str) -> None:
    case = RIGHT[label]
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
        pytest.param("f16 1 128x128 128 instruction bit 7", codes.VALUES, "takes its elements for bf16", marks=LONG),
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


@pytest.mark.slow
def test_every_wrong_case_is_flagged_and_no_right_one() -> None:
    cases = [*mutated_cases(RIGHT.values())]
    chosen = cases[:: len(cases) // MUTATED]
    wrong = [case.label for case in chosen if bool(case.judged().misfits) == (case.fate == "right")]
    assert wrong == []


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


def test_uniform_registers_beyond_62_are_registers_of_their_own() -> None:
    def written(sass: str) -> int:
        return effects(parse_instruction(Sass(0, sass))).writes

    ones = [written(sass) for sass in ("UMOV UR63, 0x1", "UMOV UR66, 0x1", "ISETP.GE.AND P2, PT, R2, 0x1, PT")]
    assert len(set(ones)) == len(ones)
    assert all(ones)
    assert not written("UMOV URZ, 0x1")
