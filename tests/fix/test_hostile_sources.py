"""Sources that use more than the tile where one launch does not show it: the patch is refused, at the line that does.

The first line of each file of tests/data/fix_hostile says which mapping is written, and what comes of it; a line with
WRONG is the one that the reason has to name.
"""

import re

import pytest

from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Swapped
from tests.support.places import DATA, table
from tests.support.sources_in_cuda import FLAT, LONGER, ROWS, rewritten

HEAD = re.compile(r"// ([\w ]+); (refused|written): (.*)")
MAPPINGS = {"rows": ROWS, "flat": FLAT, "padding": LONGER, "swapped": Swapped(columns=32, rows=32)}
WHOLLY = {"wholly": FLAT, "longer wholly": LONGER}  # every index goes through a function


def outcome(text: str, mapping: str) -> tuple[str, list[int | None]]:
    """Return the patched source, or why it is refused, and the line that is blamed."""
    name = "s" if "__shared__ S s" in text else "t"
    try:
        return rewritten(text, (MAPPINGS | WHOLLY)[mapping], name, flat=mapping in WHOLLY), []
    except Unfit as refused:
        return str(refused), [refused.line]


@pytest.mark.parametrize("mapping", [*MAPPINGS, *WHOLLY])
def test_what_the_launch_does_not_show_is_seen_in_the_source(mapping: str) -> None:
    otherwise: dict[str, object] = {}
    files = 0
    for source in sorted((DATA / "fix_hostile").glob("*.cu")):
        text = source.read_text(encoding="utf-8")
        head = HEAD.match(text)
        assert head is not None, source
        if head[1] != mapping:
            continue
        files += 1
        said, lines = outcome(text, mapping)
        wrong = [number for number, line in enumerate(text.splitlines(), 1) if "WRONG" in line]
        expected = [head[3]] if head[2] == "written" else head[3].split("|")
        if lines != wrong or not any(part in said for part in expected):
            otherwise[source.name] = said, lines
    assert otherwise == {}
    assert files


def test_a_column_stays_in_its_row_in_every_launch() -> None:
    facts = table("facts/columns.toml")

    def reason(statements: str, column: str) -> str:
        kernel = """__global__ void k(float *o, int n, int flag) {
            __shared__ float t[1100];
            const int x = threadIdx.x, y = threadIdx.y;
            t[y * 32 + x] = 1; __syncthreads();"""
        text = f"{facts['before']}{kernel} {statements} o[0] = t[(x % 31) * 32 + {column}]; }}"
        try:
            rewritten(text, FLAT)
        except Unfit as refused:
            return str(refused)
        return ""

    reasons = {tuple(case): reason(*case) for case in facts["leaves"]}
    assert {case: why for case, why in reasons.items() if "may leave its row" not in why} == {}
    assert {tuple(case): why for case in facts["stays"] if (why := reason(*case))} == {}
