"""Mappings stand in the source as a person would have written them, or it is said why they cannot."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import Swapped
from ncu_swizzle.smem.swizzle import Padding
from tests.support.places import table
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten

SIZES = {"W": 32, "H": 32, "N": 32, "K": 16}
MAPPINGS: dict[str, RowXor | Padding | Swapped] = {
    "rows": ROWS,
    "flat": FLAT,
    "fours": FOURS,
    "longer": LONGER,
    "rows within": RowXor(columns=32, rows=32, bits=5, base=0, drop=0),
    "swapped": Swapped(columns=16, rows=64),
    "turned": Swapped(columns=32, rows=32),
}
FACTS = table("facts/writing.toml")


def outcomes(kind: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each statement, or whole source, of the facts of a kind, what comes of it, and what is expected."""
    for fact in FACTS[kind]:
        before = "".join(FACTS["before"].get(text, text) for text in fact.get("before", ()))
        declared, how = fact.get("declared", "t[32][32]"), MAPPINGS[fact["mapping"]]
        named = {name: fact.get(name) for name in ("offsets", "launched")}
        for statement, expected in fact["rows"].items():
            text = statement if "__global__" in statement else body(statement, declared, before)
            meant = body(expected, fact.get("after", declared), before) if kind == "written" else expected
            try:
                constants = fact.get("constants", SIZES)
                written = rewritten(text, how, constants=constants, factors=fact.get("factors", False), **named)
            except Unfit as unfit:
                written = f"{unfit.line}: {unfit}"
            yield statement, written, meant


def test_what_is_written_into_an_index() -> None:
    assert {statement: written for statement, written, meant in outcomes("written") if written != meant} == {}


def test_what_else_is_written() -> None:
    assert [made for _, made, pieces in outcomes("found") if not all(piece in made for piece in pieces)] == []


def test_why_nothing_is_written() -> None:
    assert {statement: said for statement, said, reason in outcomes("refused") if said != reason} == {}


def test_an_accessor_is_written_once_and_lines_end_as_before() -> None:
    loop = body("for (int i = x; i < 1024; i += 256) t[i] = u[j];", "t[1024], u[1024]")
    once = rewritten(loop, FLAT)
    assert "constexpr int swizzled(int i) { return i ^ ((i >> 5) & 31); }" in once
    assert "t[swizzled(i)] = u[j];" in once
    twice = rewritten(once, FLAT, "u")  # that of an earlier patch is used again
    assert "t[swizzled(i)] = u[swizzled(j)];" in twice
    assert twice.count("int swizzled") == 1
    lines = rewritten(loop.replace("\n", "\r\n"), FLAT)
    assert lines.count("\n") == lines.count("\r\n")


def test_every_tile_is_swapped() -> None:
    assert Swapped(columns=3, rows=2)(np.arange(12)).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
