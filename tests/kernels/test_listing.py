"""The catalogue in words: for the terminal, the documentation and programs."""

from __future__ import annotations

from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import listing
from tests.support.places import ROOT


def test_the_page_of_the_documentation_is_made_from_the_catalogue() -> None:
    page = (ROOT / "docs" / "catalog.md").read_text(encoding="utf-8")
    assert page == listing.markdown(catalog.shipped()), "ncu-swizzle list --markdown - > docs/catalog.md"


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
