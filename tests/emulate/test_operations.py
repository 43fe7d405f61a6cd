"""Each operation against plain Python integers, for any numbers."""

import math
import operator
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.emulate.code import PRED, UREG, Sass, parse_instruction
from ncu_swizzle.emulate.dependence import block_axis
from ncu_swizzle.emulate.effects import BASES
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import compiled
from ncu_swizzle.emulate.values import Value
from tests.support.emulation import Lane, execute, machine
from tests.support.places import text
from tests.support.properties import chances

TOP = (1 << 32) - 1
EDGES = (0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF)


def warp(chance: Random, *words: Callable[[], int]) -> list[Lane]:
    """Return three numbers and two truth values for each of 32 lanes; the numbers as one of these functions draws."""
    drawn = [[chance.choice(words)() for _ in range(3)] for _ in range(32)]
    return [(a, b, c, chance.random() < 0.5, chance.random() < 0.5) for a, b, c in drawn]


def any_words(chance: Random) -> list[Lane]:
    return warp(chance, lambda: chance.choice(EDGES), lambda: chance.getrandbits(32), lambda: chance.randrange(65))


LANES, FEW = chances.map(any_words), chances.map(lambda chance: warp(chance, lambda: chance.randrange(3)))


def register(m: Machine, number: int) -> list[int]:
    value = m.registers[number]
    assert value.known is True
    return [int(bits) for bits in np.broadcast_to(value.bits, (1, 32))[0]]


def signed(word: int, bits: int = 32) -> int:
    word &= (1 << bits) - 1
    return word - (1 << bits) if word >> (bits - 1) else word


def pairs(half: Callable[[int], int]) -> int:
    """Return a word made of what is said of its lower and upper half."""
    return sum((half(k) & 0xFFFF) << k for k in (0, 16))


TABLE = text("emulate/operations.txt").partition("\n\n")[2].splitlines()
NAMES = {"TOP": TOP, "s": signed, "pairs": pairs}
SIMPLE = {sass: eval(f"lambda a, b, c, p, q: {said}", NAMES) for sass, said in (row.split(" ;") for row in TABLE)}


@pytest.mark.long
@settings(max_examples=50)
@given(lanes=LANES)
def test_one_result(lanes: list[Lane]) -> None:
    wrong = []
    for sass, result in SIMPLE.items():
        expected = [result(*lane) & TOP for lane in lanes]
        found = register(execute(sass, lanes), 2 if sass.startswith("@") else 0)
        wrong += [f"{sass}: {found}, not {expected}"] if found != expected else []
    assert not wrong, "\n".join(wrong)


COMPARISONS = {name: getattr(operator, name.lower()) for name in ("LT", "LE", "GT", "GE", "EQ", "NE")}


@settings(max_examples=30)
@given(lanes=LANES)
def test_comparisons(lanes: list[Lane]) -> None:
    for relation, compare in COMPARISONS.items():
        m = execute(f"ISETP.{relation}.AND P2, P3, R2, R4, P0", lanes)
        assert register(m, BASES[PRED] + 2) == [compare(signed(a), signed(b)) and p for a, b, _, p, _ in lanes], (
            relation
        )
        assert register(m, 339) == [not compare(signed(a), signed(b)) and p for a, b, _, p, _ in lanes], relation
        m = execute(f"ISETP.{relation}.U32.OR P2, PT, R2, R4, P0", lanes)
        assert register(m, BASES[PRED] + 2) == [compare(a, b) or p for a, b, _, p, _ in lanes], relation


@settings(max_examples=30)
@given(lanes=LANES)
def test_comparisons_of_64_bits(lanes: list[Lane]) -> None:
    pairs = [(x[0], x[1], y[0], y[1]) for x, y in zip(lanes, lanes[::-1], strict=True)]
    for relation, compare in COMPARISONS.items():
        low, high = f"ISETP.{relation}.U32.AND P2, PT, R2, R4, PT", f"ISETP.{relation}.AND.EX P3, PT, R3, R5, PT, P2"
        expected = [compare(signed(c << 32 | a, 64), signed(d << 32 | b, 64)) for a, b, c, d in pairs]
        assert register(execute(f"{low}\n{high}", lanes), 339) == expected, relation


