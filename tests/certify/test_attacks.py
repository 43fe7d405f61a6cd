"""The checker on code that was not written for it: asm, groups, unions, pointers of all kinds, CuTe-like templates.

Each kernel of tests/data/certify/attacks.cu is compiled in three versions. A wrong one is never proved; if a right one
is not, the table says so.
"""

import pytest

from ncu_swizzle.certify.checker import certify
from ncu_swizzle.certify.verdict import ProofOutcome
from ncu_swizzle.kernels import halves
from ncu_swizzle.kernels.halves import TranslationUnit, Tree
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

pytest.importorskip("bitwuzla")
pytestmark = [pytest.mark.long, NEEDS_ALL]

# What becomes of versions 1 and 2: + proved, - not; version 1 is right unless only wrong ones are known.
KERNELS = {
    "asm_v4": "+-", "asm_cvta": "+-", "asm_symbol": "+-", "asm_number_cvta": "--", "cg_shfl_offset_bad": "--",
    "cg_reduce": "+-", "bar_red_asm": "--", "trap": "+-", "union_private": "+-", "bitfield": "+-",
    "recursion": "--", "indirect": "--", "virtual": "--", "local_offsets": "+-", "local_pointers": "+-",
    "walk_column": "+-", "pointer_printed": "--", "pointer_in_shared": "--", "carved": "+-", "cute": "+-",
    "racy_asm": "--", "asm_local_p0": "--", "ballot_twice": "--", "table": "+-", "misaligned": "+-",
    "zero_fill": "--", "two_arrays": "--", "memcpy": "+-", "memset": "--", "bitonic": "+-", "wmma": "+-",
    "not_injective": "--", "walk_rows": "+-", "chosen": "+-",
}  # fmt: skip


@pytest.fixture(scope="module")
def versions() -> list[str]:
    """The kernels as unoptimised PTX, one text for each version."""
    source = DATA / "certify" / "attacks.cu"
    tree = Tree(source.parent, source.parent)
    units = [TranslationUnit(source=source, options=(f"-DV={n}", "-std=c++17"), device_only=True) for n in range(3)]
    return [halves.compiled(unit, "sm_90a", Toolchain(), tree, cached=False).ptx for unit in units]


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_change_is_never_proved_and_a_right_one_is(name: str, versions: list[str]) -> None:
    for after, expected in zip(versions[1:], KERNELS[name], strict=True):
        found = certify(versions[0], after, kernel=f"k_{name}", block=(32, 8, 1), dynamic=(8192, 8192))
        assert (found.outcome is ProofOutcome.PROVED) == (expected == "+"), found.obstacle
