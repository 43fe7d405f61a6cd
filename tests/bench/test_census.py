"""The census of instructions: what is kept, and that nearly all of it is emulated or unknown on purpose."""

from collections import Counter

import pytest

from bench.figures import census
from ncu_swizzle.emulate.program import Support

LEAST = 0.995


def test_numbers_and_registers_do_not_make_other_instructions() -> None:
    assert census.plainly("@!P3 IMAD.WIDE R2, R34.reuse, -0x24, c[0x0][0x210]") == "IMAD.WIDE R0, R0, 0x1, c[0x1][0x1]"
    assert census.plainly("FADD R5, |R2|, -1.5e+20") == "FADD R0, |R0|, 1"
    assert census.plainly("@!PT LDS RZ, [RZ]") == "@!PT LDS RZ, [RZ]"


@pytest.mark.long
def test_nearly_all_instructions_are_emulated_or_unknown_on_purpose() -> None:
    for arch, sources in census.loaded().items():
        total = sum(sources.values(), Counter[str]())
        kinds = census.supported(total)
        known = sum(count for text, count in total.items() if kinds[text] is not Support.NOT_KNOWN)
        assert known >= LEAST * total.total(), arch
