"""Tensor cores add up as an H100's do, bit by bit; C and NumPy as each other."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ncu_swizzle.emulate.operations import rounding
from ncu_swizzle.emulate.operations.rounding import compiled, multiply_add, multiply_add_doubles
from ncu_swizzle.emulate.products import KINDS, Accumulation, fused_registers, in_registers, of_sums
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA
from tests.support.products import FORMS, KEPT, MODES, Form, digest, executed_sums, inputs, words_of
from tests.support.sums import fused_sum

RECORDED: dict[str, list[str]] = json.loads((DATA / "emulate" / "products.json").read_text("utf-8"))["kept"]
QUICK = ("mma_16x8x16_f16_f32", "wgmma_64x8x32_e4m3_e4m3_f32")


def computed(form: Form, modes: Sequence[int]) -> list[str]:
    """Return the digests of the first sums of each kind of inputs."""
    count = KEPT // (form.rows * 8)
    words = [words_of(form, *(each[:count] for each in inputs(form, mode))) for mode in modes]
    return [digest(form, part) for part in np.split(executed_sums(form, np.concatenate(words)), len(modes))]


@NEEDS_ALL
@pytest.mark.parametrize("name", QUICK)
def test_products_near_one_are_those_of_an_h100(name: str) -> None:
    assert computed(FORMS[name], [1]) == RECORDED[name][1:2]


@NEEDS_ALL
@pytest.mark.long
@pytest.mark.parametrize("name", FORMS)
def test_products_are_those_of_an_h100(name: str) -> None:
    assert computed(FORMS[name], range(len(MODES))) == RECORDED[name]


SPECIAL = (0x0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, 0xFFFFFFFFFFFFF, 0x3FF << 52, 0x7FEFFFFFFFFFFFFF)


def _doubles(draw: np.random.Generator, near: int) -> NDArray[np.float64]:
    """Return numbers with any bits, or with exponents near 1 and few bits: sums of those cancel, and tie."""
    bits = draw.integers(0, 1 << 64, 400, np.uint64, endpoint=False)
    exponents = np.uint64(1023) + draw.integers(0, max(1, near), 400).astype(np.uint64)
    few = bits & np.uint64(0x800F000000000001) | exponents << np.uint64(52)
    some = np.where(draw.random(400) < 0.1, draw.choice(np.array(SPECIAL, np.uint64), 400), few if near else bits)
    numbers: NDArray[np.float64] = some.view(np.float64)
    return numbers


@pytest.mark.skipif(compiled() is None, reason="no C compiler")
@pytest.mark.parametrize("near", [0, 3, 60])
@pytest.mark.parametrize("seed", range(5))
def test_fused_sums_in_c_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch, near: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    a, b, c = doubles = [_doubles(draw, near) for _ in range(3)]
    with np.errstate(all="ignore"):
        x, y, z = (each.astype(np.float32) for each in doubles)
        in_c = [multiply_add_doubles(a, b, c), multiply_add(x, y, z), multiply_add(x, y, z, "RZ")]
        monkeypatch.setattr(rounding, "compiled", lambda: None)
        in_numpy = [multiply_add_doubles(a, b, c), multiply_add(x, y, z), multiply_add(x, y, z, "RZ")]
    for one, other in zip(in_c, in_numpy, strict=True):
        same = (one.view(np.uint64) == other.view(np.uint64)) | (np.isnan(one) & np.isnan(other))
        assert same.all(), [(each[~same][0].hex(), one[~same][0], other[~same][0]) for each in doubles]


@pytest.mark.skipif(compiled() is None, reason="no C compiler")
@pytest.mark.parametrize("count", [1, 16])  # of warps: less than columns, and more
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("name", ["mma_16x8x16_f16_f32", "mma_16x8x8_tf32_f32", "wgmma_64x8x32_e5m2_e4m3_f32"])
def test_c_and_numpy_add_up_the_same(name: str, count: int, halves: bool) -> None:
    form = FORMS[name]
    fraction, kept = (13, 13) if form.a.startswith("e") else (25, 23)
    least = KINDS[form.a.upper()].least, KINDS[form.b.upper()].least
    how = Accumulation(least=least, fraction=fraction, kept=kept, halves=halves)
    for mode in range(len(MODES)):
        a, b, c = (each[:count].astype(np.uint32) for each in inputs(form, mode))
        left, right = KINDS[form.a.upper()].decode(a), KINDS[form.b.upper()].decode(b)
        summand = KINDS["F16"].decode(c & 0xFFFF) if halves else c.view(np.float32)
        finite = [np.where(np.isfinite(part), part, np.float32(0)) for part in (left, right, summand)]
        for left_, right_, summand_ in ((left, right, summand), finite):
            one = of_sums(fused_registers(left_, right_, in_registers(summand_), how), left.shape[1])
            other = fused_sum(left_, right_, summand_, how)
            same = (one.view(np.uint32) == other.view(np.uint32)) | (np.isnan(one) & np.isnan(other))
            assert same.all(), MODES[mode]


def test_sums_are_cut_off_behind_the_largest_exponent() -> None:
    # One large product, and a small one of which only so many bits are left: worked out by hand.
    for fraction in (25, 13):
        a, b = np.zeros((1, 1, 4), np.float32), np.ones((1, 1, 4), np.float32)
        a[..., :2] = 1, 2.0**-fraction * 1.75
        b[..., 2:] = 0
        found = fused_sum(a, b, np.full((1, 1, 1), -1, np.float32), Accumulation(fraction=fraction))
        assert found == 2.0**-fraction  # 1.75 units are cut off to one; 1 - 1 leaves it alone
    one, none = np.ones((1, 1, 2), np.float32), np.zeros((1, 1, 1), np.float32)
    small = np.array([[[1, -(2.0**-25)]]], np.float32)
    assert fused_sum(small, one, none, Accumulation()) == 1 - 2.0**-24  # 1 - 2^-25 is cut off to 24 bits
    assert np.isinf(fused_sum(np.array([[[np.inf, 1]]], np.float32), one, none, Accumulation())).all()
