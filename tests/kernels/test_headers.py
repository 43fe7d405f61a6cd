"""Headers of installed packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.kernels import recipe


def test_headers_are_found_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someones_headers" / "include").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert recipe.locate("someones_headers:include") == tmp_path / "someones_headers" / "include"
    with pytest.raises(EnvironmentLacking, match="someones_headers:lib are not installed"):
        recipe.locate("someones_headers:lib")


def test_missing_cute_headers_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacking) as lacking:
        recipe.locate("cutlass_library:source/include")
    assert lacking.value.hint == "pip install 'nvidia-cutlass>=4.0'"
