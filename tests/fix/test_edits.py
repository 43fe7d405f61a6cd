"""Edits of sources and of their headers as one text; index expressions taken apart into products."""

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.edits import Edit, Overlap, Spliced, edited, parted, splice, unified
from ncu_swizzle.fix.sums import Constants, Term


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


def spliced(source: bytes = FILES[SOURCE]) -> Spliced:
    files = {**FILES, SOURCE: source}

    def find(name: str, beside: bool, file: Path) -> Path | None:
        return file.parent / name if beside and file.parent / name in files else None

    return splice(SOURCE, source, find, files.__getitem__)


def test_the_files_come_back_as_they_were() -> None:
    made = spliced()
    assert made.text.index(b"int tile") < made.text.index(b"int deep") < made.text.index(b"int k")
    assert made.text.count(b"int tile") == 1
    assert parted(SOURCE, made.text) == FILES
    assert next(iter(parted(SOURCE, made.text))) == SOURCE


def test_an_edit_is_one_of_the_file_that_it_is_in() -> None:
    text = spliced().text.replace(b"int deep;", b"int deep;\nint more;").replace(b"int k;", b"int m;")
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
        assert spliced(line).text == line


def terms(expression: str) -> tuple[Term, ...]:
    file = cuda.parse(f"int f() {{ return {expression}; }}".encode(), "test.cu")
    (returned,) = file.nodes("return_statement")
    return Constants(name=lambda node: {"W": 32, "H": 8}.get(node.text)).terms(returned.named_children[0])


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
