"""The page for contributors names modules and functions that exist."""

import pkgutil
import re

import pytest

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "how-it-works.md"
NAMED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)+)(?:\([^`]*)?`")


def names() -> list[str]:
    found = sorted(set(NAMED.findall(PAGE.read_text(encoding="utf-8"))))
    return [name for name in found if (ROOT / "ncu_swizzle" / name.partition(".")[0]).is_dir()]


def test_the_page_names_many() -> None:
    assert len(names()) > 20


@pytest.mark.parametrize("name", names())
def test_what_the_page_names_exists(name: str) -> None:
    pkgutil.resolve_name(f"ncu_swizzle.{name}")
