"""Each operation: plain Python integers for any numbers, what an H100 returned, and operands of every kind."""

import hashlib
import itertools
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import PRED, REG, UPRED, UREG, Sass, parse_instruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.dependence import block_axis
from ncu_swizzle.emulate.effects import BASES, REGISTERS, results
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import COMPILERS, compiled_step
from ncu_swizzle.emulate.operations.approximations import FUNCTIONS
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.values import Value
from tests.support.emulation import DATA, Lane, execute, kernel, machine, outputs, pointers
from tests.support.mufu import sum_of_results
from tests.support.places import text
from tests.support.programs import code
from tests.support.properties import chances, holds

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


def nearest(number: int) -> int:
    """Return the bits of the float nearest to a number."""
    return int(np.float32(number).view(np.uint32))


NAMES = {"TOP": TOP, "s": signed, "pairs": pairs, "f": nearest}
FIRST = {"R": 0, "UR": BASES[UREG], "P": BASES[PRED]}


def rows() -> Iterator[tuple[str, list[int], Callable[..., int]]]:
    """Yield instructions, the registers whose sum is compared, and what it comes to."""
    for row in text("emulate/operations.txt").partition("\n\n")[2].splitlines():
        sass, said = row.split(" ;")
        named, _, result = said.rpartition(" = ")
        last = re.sub(r"^@\S+ ", "", sass.split(" / ")[-1])
        written = re.findall(r"\b(U?[RP])(\d+)\b", named or last)[: None if named else 1]
        numbers = [FIRST[kind] + int(number) for kind, number in written]
        yield sass.replace(" / ", "\n"), numbers, eval(f"lambda a, b, c, p, q, A, B, C: {result}", NAMES)


TABLE = [*rows()]


@pytest.mark.parametrize("warps", [5, pytest.param(50, marks=pytest.mark.long)])
def test_what_is_written_is_what_python_computes(warps: int) -> None:
    def check(lanes: list[Lane]) -> None:
        operands = [(*lane, *above[:3]) for lane, above in zip(lanes, lanes[::-1], strict=True)]
        wrong = []
        for sass, named, computed in TABLE:
            m = execute(sass, lanes)
            found = [sum(each) for each in zip(*(register(m, number) for number in named), strict=True)]
            expected = [computed(*lane) & TOP for lane in operands]
            wrong += [f"{sass}: {found}, not {expected}"] if found != expected else []
        assert not wrong, "\n".join(wrong)

    holds(warps, check, LANES)


def test_the_upper_half_of_a_negated_number_does_not_step_as_the_number_does() -> None:
    m = machine([[8, 0, 0]], grid=(64, 1, 1))
    m.registers[2] = Value(np.full((1, 32), 8, np.uint32), tag=block_axis(0))
    for sass, steps in (("LEA.HI R0, R2, RZ, RZ, 0x1e", 1), ("LEA.HI R0, -R2, RZ, RZ, 0x1e", None)):
        step = compiled_step(parse_instruction(Sass(0, sass)))
        assert step is not None
        step(m)
        value = m.registers[0]
        assert (value.tag.coefficients and value.tag.coefficients[0]) == steps


def test_a_modifier_of_minima_that_is_not_computed_leaves_the_result_unknown() -> None:
    for sass in ("VIMNMX.NEW R0, R2, R4, PT", "VIADDMNMX.U16x2 R0, R2, R4, R6, PT"):
        assert compiled_step(parse_instruction(Sass(0, sass))) is None


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
    whole = register(execute("F2I.TRUNC.NTZ R0, R2", lanes), 0)
    for above, truncated, (number, *_) in zip(up, whole, lanes, strict=True):
        assert float(above) >= number
        assert number == 0 or float(np.nextafter(above, np.float32(-1))) < number
        real = float(np.uint32(number).view(np.float32))
        if not math.isnan(real):
            assert signed(truncated) == int(max(-(2.0**31), min(real, 2.0**31 - 1)))


ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "": round, ".FLOOR": math.floor, ".CEIL": math.ceil, ".TRUNC": math.trunc
}  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDED)
def test_every_bfloat16_is_rounded_to_an_integer_as_fractions_are(rounding: str) -> None:
    words = np.arange(1 << 16, dtype=np.uint32)
    m = machine([(number, 0, 0) for number in range(64)], grid=(64, 1, 1), block=(1024, 1, 1))
    m.registers[2] = Value(words.reshape(-1, 32) | np.uint32(0xABCD0000))
    results = {}
    for sass in (f"FRND.BF16{rounding} R0, R2", f"F2I.S16.BF16{rounding}.NTZ R0, R2"):
        step = compiled_step(parse_instruction(Sass(0, sass)))
        assert step is not None
        step(m)
        results[sass[0:4]] = m.registers[0].bits.ravel().tolist()
    for word, real, whole in zip(words.tolist(), results["FRND"], results["F2I."], strict=True):
        number = struct.unpack("<f", struct.pack("<I", word << 16))[0]
        if math.isfinite(number):
            exact = ROUNDED[rounding](Fraction(number))
            # An integer of at most 8 bits is a bfloat16, and every bfloat16 from 2^7 on is an integer.
            assert real == struct.unpack("<I", struct.pack("<f", math.copysign(exact, number)))[0] >> 16
            assert signed(whole) == min(max(exact, -(1 << 15)), (1 << 15) - 1)
        else:
            assert real == (0x7FFF if math.isnan(number) else word)


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


