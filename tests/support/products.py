"""Inputs of tests/data/emulate/products.cu, the same everywhere, and how matrices lie in its fragments."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import DeviceMemory
from ncu_swizzle.emulate.execution import execute
from ncu_swizzle.emulate.requests import Clock
from tests.support.emulation import IN, OUT, kernel, pointers
from tests.support.places import DATA

Words = NDArray[np.uint64]

# Exponent and mantissa bits; of tf32, the 13 bits behind them are there and are not read.
FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "f32": (8, 23),
    "f64": (11, 52),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f32": 32, "f64": 64}
OUTPUTS, KEPT = 1 << 17, 1 << 12  # elements of each form and kind of inputs; those that tests compare
MODES = ("any bits", "near", "spread", "cancelling", "tiny", "special", "sparse", "huge")


@dataclass(frozen=True)
class Form:
    """A kernel: its matrices, and the types of A, B and the sum."""

    name: str
    rows: int
    depth: int
    a: str
    b: str
    sum: str

    @property
    def threads(self) -> int:
        return 128 if self.rows == 64 else 32

    @property
    def counts(self) -> tuple[int, int, int]:
        """The registers of A, B and the sum of a thread; a group's B is 64 words, two registers of its first warp."""
        warps = self.threads // 32
        a = self.rows * self.depth * BITS[self.a] // 1024 // warps
        return a, 8 * self.depth * BITS[self.b] // 1024, self.rows * 8 * BITS[self.sum] // 1024 // warps


