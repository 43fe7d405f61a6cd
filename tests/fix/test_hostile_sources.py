"""Sources that use more than the tile where one launch does not show it: the patch is refused, at the line that does.

The first line of each file of tests/data/fix_hostile says which mapping is written, and what comes of it; a line with
WRONG is the one that the reason has to name.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_cuda", reason="needs pip install 'ncu-swizzle[fix]'")

from ncu_swizzle.fix.draft import Swapped, Unfit
from tests.support.places import DATA
from tests.support.sources_in_cuda import FLAT, LONGER, ROWS, rewritten

SOURCES = sorted((DATA / "fix_hostile").glob("*.cu"))
MAPPINGS = {"rows": ROWS, "flat": FLAT, "padding": LONGER, "swapped": Swapped(columns=32, rows=32)}
WHOLLY = {"wholly": FLAT, "longer wholly": LONGER}  # every index goes through a function
HEAD = re.compile(r"// ([\w ]+); (refused|written): (.*)")


def name_of(text: str) -> str:
    return "s" if "__shared__ S s" in text else "t"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_what_the_launch_does_not_show_is_seen_in_the_source(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    head = HEAD.match(text)
    assert head is not None
    mapping, outcome, said = (MAPPINGS | WHOLLY)[head[1]], head[2], head[3]
    made = functools.partial(rewritten, text, mapping, name_of(text), flat=head[1] in WHOLLY)
    if outcome == "written":
        assert said in made()
        return
    with pytest.raises(Unfit) as refused:
        made()
    assert any(part in str(refused.value) for part in said.split("|")), refused.value
    wrong = [number for number, line in enumerate(text.splitlines(), 1) if "WRONG" in line]
    assert [refused.value.line] == wrong
