"""A source and its headers become one text, and that text the same files again."""

from pathlib import Path

from ncu_swizzle.fix.edits import Spliced, parted, place, splice

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


def test_every_line_has_its_file_and_number() -> None:
    text = spliced().text
    for number, line in enumerate(text.split(b"\n"), 1):
        file, there = place(SOURCE, text, number)
        if line.startswith((b"int ", b"// ", b"#endif", b"#include")):
            assert FILES[file].split(b"\n")[there - 1] == line
    assert place(SOURCE, text, text[: text.index(b"int deep")].count(b"\n") + 1) == (DEEP, 4)


def test_a_header_that_is_read_each_time_is_left_out() -> None:
    made = spliced(b'#define T int\n#include "table.inc"\n#define T char\n#include "table.inc"\n#include "tile.cuh"\n')
    assert made.repeated == {TABLE}
    assert b'#include "table.inc"' in made.text
    assert b"int tile" in made.text


def test_what_is_no_plain_include_stays() -> None:
    for line in (
        b'// #include "tile.cuh"\n',
        b'/* see\n#include "tile.cuh"\n*/\n',
        b'int a[] = {\n#include "table.inc"\n};\n',
        b'#include "tile.cuh" /* and\nmore */\n',
        b'#pragma ncu_swizzle_begin 00\n#include "tile.cuh"\n',
    ):
        assert spliced(line).text == line