# One instruction of each opcode and number of operands, as nvdisasm writes it.
FORMS = (DATA / "forms.txt").read_text(encoding="utf-8").splitlines()
BANK = np.random.default_rng(3).integers(0, 256, 0x400, np.uint8).tobytes()
AT = 0x210


def sources(form: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield the mnemonic, the operands, and the position of each operand that is read."""
    head, _, rest = form.partition(" ")
    words = rest.split(", ")
    for position in range(results(parse_instruction(Sass(0, form))), len(words)):
        yield head, words, position


def with_operand(head: str, words: list[str], position: int, word: str) -> str:
    return f"{head} {', '.join([*words[:position], word, *words[position + 1 :]])}"


def prepared(texts: list[str]) -> PreparedCode:
    return prepare(code(*texts), Demand(everything=True))


def machine_for(program: PreparedCode) -> Machine:
    known = np.ones(len(BANK), bool)
    constants = {0: BANK, 3: BANK}
    m = machine(block=(64, 1, 1), constants=constants, known_constants={0: known}, shared_size=0x1000)
    m.log, m.guards = RequestLog(m, program.instructions), program.guards
    m.keep_contents()
    return m


def is_uniform(register: int) -> bool:
    return BASES[UREG] <= register < BASES[PRED] or register >= BASES[UPRED]


def registers() -> list[Value]:
    """Return random contents of two warps."""
    rng, made = np.random.default_rng(7), list[Value]()
    for register in range(REGISTERS):
        shape, like = (2, 1 if is_uniform(register) else 32), bool if register >= BASES[PRED] else np.uint32
        made.append(Value(rng.integers(0, 1 << 32, shape).astype(like)))
    return made


def test_the_forms_are_of_operations_and_leave_out_few() -> None:
    opcodes = {form.partition(" ")[0].partition(".")[0] for form in FORMS}
    assert opcodes <= set(COMPILERS)
    assert len(opcodes) > 0.6 * len(COMPILERS)


@pytest.mark.long
def test_a_number_is_the_same_from_a_register_a_uniform_register_and_a_constant() -> None:
    texts = [
        with_operand(*place, word)
        for form in FORMS
        for place in sources(form)
        if parse_instruction(Sass(0, form)).operands[place[2]].kind in (REG, UREG)
        for word in ("R20", "UR20", f"c[0x0][{AT:#x}]", "-R20", "-UR20", f"-c[0x0][{AT:#x}]")
    ]
    program = prepared(texts)
    m, before = machine_for(program), registers()
    for word in range(4):  # as wide as any operand
        bits = np.frombuffer(BANK, np.uint32, 1, AT + 4 * word).reshape(1, 1)
        before[20 + word] = before[BASES[UREG] + 20 + word] = Value(bits.copy())
    found: list[list[tuple[int, bytes]]] = []
    for number, step in enumerate(program.steps):
        m.registers, m.now = list(before), number
        assert step is not None, texts[number]
        step(m)
        changed = [(r, v) for r, v in enumerate(m.registers) if v is not None and v is not before[r]]
        sure = [(r, np.where(v.known, v.bits, 0)) for r, v in changed if number not in program.unsupported]
        found.append(
            [(r, np.broadcast_to(bits, (2, bits.shape[1] if is_uniform(r) else 32)).tobytes()) for r, bits in sure]
        )
    assert not program.failures
    for first in range(0, len(texts), 3):
        assert found[first] == found[first + 1] == found[first + 2], texts[first : first + 3]


RECORDED: dict[str, dict[str, str]] = json.loads((DATA / "arithmetic.json").read_text("utf-8"))
BLOCKS, THREADS = 16, 256
WORDS = st.integers(0, (1 << 32) - 1)


@pytest.mark.long
@pytest.mark.parametrize("group", RECORDED)
def test_results_are_those_of_an_h100(group: str) -> None:
    operations = RECORDED[group]
    sizes = [int(entry.split()[0]) for entry in operations.values()]
    launch = Launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1), parameters=pointers(0, arrays=1))
    found, known = (array.reshape(sum(sizes), -1) for array in outputs(kernel("arithmetic", group), launch, sum(sizes)))
    first, wrong = 0, []
    for (name, entry), size in zip(operations.items(), sizes, strict=True):
        rows = slice(first, first + size)
        first += size
        if not known[rows].all() or digest(found[rows]) != entry.split()[1]:
            wrong.append(name)
    assert not wrong


def digest(words: NDArray[np.int64]) -> str:
    return hashlib.sha256((words & 0xFFFFFFFF).astype("<u4").tobytes()).hexdigest()


def test_mufu_is_that_of_an_h100() -> None:
    recorded = np.load(DATA / "mufu.npz")
    for name, function in FUNCTIONS.items():
        operands = recorded["spread" if name in OF_ALL else "operands"]  # of every sign and exponent
        with np.errstate(all="ignore"):
            assert (function(operands[None])[0] == recorded[name]).all(), name


OF_ALL = ("LG2", "SIN", "COS", "TANH")  # of whose results there are sums over each 2^20 operands


@pytest.mark.long
@pytest.mark.parametrize("block", [1008, 1016, 1010, 999, 3000])  # 1/2 and more, 1 and more, others, negative numbers
@pytest.mark.parametrize("name", OF_ALL)
def test_mufu_is_that_of_an_h100_for_a_million_operands(name: str, block: int) -> None:
    recorded = np.load(DATA / "mufu.npz")[f"sums_{name}"]
    assert sum_of_results(FUNCTIONS[name], block) == recorded[block]


def test_two_to_negative_integers_is_exact() -> None:
    powers = np.arange(-126, 128)
    found = FUNCTIONS["EX2"](powers.astype(np.float32).view(np.uint32)).view(np.float32)
    assert (found == np.ldexp(np.float32(1), powers)).all()  # NumPy's own exp2 is off on some processors


TWO = {
    "FADD2 R10, R2.F32x2.HI_LO, -R4.F32x2.HI_LO": "FADD R10, R2, -R4 / FADD R11, R3, -R5",
    "FMUL2.FTZ.RZ R10, R2.F32x2.HI_LO, R4.F32": "FMUL.FTZ.RZ R10, R2, R4 / FMUL.FTZ.RZ R11, R3, R4",
    "FFMA2.RP R10, R2.F32x2.LO_HI, R4.F32x2.HI_LO, R6.F32": "FFMA.RP R10, R3, R4, R6 / FFMA.RP R11, R2, R5, R6",
    "FFMA2 R10, R2.F32x2.HI_HI, R4.F32x2.LO_LO, RZ.F32": "FFMA R10, R3, R4, RZ / FFMA R11, R3, R4, RZ",
    # As ptxas writes the products of {-hi, lo}, {hi, -lo} and {lo, -hi}.
    "FFMA2 R10, -R2.F32x2.LO_HI.NP, R4.F32, R6.F32": "FFMA R10, -R3, R4, R6 / FFMA R11, R2, R4, R6",
    "FFMA2 R10, R2.F32x2.LO_HI.NP, R4.F32, R6.F32": "FFMA R10, R3, R4, R6 / FFMA R11, -R2, R4, R6",
    "FFMA2 R10, R2.F32x2.HI_LO.NP, -R4.F32, R6.F32": "FFMA R10, R2, -R4, R6 / FFMA R11, -R3, -R4, R6",
    "FMNMX3 R10, R2, |R3|, -R4, PT": "FMNMX R10, R2, |R3|, PT / FMNMX R10, R10, -R4, PT",
    "FMNMX3.FTZ R10, R2, R3, R4, !PT": "FMNMX.FTZ R10, R2, R3, !PT / FMNMX.FTZ R10, R10, R4, !PT",
    "FMNMX3.NAN R10, R2, R3, R4, !PT": "FMNMX.NAN R10, R2, R3, !PT / FMNMX.NAN R10, R10, R4, !PT",
    "I2F.U8 R10, R2.B2": "SHF.R.U32.HI R10, RZ, 0x10, R2 / I2F.U8 R10, R10",
    "I2F.S8 R10, R2.B3": "SHF.R.S32.HI R10, RZ, 0x18, R2 / I2F R10, R10",
    "F2FP.PACK_AB R10, R2, R4": "F2FP.F16.F32.PACK_AB R10, R2, R4",
    "F2FP.BF16.PACK_AB.RZ R10, R2, R4": "F2FP.BF16.F32.PACK_AB.RZ R10, R2, R4",
}


@pytest.mark.parametrize("packed", TWO)
@given(lanes=LANES)
@settings(max_examples=5)
def test_instructions_compute_what_two_do(packed: str, lanes: list[Lane]) -> None:
    together, apart = execute(packed, lanes), execute(TWO[packed].replace(" / ", "\n"), lanes)
    for number in (10, 11) if "R11" in TWO[packed] else (10,):
        assert register(together, number) == register(apart, number)


WIDE = {
    "IMNMX.U64 PT, PT, R10, R2, R4, PT, !PT": min,
    "IMNMX.U64 PT, PT, R10, R2, R4, !PT, !PT": max,
    "IMNMX.S64 PT, PT, R10, R2, R4, PT, !PT": lambda a, b: min(a, b, key=lambda x: signed(x, 64)),
    "IMNMX.S64 PT, PT, R10, R2, R4, !PT, !PT": lambda a, b: max(a, b, key=lambda x: signed(x, 64)),
}


WIDER = {
    "ISETP.GE.U64.AND P2, PT, R2, R4, PT": lambda a, b: a >= b,
    "ISETP.LT.S64.AND P2, PT, R2, R4, PT": lambda a, b: signed(a, 64) < signed(b, 64),
    "ISETP.EQ.U64.AND P2, PT, R2, R2, PT": lambda a, b: True,
}


@pytest.mark.parametrize("sass", WIDER)
@given(lanes=LANES)
@settings(max_examples=5)
def test_comparisons_of_64_bits(sass: str, lanes: list[Lane]) -> None:
    m = execute(sass, lanes)
    numbers = [
        [lane[place] | other[place] << 32 for lane, other in zip(lanes, reversed(lanes), strict=True)]
        for place in (0, 1)
    ]
    assert register(m, 338) == [WIDER[sass](a, b) for a, b in zip(*numbers, strict=True)]


@pytest.mark.parametrize("sass", WIDE)
@given(lanes=LANES)
@settings(max_examples=5)
def test_extremes_of_64_bits(sass: str, lanes: list[Lane]) -> None:
    m = execute(sass, lanes)
    numbers = [
        [lane[place] | other[place] << 32 for lane, other in zip(lanes, reversed(lanes), strict=True)]
        for place in (0, 1)
    ]
    expected = [WIDE[sass](a, b) for a, b in zip(*numbers, strict=True)]
    assert [low | high << 32 for low, high in zip(register(m, 10), register(m, 11), strict=True)] == expected


def test_an_unknown_operand_leaves_the_check_unknown() -> None:
    m = execute("FCHK P2, R2, R4", [(0, 0, 0, False, False)] * 32, known=False)
    value = m.registers[338]
    assert value.known is False
    assert value.bits.dtype == bool


def test_halves_are_compared_with_constants() -> None:
    """The upper one is written first; the first predicate is the lower half's, as an H100 was seen to do."""
    halves = np.array([-np.inf, -65504, -0.0, 0.25, 0.5, 2.0, np.inf, np.nan] * 4, np.float16)
    lanes = [(0x12340000 | int(bits), 0, 0, False, False) for bits in halves.view(np.uint16)]

    def compared(relation: str, upper: str, lower: str) -> list[Value]:
        m = execute(f"HSETP2.{relation}.AND P2, P1, R2.H0_H0, {upper} , {lower} , PT", lanes)
        return [value for value in (m.registers[338], m.registers[337]) if value is not None and value.known is True]

    relations = {"NEU": np.not_equal, "GT": np.greater, "LE": np.less_equal, "EQ": np.equal}
    for (relation, compare), constants in itertools.product(relations.items(), (("-INF", "-INF"), ("0.5", "2"))):
        found = [value.bits[0].tolist() for value in compared(relation, *constants)]
        assert found == [compare(halves, np.float16(one)).tolist() for one in reversed(constants)], (
            relation,
            constants,
        )


@settings(max_examples=50)
@given(word=WORDS, other=WORDS)
def test_bits_that_do_not_matter_may_be_unknown(word: int, other: int) -> None:
    """A byte counter in a register whose upper bytes nothing was written to."""
    lines = ("PRMT R9, R2, 0x7610, R9", "IADD3 R9, R9, R4, RZ", "LOP3.LUT R0, R9, 0xff, RZ, 0xc0, !PT")
    m = execute("\n".join(lines), [(word, other, 0, False, False)] * 32)
    upper, result = m.registers[9], m.registers[0]
    assert upper.known is False or not np.any(upper.known)
    assert result.known is True
    assert (result.bits == (word + other) & 0xFF).all()