def form_of(name: str) -> Form:
    """Return a form by its kernel's name: mma_16x8x8_f16_f32, wgmma_64x8x32_e4m3_e5m2_f32, wgmma_four_f16_f16."""
    words = name.split("_")
    kinds = [word for word in words if word in FORMATS]
    shape = next((word.split("x") for word in words if "x" in word), ["64", "8", str(256 // BITS[kinds[0]])])
    return (
        Form(name, int(shape[0]), int(shape[2]), kinds[0], kinds[-2], kinds[-1])
        if len(kinds) > 1
        else Form(name, int(shape[0]), int(shape[2]), "f64", "f64", "f64")
    )


FORMS = {
    name: form_of(name)
    for name in re.findall(r"\((w?g?mma_\w+),", (DATA / "emulate" / "products.cu").read_text("utf-8"))
}


def inputs(form: Form, mode: int) -> tuple[Words, Words, Words]:
    """Return bits of A (count, rows, k), B (count, 8, k) and the summand (count, rows, 8), of OUTPUTS elements.

    The raw words of PCG64 are the same with each version of NumPy.
    """
    count = OUTPUTS // (form.rows * 8)
    shapes = (count, form.rows, form.depth), (count, 8, form.depth), (count, form.rows, 8)
    sizes = [int(np.prod(shape)) for shape in shapes]
    seed = int.from_bytes(f"{form.name}/{mode}".encode(), "little")
    raw = np.random.PCG64(seed).random_raw(sum(sizes))
    parts = [part.reshape(shape) for part, shape in zip(np.split(raw, np.cumsum(sizes)[:-1]), shapes, strict=True)]
    scale = 0
    for kind in (form.a, form.b):
        bias = (1 << FORMATS[kind][0] - 1) - 1
        scale += {4: -bias, 7: bias}.get(mode, 0)
    a, b = (_elements(part, kind, mode) for part, kind in zip(parts, (form.a, form.b), strict=False))
    if mode == 3:  # neighbours cancel, but for the last bits of some
        a[..., 1::2] = a[..., ::2] ^ np.uint64(1 << BITS[form.a] - 1)
        b[..., 1::2] = b[..., ::2] ^ (parts[1][..., 1::2] >> np.uint64(60) == 0).astype(np.uint64)
    if mode == 6:
        for part, bits, kind in ((parts[0], a, form.a), (parts[1], b, form.b)):
            bits[part >> np.uint64(61) != 0] &= np.uint64(1 << BITS[kind] - 1)
    return a, b, _summands(parts[2], form.sum, mode, scale)


def _joined(sign: Words, exponent: NDArray[np.int64], raw: Words, kind: str) -> Words:
    exponents, mantissa = FORMATS[kind]
    fraction = raw & np.uint64((1 << mantissa) - 1)
    return sign << np.uint64(exponents + mantissa) | exponent.astype(np.uint64) << np.uint64(mantissa) | fraction


def _elements(raw: Words, kind: str, mode: int) -> Words:
    exponents = FORMATS[kind][0]
    if mode == 0:
        return raw >> np.uint64(64 - BITS[kind])
    bias, most = (1 << exponents - 1) - 1, (1 << exponents) - 1
    draw = (raw >> np.uint64(53) & np.uint64(255)).astype(np.int64)  # bits that no fraction has
    around = {
        1: draw % 5 - 2,
        2: draw % 33 - 16,
        3: draw % 13 - 6,
        4: draw % 5 - bias,
        5: draw % 5 - 2,
        6: draw % 31 - 15,
    }
    exponent = most - 1 - draw % 3 if mode == 7 else np.clip(bias + around[mode], 0, most - 1)
    bits = _joined(raw >> np.uint64(63), exponent, raw, kind)
    return _with_special(bits, raw, kind, 3) if mode == 5 else bits


def _summands(raw: Words, kind: str, mode: int, scale: int) -> Words:
    exponents = FORMATS[kind][0]
    if mode == 0:
        return raw >> np.uint64(64 - BITS[kind])
    bias, most = (1 << exponents - 1) - 1, (1 << exponents) - 1
    wide = (0, 5, 34, 20, 24, 5, 34, 6)[mode]
    draw = (raw >> np.uint64(53) & np.uint64(255)).astype(np.int64) % (2 * wide + 1) - wide
    bits = _joined(raw >> np.uint64(63), np.clip(bias + scale + draw, 0, most - 1), raw, kind)
    return _with_special(bits, raw, kind, 2) if mode == 5 else bits


def _with_special(bits: Words, raw: Words, kind: str, chance: int) -> Words:
    """Put zeros, infinities, NaN, the largest and the least numbers in place of one of 2^chance."""
    exponents, mantissa = FORMATS[kind]
    top = (1 << exponents) - 1 << mantissa
    values = np.array(
        [0, top, top | 1 << mantissa - 1, top - 1, 1, top | (1 << mantissa) - 1, 0, 1 << mantissa], np.uint64
    )
    mixed = raw * np.uint64(0x9E3779B97F4A7C15)
    chosen = values[(mixed >> np.uint64(61)).astype(np.int64)] | (raw >> np.uint64(63)) << np.uint64(
        exponents + mantissa
    )
    return np.where(mixed >> np.uint64(40) & np.uint64((1 << chance) - 1) == 0, chosen, bits)


# ---------------------------------------------------------------------------------------------- fragments

LANE = np.arange(32)


def _packed(bits: Words, size: int, registers: int) -> NDArray[np.uint32]:
    """Return the registers, (count, registers, 32), of matrices, (count, rows, k), as A and B have them."""
    count, rows, _ = bits.shape
    down, words, per = rows // 8, max(1, size // 32), max(1, 32 // size)
    out = np.zeros((count, registers, 32), np.uint32)
    for register in range(registers):
        part, word = divmod(register, words)
        row = LANE // 4 + 8 * (part % down)
        for j in range(per):
            element = bits[:, row, part // down * 4 * per + LANE % 4 * per + j]
            out[:, register] |= (element >> np.uint64(32 * word)).astype(np.uint32) << np.uint32(size * j)
    return out


def _sum_places(rows: int, size: int, registers: int) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64], int]]:
    """Return register, rows, columns and shift of each part of a sum's elements; of doubles, the shift of the word."""
    down, places = rows // 8, []
    for element in range(rows // 8 * 2):
        row, column = LANE // 4 + 8 * (element // 2 % down), LANE % 4 * 2 + element % 2
        if size == 64:
            places += [(2 * element + word, row, column, 32 * word) for word in (0, 1)]
        else:
            places.append((element * size // 32, row, column, 16 * (element % 2) if size == 16 else 0))
    assert max(place[0] for place in places) == registers - 1
    return places


def words_of(form: Form, a: Words, b: Words, c: Words) -> NDArray[np.uint32]:
    """Return what the kernel reads, (count, words)."""
    na, nb, _ = form.counts
    count, warps, rows = len(a), form.threads // 32, form.rows // (form.threads // 32)
    left = _packed(a.reshape(count * warps, rows, -1), BITS[form.a], na).reshape(count, warps, na, 32)
    added = _sum_words(form, c)
    return np.concatenate(
        [left.transpose(0, 2, 1, 3).reshape(count, -1), _packed(b, BITS[form.b], nb).reshape(count, -1), added], axis=1
    )


def _sum_words(form: Form, c: Words) -> NDArray[np.uint32]:
    nc, size = form.counts[2], BITS[form.sum]
    count, warps, rows = len(c), form.threads // 32, form.rows // (form.threads // 32)
    parts = c.reshape(count * warps, rows, 8)
    out = np.zeros((count * warps, nc, 32), np.uint32)
    for register, row, column, shift in _sum_places(rows, size, nc):
        element = parts[:, row, column]
        out[:, register] |= (element >> np.uint64(shift) if size == 64 else element << np.uint64(shift)).astype(
            np.uint32
        )
    return out.reshape(count, warps, nc, 32).transpose(0, 2, 1, 3).reshape(count, -1)


def sums_of(form: Form, words: NDArray[np.uint32]) -> Words:
    """Return the sums' bits, (count, rows, 8), from what the kernel writes, (count, words)."""
    nc, size = form.counts[2], BITS[form.sum]
    count, warps, rows = len(words), form.threads // 32, form.rows // (form.threads // 32)
    parts = words.reshape(count, nc, warps, 32).transpose(0, 2, 1, 3).reshape(count * warps, nc, 32).astype(np.uint64)
    out = np.zeros((count * warps, rows, 8), np.uint64)
    for register, row, column, shift in _sum_places(rows, size, nc):
        element = parts[:, register]
        if size == 64:
            out[:, row, column] |= element << np.uint64(shift)
        else:
            out[:, row, column] = element >> np.uint64(shift) & np.uint64((1 << size) - 1)
    return out.reshape(count, form.rows, 8)


# ---------------------------------------------------------------------------------------------- results


def digest(form: Form, sums: Words) -> str:
    """Return the first 16 digits of the SHA-256 of sums' bits."""
    return hashlib.sha256(sums.astype(f"<u{BITS[form.sum] // 8}").tobytes()).hexdigest()[:16]


def executed_sums(form: Form, words: NDArray[np.uint32]) -> Words:
    """Return the sums that the emulator computes of what the kernel reads, (n,)."""
    size, content = 4 * form.threads * form.counts[2] * len(words), words.tobytes()
    buffers = (Buffer("out", OUT, size), Buffer("in", IN, len(content)))
    launch = Launch(
        grid=(len(words), 1, 1), block=(form.threads, 1, 1), parameters=pointers(0), buffers=buffers,
        memory={IN: content},
    )  # fmt: skip
    memory = DeviceMemory.holding(buffers, launch.memory)
    done = execute(kernel("products", form.name), launch, memory, Clock(timeout_s=300))
    span = memory.span(OUT, size)
    assert memory.known[span].all(), done.unknown
    assert not done.reasons(span)
    return sums_of(form, memory.content[span].view(np.uint32).reshape(len(words), -1)).reshape(-1)
