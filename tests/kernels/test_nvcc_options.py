"""The options that nvcc gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels import catalog, naming, nvcc_options, recipe
from tests.support.own_kernel import FULL, description, own


def test_options_are_split_and_made_whole(tmp_path: Path) -> None:
    assert nvcc_options.split(["-DA=1 -DB='x y'", "-I inc", "-I../up", "-Xptxas -v"], tmp_path) == (
        *("-DA=1", "-DB=x y", f"-I{tmp_path}/inc", f"-I{tmp_path.parent}/up", "-Xptxas", "-v"),
    )
    assert nvcc_options.options(["A", "B=2"], ["inc"], [], "c++20", tmp_path) == (
        *("-DA", "-DB=2", f"-I{tmp_path}/inc", "-std=c++20"),
    )


def test_options_that_cannot_be_are_told(tmp_path: Path) -> None:
    for text in ("-arch=sm_80", "-gencode arch=compute_80,code=sm_80", "-o x", "-D'A"):
        with pytest.raises(UsageError):
            nvcc_options.split([text], tmp_path)
    with pytest.raises(UsageError, match="-D '1A' is not NAME or NAME=VALUE"):
        nvcc_options.options(["1A"], [], [], "", tmp_path)


def test_a_language_standard_of_theirs_replaces_ours(tmp_path: Path) -> None:
    family = naming.family_of(own(tmp_path), description(FULL, options=("-std=c++20",)), ())
    assert recipe.options(family, family.kernels[0]) == ("-lineinfo", "-O3", "-std=c++20")


def test_the_shipped_kernels_are_compiled_as_ever() -> None:
    for family, kernel in catalog.shipped():
        if kernel.library:
            continue
        assert recipe.options(family, kernel) == recipe.OPTIONS
        if not family.headers:
            assert recipe.include_folders(family) == [paths.kernels() / "common", family.folder]
        assert recipe.unit(family, kernel) == f'#include "{family.source(kernel)}"\n'
