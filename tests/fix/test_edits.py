"""Edits of sources and headers as one text; mappings stand there as a person would have written them, or why not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import Shorter
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.draft import longer
from ncu_swizzle.fix.edits import Edit, Overlap, edited, parted, splice, unified
from ncu_swizzle.fix.frames import CallFrame
from ncu_swizzle.fix.names import Names
from ncu_swizzle.fix.sums import Constants, Summand
from ncu_swizzle.fix.walking import Walk
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, XorMatrix
from tests.support.places import table
from tests.support.sources_in_cuda import FLAT, FOURS, LONGER, ROWS, body, rewritten


def test_two_edits_of_the_same_bytes_are_refused() -> None:
    with pytest.raises(Overlap):
        edited(b"abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])


def test_a_patch_makes_the_new_text_of_the_old_one(tmp_path: Path) -> None:
    for text in ("one\ntwo\nthree\n", "one\r\ntwo\r\nthree\r\n", "one\ntwo\nthree", "one\n\x0ctwo\nthree\n"):
        before, after = text.encode(), text.replace("two", "2").encode()
        (tmp_path / "a.cu").write_bytes(before)
        (tmp_path / "a.patch").write_bytes(unified(before, after, "a.cu").encode())
        subprocess.run(["git", "apply", "a.patch"], cwd=tmp_path, check=True)
        assert (tmp_path / "a.cu").read_bytes() == after


SOURCE, TILE, DEEP, TABLE = (Path("/p", name) for name in ("k.cu", "tile.cuh", "sub/deep.h", "table.inc"))
FILES = {
    SOURCE: b'#include "tile.cuh"  // first\r\n#include <cuda.h>\nint k;\n#include "table.inc"\n#include "tile.cuh"',
    TILE: b'#pragma once\nint tile;\n#include "sub/deep.h"',
    DEEP: b"// deep\n#ifndef DEEP\n#define DEEP\nint deep;\n#endif  // DEEP\n",
    TABLE: b"int table;\n",
}


def spliced(source: bytes = FILES[SOURCE]) -> bytes:
    files = {**FILES, SOURCE: source}

    def find(name: str, beside: bool, file: Path) -> Path | None:
        return file.parent / name if beside and file.parent / name in files else None

    return splice(SOURCE, source, find, files.__getitem__)


def test_the_files_come_back_as_they_were() -> None:
    made = spliced()
    assert made.index(b"int tile") < made.index(b"int deep") < made.index(b"int k")
    assert made.count(b"int tile") == 1
    assert parted(SOURCE, made) == FILES
    assert next(iter(parted(SOURCE, made))) == SOURCE


def test_an_edit_is_one_of_the_file_that_it_is_in() -> None:
    text = spliced().replace(b"int deep;", b"int deep;\nint more;").replace(b"int k;", b"int m;")
    changed = {file: made for file, made in parted(SOURCE, text).items() if made != FILES[file]}
    assert changed == {
        SOURCE: FILES[SOURCE].replace(b"int k", b"int m"),
        DEEP: FILES[DEEP].replace(b"int deep;", b"int deep;\nint more;"),
    }


def test_what_is_no_plain_include_stays() -> None:
    for line in (
        b'// #include "tile.cuh"\n',
        b'/* see\n#include "tile.cuh"\n*/\n',
        b'int a[] = {\n#include "table.inc"\n};\n',
        b'#include "tile.cuh" /* and\nmore */\n',
        b'#pragma ncu_swizzle_begin 00\n#include "tile.cuh"\n',
    ):
        assert spliced(line) == line


def terms(expression: str) -> tuple[Summand, ...]:
    file = cuda.parse(f"int f() {{ return {expression}; }}".encode(), "test.cu")
    (returned,) = file.nodes("return_statement")
    constants = Constants(walk=Walk(Names(file), (), "f"), name=lambda node, frame: {"W": 32, "H": 8}.get(node.text))
    return constants.terms(returned.named_children[0], CallFrame())


def test_the_constant_of_each_product() -> None:
    expected = {
        "y * 32 + x": [32, 1],
        "(y + 4) * W + x": [32, 1],
        "y << 5 | 1": [1],
        "(y << 5) + x": [32, 1],
        "s * W * H + y * W + x": [256, 32, 1],
        "x - W / 2": [1, 16],
        "010 + 0x10": [8, 16],
        "W * sizeof(float4)": [512],
    }
    assert {text: [term.constant for term in terms(text)] for text in expected} == expected
    assert [term.negative for term in terms("a - (b - c)")] == [False, True, False]
    (term,) = terms("n * W")  # an unknown name is a variable
    assert [factor.value for factor in term.factors] == [None, 32]


SIZES = {"W": 32, "H": 32, "N": 32, "K": 16}
MAPPINGS: dict[str, RowXor | XorMatrix | Padding | Swapped] = {
    "rows": ROWS,
    "flat": FLAT,
    "fours": FOURS,
    "longer": LONGER,
    "shorter": Shorter(34, -2),
    "longer structs": Padding(1, 1),  # in elements of four bytes
    "bits": XorMatrix(((1, 0x10), (2, 0x8))),
    "rows within": RowXor(columns=32, rows=32, bits=5, base=0, drop=0),
    "swapped": Swapped(columns=16, rows=64),
    "turned": Swapped(columns=32, rows=32),
}
FACTS = table("facts/writing.toml")


def test_padding_that_is_there_is_counted_with_what_is_added() -> None:
    lengths = {
        ("32", 1): "33",
        ("W", 1): "W + 1",
        ("W + 1", 3): "W + 4",
        ("W + 1", -1): "W",
        ("(R * 2) + 3", -4): "(R * 2) - 1",
    }
    assert {given: longer(*given) for given in lengths} == lengths


def outcomes(kind: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each statement, or whole source, of the facts of a kind, what comes of it, and what is expected."""
    for fact in FACTS[kind]:
        before = "".join(FACTS["before"].get(text, text) for text in fact.get("before", ()))
        declared, how = fact.get("declared", "t[32][32]"), MAPPINGS[fact["mapping"]]
        for statement, expected in fact["rows"].items():
            text = statement if "__global__" in statement else body(statement, declared, before)
            meant = body(expected, fact.get("after", declared), before) if kind == "written" else expected
            try:
                constants = fact.get("constants", SIZES)
                written = rewritten(
                    text, how, constants=constants, vectors=fact.get("vectors", False), offsets=fact.get("offsets")
                )
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
    assert "constexpr int swizzled(int i) { return i ^ ((i >> 5) & 0x1f); }" in once
    assert "t[swizzled(i)] = u[j];" in once
    twice = rewritten(once, FLAT, "u")  # that of an earlier patch is used again
    assert "t[swizzled(i)] = u[swizzled(j)];" in twice
    assert twice.count("int swizzled") == 1
    lines = rewritten(loop.replace("\n", "\r\n"), FLAT)
    assert lines.count("\n") == lines.count("\r\n")


def test_every_tile_is_swapped() -> None:
    assert Swapped(columns=3, rows=2)(np.arange(12)).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
