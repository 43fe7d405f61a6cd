"""Kernels of the corpus in further styles are fixed, and the patches read as written by hand."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix import shown
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from tests.support.fix_corpus import CORPUS, REFUSED
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
WRITTEN = {
    "columns-first": ["cells[y][x] =", "cells[31 - y][x]"],
    "functor-transpose": ["(threadIdx.x ^ ((threadIdx.y + i) & 31))]", "((threadIdx.y + i) ^ (threadIdx.x & 31))]"],
    "view-sums": ["buffer[64 * 36]", "tile(buffer, 36)"],
    "view-pairs": ["tile.at(r, threadIdx.x ^ (r & 31))", "a.get(r, k ^ (r & 31)) * b.get(c, k ^ (c & 31))"],
    "nested-stages": [".a[i / 16][(i % 16) ^ ((i / 16) >> 1)] =", ".a[t % 32][k ^ ((t % 32) >> 1)] *"],
    "lists-topk": ["kept = list[j ^ ((threadIdx.x >> 1) & 15)];"],
    "buffers-flat": ["Bs[2][BN * (BK + 4)]", "Bs[stage][tx * (BK + 4) + k]"],
    "granules-sum": ["(threadIdx.y ^ (threadIdx.x & 7)) * 4 + k]"],
}  # fmt: skip
FAST = ("columns-first", "functor-transpose")


def fixed(name: str) -> SourceFix:
    sources = CatalogOptions(config=str(CORPUS / "ncu-swizzle.toml"))
    return fix_all(name, FixQuery(description=KernelDescription(sources=sources)))


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in WRITTEN]
)
def test_further_styles_are_fixed(name: str) -> None:
    made = fixed(name)
    assert made.outcome == "proved", made.kernels[0].tiles
    text = made.after.decode()
    assert all(piece in text for piece in WRITTEN[name]), shown.patch_of(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_be_fixed_is_refused(name: str) -> None:
    made = fixed(name)
    assert made.outcome in ("refused", "unknown")
    assert made.after == made.before


@pytest.mark.long
def test_a_patch_that_moves_elements_out_of_registers_is_refused() -> None:
    made = fixed("refused-registers")
    (tile,) = made.kernels[0].tiles
    reason, _, line = REFUSED["refused-registers"]
    assert tile.reason.startswith(reason)
    assert tile.reason_line == line
    assert "more than before" in tile.reason
