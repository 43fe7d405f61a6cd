"""Floating-point arithmetic: what an H100 returned for operands of every kind, and exact numbers of Python."""

import hashlib
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.operations.special import FUNCTIONS
from ncu_swizzle.emulate.values import Value
from tests.support.emulation import DATA, execute, kernel, outputs, pointers

RECORDED: dict[str, dict[str, str]] = json.loads((DATA / "arithmetic.json").read_text("utf-8"))
# Not emulated: their results are unknown.
UNKNOWN = frozenset(("lg2.approx.f32", "lg2.approx.ftz.f32", "min.xorsign.abs.f32"))
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
        if name in UNKNOWN:
            assert not known[rows].any(), name
        elif not known[rows].all() or digest(found[rows]) != entry.split()[1]:
            wrong.append(name)
    assert not wrong


def digest(words: NDArray[np.int64]) -> str:
    return hashlib.sha256((words & 0xFFFFFFFF).astype("<u4").tobytes()).hexdigest()


def test_mufu_is_that_of_an_h100() -> None:
    recorded = np.load(DATA / "mufu.npz")
    for name, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            assert (function(recorded["operands"][None])[0] == recorded[name]).all(), name


def test_two_to_negative_integers_is_exact() -> None:
    powers = np.arange(-126, 128)
    found = FUNCTIONS["EX2"](powers.astype(np.float32).view(np.uint32)).view(np.float32)
    assert (found == np.ldexp(np.float32(1), powers)).all()  # NumPy's own exp2 is off on some processors


def test_an_unknown_operand_leaves_the_check_unknown() -> None:
    m = execute("FCHK P2, R2, R4", [(0, 0, 0, False, False)] * 32, known=False)
    value = m.registers[338]
    assert value.known is False
    assert value.bits.dtype == bool


def test_a_half_is_compared_with_a_constant() -> None:
    """Both of its halves are the same number, in both places of the constant."""
    halves = np.array([-np.inf, -65504, -0.0, 0.25, 0.5, 2.0, np.inf, np.nan] * 4, np.float16)
    lanes = [(0x12340000 | int(bits), 0, 0, False, False) for bits in halves.view(np.uint16)]

    def compared(relation: str, first: str, second: str) -> Value:
        value = execute(f"HSETP2.{relation}.AND P2, PT, R2.H0_H0, {first} , {second} , PT", lanes).registers[338]
        assert value is not None
        return value

    relations = {"NEU": np.not_equal, "GT": np.greater, "LE": np.less_equal, "EQ": np.equal}
    for (relation, compare), constant in itertools.product(relations.items(), ("-INF", "0.5")):
        value = compared(relation, constant, constant)
        assert value.known is True
        assert value.bits[0].tolist() == compare(halves, np.float16(constant)).tolist(), (relation, constant)
    assert compared("GT", "1", "2").known is False, "each half has a constant of its own"


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
