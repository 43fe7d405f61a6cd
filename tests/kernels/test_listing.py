"""The catalogue in words: for the terminal, the documentation and programs."""

from __future__ import annotations

from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import listing


def test_the_page_of_the_documentation_has_a_row_for_each_kernel() -> None:
    page = listing.markdown(catalog.shipped())
    for family, kernel in catalog.shipped():
        assert f"## {family.name}: " in page
        assert page.count(f"\n| {kernel.name} | ") == 1, kernel.name
    assert "| transpose-xor | Column XOR row. A permutation within each row" in page
    assert "| STS 1, LDS 1 | transpose-plain | Kernel 2: Swizzling |" in page


def test_every_variant_says_what_it_teaches_and_from_where() -> None:
    for _, kernel in catalog.shipped():
        assert kernel.title
        assert kernel.lesson.endswith(".")
        assert bool(kernel.article) != kernel.library
        assert bool(kernel.degree) != kernel.library


def test_the_data_names_limits_and_recordings() -> None:
    families = {family["family"]: family for family in listing.data(catalog.shipped())}
    assert families["gemm"]["limits"] == {"n": "a multiple of 256"}
    assert families["tma"]["compute_capability"] == "9.0"
    assert {kernel["recorded"] for kernel in families["attention"]["kernels"]} == {"h100"}