@settings(max_examples=50)
@given(lanes=LANES)
def test_64_bit_sums_and_products(lanes: list[Lane]) -> None:
    highs = [lane[::-1] for lane in zip(*lanes, strict=True)]
    m = execute("IADD3 R0, P2, R2, -R4, RZ", lanes)
    assert register(m, BASES[PRED] + 2) == [a >= b for a, b, *_ in lanes]  # no borrow
    m = execute("IADD3 R0, P2, P3, R2, R4, R6", lanes)
    carries = [int(x) + int(y) for x, y in zip(register(m, BASES[PRED] + 2), register(m, 339), strict=True)]
    assert carries == [a + b + c >> 32 for a, b, c, *_ in lanes]
    m = execute("IMAD.WIDE.U32 R0, P2, R2, R4, R6", lanes)
    exact = [a * b + (h << 32 | c) for (a, b, c, *_), h in zip(lanes, highs[2], strict=True)]
    whole = [h << 32 | low for low, h in zip(register(m, 0), register(m, 1), strict=True)]
    assert whole == [value % (1 << 64) for value in exact]
    assert register(m, BASES[PRED] + 2) == [value >> 64 == 1 for value in exact]
    m = execute("IMAD.WIDE R0, R2, R4, R6", lanes)
    exact = [signed(a) * signed(b) + (h << 32 | c) for (a, b, c, *_), h in zip(lanes, highs[2], strict=True)]
    assert register(m, 1) == [value >> 32 & TOP for value in exact]


def test_a_sum_of_64_bits_writes_both_halves_whether_predicates_are_spelled_or_not() -> None:
    for spelled in ("", "UPT, UPT, "):
        lines = ("UMOV UR8, 0xffffffff", "UMOV UR9, 0x7", f"UIADD3.64 UR4, {spelled}UR8, 0x2, URZ")
        m = execute("\n".join(lines), [(0, 0, 0, False, False)] * 32)
        assert [register(m, BASES[UREG] + number)[0] for number in (4, 5)] == [1, 8]


def test_uniform_predicates_are_kept_in_a_uniform_register() -> None:
    lines = (
        "UISETP.NE.AND UP1, UPT, URZ, 0x1, UPT",
        "UP2UR UR4, UPR, URZ, 0x2",
        "UR2UP UPR, UR4, 0x2",
        "UP2UR UR5, UPR, URZ, 0x2",
    )
    m = execute("\n".join(lines), [(0, 0, 0, False, False)] * 32)
    assert [register(m, BASES[UREG] + number)[0] for number in (4, 5)] == [2, 2]


def test_the_upper_half_of_a_negated_number_does_not_step_as_the_number_does() -> None:
    m = machine([[8, 0, 0]], grid=(64, 1, 1))
    m.registers[2] = Value(np.full((1, 32), 8, np.uint32), tag=block_axis(0))
    for sass, steps in (("LEA.HI R0, R2, RZ, RZ, 0x1e", 1), ("LEA.HI R0, -R2, RZ, RZ, 0x1e", None)):
        step = compiled(parse_instruction(Sass(0, sass)))
        assert step is not None
        step(m)
        value = m.registers[0]
        assert (value.tag.coefficients and value.tag.coefficients[0]) == steps


def test_a_modifier_of_minima_that_is_not_computed_leaves_the_result_unknown() -> None:
    for sass in ("VIMNMX.RELU R0, R2, R4, PT", "VIADDMNMX.U16x2 R0, R2, R4, R6, PT"):
        assert compiled(parse_instruction(Sass(0, sass))) is None


@settings(max_examples=40)
@given(lanes=LANES, table=st.integers(0, 255))
def test_logic_of_truth_values(lanes: list[Lane], table: int) -> None:
    m = execute(f"PLOP3.LUT P2, PT, P0, P1, !P0, {table:#x}, 0x0", lanes)
    assert register(m, BASES[PRED] + 2) == [bool(table >> (p << 2 | q << 1 | (not p)) & 1) for *_, p, q in lanes]


@settings(max_examples=30)
@given(lanes=LANES)
def test_unknown_in_unknown_out_unless_it_cannot_matter(lanes: list[Lane]) -> None:
    for sass, number in (("IADD3 R0, R2, R4, R6", 0), ("SHF.L.U32 R0, R2, R4, RZ", 0), ("IMAD.WIDE R0, R2, R4, R6", 1)):
        value = execute(sass, lanes, known=False).registers[number]
        assert not np.any(value.known)
    falsehood = execute("ISETP.GE.AND P2, PT, R2, R4, !PT", lanes, known=False)
    assert register(falsehood, 338) == [False] * 32
    assert register(execute("LOP3.LUT R0, R2, R4, R6, 0xff, !PT", lanes, known=False), 0) == [TOP] * 32


