"""What SwizzleAdvice says, tried on the model: every swizzle that it names, on the rows that it is for."""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from ncu_swizzle.reports import pack
from ncu_swizzle.smem import code, mapping, wavefronts
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import Swizzle

facts, rules, shapes = (pack.pack(name) for name in ("facts", "rules", "shapes"))

OPS = {
    "LDS.U8 R1, [R2]": "ld.shared.u8", "LDS.S16 R1, [R2]": "ld.shared.u16", "LDS R1, [R2]": "ld.shared.b32",
    "LDS.64 R2, [R4]": "ld.shared.b64", "STS.128 [R4], R8": "st.shared.v4.b32", "LDSM.16.M88.4 R8, [R4]": "ldmatrix.x4",
}  # fmt: skip
NAMED = re.compile(
    r"Swizzle<(\d+),(\d+),(\d+)> on elements of (\d+) bytes? \([^()]*(?:\([^()]*(?:\([^()]*\))?[^()]*\))?\)"
)
WGMMA = facts.Instruction(10, 80, 80, pc=48, sass="HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", access="HGMMA")
COPY = facts.Instruction(10, 0, 0, pc=64, sass="UTMALDG.2D [UR4], [UR12]")


def launch(sass: str, degree: float, *more: Any) -> Any:
    ideal = 100
    worst = facts.Instruction(10, int(ideal * degree), ideal, pc=16, sass=sass, access=facts.access(sass, 1))
    return facts.Facts({facts.WAVEFRONTS: worst.wavefronts, facts.IDEAL: ideal}, (worst, *more))


def message(launched: Any) -> str:
    text: str = next(f.message for f in rules.decide_all(launched) if f.rule == "SwizzleAdvice")
    return text


def test_what_it_names_for_a_row_length_is_conflict_free_at_that_length() -> None:
    """32 lanes in 32 consecutive rows, at each position of a row, as the full degree says."""
    for sass, op in OPS.items():
        slots = shapes.shape(sass.split(maxsplit=1)[0]).slots
        named = re.findall(NAMED.pattern + r" for rows of (\d+) bytes", message(launch(sass, slots)))
        assert [int(row_bytes) for *_, row_bytes in named] == [128, 256], op
        for bits, base, shift, size, row_bytes in (tuple(map(int, one)) for one in named):
            elements = np.arange(0, row_bytes // size, max(1, 16 // size) if "matrix" in op else 1)[:, None]
            addresses = np.arange(32) * row_bytes // size + elements
            plain = wavefronts(op, addresses * size)
            swizzled = wavefronts(op, Swizzle(bits=bits, base=base, shift=shift)(addresses) * size)
            assert (plain.actual > plain.ideal).all(), op
            least = np.maximum(plain.ideal, 1 if "matrix" not in op else 4)
            assert (swizzled.actual <= np.maximum(least, swizzled.ideal)).all(), op


def test_wider_accesses_to_the_same_tile_leave_what_it_says() -> None:
    wide = facts.Instruction(10, 100, 100, pc=32, sass="STS.128 [R4], R8", access="STS")
    text = message(launch("LDS R1, [R2]", 32, wide))
    *_, (bits, base, shift, size) = (tuple(map(int, one)) for one in NAMED.findall(text))
    assert "leaves these accesses a degree of 4" in text
    addresses = Swizzle(bits=bits, base=base, shift=shift)(np.arange(32) * 128 // size + np.arange(32)[:, None]) * size
    counted = wavefronts("ld.shared.b32", addresses)
    assert (counted.actual == 4 * counted.ideal).all()


def test_where_the_addresses_decide_it_names_no_swizzle() -> None:
    for degree in (2, 4, 2.75, 13):
        text = message(launch("LDS.128 R8, [R4]", degree))
        assert "Swizzle<" not in text, degree
        assert "my.cu" in text, "the command that computes it"
    tried = replace(launch("LDS R1, [R2]", 32), tried=("shared memory from 0x400: padding makes it clean",))
    text = message(tried)
    assert "Tried on the kernel's own addresses: shared memory from 0x400: padding makes it clean." in text
    assert not re.search(r"Swizzle<|fallback", text)


def test_the_width_is_the_one_of_the_modifiers_and_a_swizzle_is_spelled_as_everywhere() -> None:
    for sass, degree, phrase in (
        ("LDS.U16 R1, [R2]", 32, "LDS of 2 bytes, degree"),
        ("LDS.S8 R1, [R2]", 32, "LDS of 1 byte, degree"),
        ("LDSM.16.MT88.2 R1, [R2]", 8, "LDSM of 2 matrices of 16-byte rows, degree"),
        ("LDSM.16.M88 R1, [R2]", 8, "LDSM of 1 matrix of 16-byte rows, degree"),
    ):
        assert phrase in message(launch(sass, degree))
    for bits, base, shift, size in ((3, 0, 4, 16), (5, 1, 5, 2), (3, 4, 3, 1)):
        tile = Mapping(Layout((8, 8), (8, 1)), Swizzle(bits=bits, base=base, shift=shift), size)
        assert shapes.spelled(bits, base, shift, size) == code.spelled(tile)
        assert mapping.parse("(8,8):(8,1)", size, f"{bits},{base},{shift}") == tile


def test_plain_stores_beside_wgmma_are_told_of_stmatrix() -> None:
    """The widest mode is free of conflicts for STSM whose lanes store consecutive rows of 128 bytes."""
    text = message(launch("STS [R4], R8", 8, WGMMA, COPY))
    for phrase in ("stmatrix (STSM)", "UTMASTG", "ncu-swizzle lint"):
        assert phrase in text
    for chunk in range(8):
        rows = np.arange(32) * 128 + 16 * chunk
        plain = wavefronts("stmatrix.x4", rows[None])
        swizzled = wavefronts("stmatrix.x4", Swizzle(bits=3, base=4, shift=3)(rows)[None])
        assert (plain.actual.tolist(), swizzled.actual.tolist(), swizzled.ideal.tolist()) == ([32], [4], [4])
    stored = facts.Instruction(10, 100, 100, pc=80, sass="STSM.16.M88.4 [R4], R8", access="STSM")
    assert "stmatrix" not in message(launch("STS [R4], R8", 8, WGMMA, stored)), "it has it"
    assert "stmatrix" not in message(launch("STS [R4], R8", 8, COPY)), "it has no wgmma"
    assert "descriptors" not in message(launch("LDS R1, [R2]", 8, COPY))
    assert "makes the results wrong" in message(launch("LDS R1, [R2]", 8, WGMMA, COPY))