@settings(max_examples=60)
@given(lanes=LANES)
def test_conversions(lanes: list[Lane]) -> None:
    up = np.array(register(execute("I2F.U32.RP R0, R2", lanes), 0), np.uint32).view(np.float32)
    assert all(float(x) >= lane[0] for x, lane in zip(up, lanes, strict=True))
    for found, (number, *_) in zip(up, lanes, strict=True):
        assert number == 0 or float(np.nextafter(found, np.float32(-1))) < number
    nearest = np.array(register(execute("I2FP.F32.S32 R0, R2", lanes), 0), np.uint32).view(np.float32)
    assert nearest.tolist() == [float(np.float32(signed(lane[0]))) for lane in lanes]
    whole = register(execute("F2I.TRUNC.NTZ R0, R2", lanes), 0)
    for result, lane in zip(whole, lanes, strict=True):
        number = float(np.uint32(lane[0]).view(np.float32))
        if abs(number) < 2**31:
            assert signed(result) == int(number)
        elif not math.isnan(number):
            assert signed(result) == (2**31 - 1 if number > 0 else -(2**31))


def test_constants_written_as_halves() -> None:
    m = execute("HFMA2.MMA R0, -RZ, RZ, 2.125, 1.78813934326171875e-07", [(0, 0, 0, False, False)] * 32)
    assert register(m, 0) == [0x40400003] * 32


def test_bits_to_predicates() -> None:
    lanes = [(lane, 0, 0, True, False) for lane in range(32)]
    m = execute("R2P PR, R2, 0x6", lanes)
    assert register(m, BASES[PRED] + 1) == [bool(lane & 2) for lane in range(32)]
    assert register(m, BASES[PRED] + 2) == [bool(lane & 4) for lane in range(32)]
    assert register(m, BASES[PRED]) == [True] * 32


def test_the_first_lane_that_executes_decides_a_uniform_register_and_the_others_are_told_apart() -> None:
    lanes = [(7 if lane in (3, 9) else 5, 0, 0, lane >= 3, lane == 0) for lane in range(32)]
    m = execute("@P0 R2UR P1, UR4, R2", lanes)
    assert register(m, BASES[UREG] + 4) == [7] * 32
    assert register(m, BASES[PRED] + 1) == [lane == 0 or (lane >= 3 and lane not in (3, 9)) for lane in range(32)]
    m = execute("R2UR.OR P1, UR4, R2", lanes)
    assert register(m, BASES[PRED] + 1) == [lane in (0, 3, 9) for lane in range(32)]


@given(FEW)
def test_lanes_with_the_same_64_bits_are_matched_among_those_that_execute(lanes: list[Lane]) -> None:
    m = execute("@P0 MATCH.ANY.U64 R0, R2", lanes)
    whole = [lanes[lane][0] | lanes[31 - lane][0] << 32 for lane in range(32)]
    value = m.registers[0]
    for lane in (lane for lane in range(32) if lanes[lane][3]):
        expected = sum(1 << other for other in range(32) if lanes[other][3] and whole[other] == whole[lane])
        assert int(np.broadcast_to(value.bits, (1, 32))[0, lane]) == expected
        assert np.broadcast_to(np.asarray(value.known), (1, 32))[0, lane]


@given(FEW.filter(lambda lanes: any(lane[3] for lane in lanes)))
def test_lanes_whose_guard_is_false_take_no_part_in_an_exchange(lanes: list[Lane]) -> None:
    m = execute("@P0 VOTE.ANY R0, PT, P1\n@P0 REDUX.SUM UR4, R2\n@P0 SHFL.IDX PT, R1, R2, 0x3, 0x1f", lanes)
    here = [lane for lane in range(32) if lanes[lane][3]]
    ballot, total, received = m.registers[0], m.registers[BASES[UREG] + 4], m.registers[1]
    for lane in here:
        assert int(np.broadcast_to(ballot.bits, (1, 32))[0, lane]) == sum(1 << k for k in here if lanes[k][4])
        assert np.broadcast_to(np.asarray(received.known), (1, 32))[0, lane] == lanes[3][3]
    assert int(total.bits.flat[0]) == sum(lanes[lane][0] for lane in here)
