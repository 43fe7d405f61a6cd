"""Limits of layouts, swizzles, accesses and files of addresses: said at once, with what to type."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, UsageError
from ncu_swizzle.smem import access, bankmap, lanes, mapping
from ncu_swizzle.smem.access import evaluate
from ncu_swizzle.smem.layout import Layout, parse_layout
from ncu_swizzle.smem.suggestions import suggest
from ncu_swizzle.smem.swizzle import parse_swizzle

HUGE = "1" + "0" * 5000
OP = "ld.shared.b32"


@pytest.mark.parametrize(
    "text",
    [
        "(100000,100000):(1,1)", "(1048576,1):(1,1)", f"({HUGE},1):(1,1)", f"(8,8):(1,{HUGE})", "(8,8):(1,9999999999)",
        "(" * 5000 + "1" + ")" * 5000 + ":1", "(1," * 3000 + "1" + ")" * 3000 + ":1", "(" * 200_000,
        "(" + "1," * 200_000 + "1):1", "1:0 o " * 100_000 + "1:0", "(" * 40 + "1" + ")" * 40 + ":1",
    ],
    ids=lambda text: f"{text[:8]}{len(text)}",
)  # fmt: skip
def test_absurd_layouts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_layout(text)


def test_absurd_numbers_are_refused() -> None:
    layout = "(8,8):(8,1)"
    for pad in (-1, 1 << 30, 1 << 63, 10**30, int("9" * 4000)):
        with pytest.raises(UsageError):
            mapping.parse(layout, pad=pad)
    for text in (f"{HUGE},1,1", f"3,{HUGE},3", f"3,3,-{HUGE}", "9" * 30 + ",1,1", "3,200,3"):
        with pytest.raises(UsageError):
            parse_swizzle(text, 4)
    for text in (f"row:{HUGE}", f"{OP}@{'(' * 5000},0", f"{OP}@{'tid+' * 5000}0,0", f"{OP}@{'9' * 30},0"):
        with pytest.raises(UsageError):
            access.parse(text, parse_layout(layout), 4)
    for banks in (0, -1, 1 << 40, 10**30):
        with pytest.raises(UsageError, match="banks"):
            bankmap.build(mapping.parse(layout), banks=banks)
    for expression in ("tid*" * 5000 + "1", "(" * 9000, "-" * 9999 + "1", "tid << 40 << 40", "tid * " + "9" * 30):
        with pytest.raises(UsageError):
            evaluate(expression)


def test_a_search_over_too_many_requests_is_refused() -> None:
    tile = mapping.parse("(65536,1):(1,1)")
    requested = [access.parse("row", tile.layout, 4)]
    with pytest.raises(UsageError, match="65,536 requests") as error:
        suggest(tile, requested)
    assert "part of the tile" in error.value.hint


def test_the_largest_tile_is_still_drawn() -> None:
    tile = mapping.parse("(512,512):(512,1)", 1)
    assert bankmap.build(tile, access.parse("row:4", tile.layout, 1)).counts is not None
    with pytest.raises(UsageError, match="more than shared memory holds"):
        Layout((513, 512), (512, 1))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (["-5"] * 31 + ["0"], "row 1: -5 is negative"),
        (["9" * 30] * 31 + ["0"], "64 bits"),
        (["0x" + "f" * 30] * 31 + ["0"], "64 bits"),
        (["0x8000000000000000"] * 31 + ["0"], "64 bits"),
    ],
)
def test_addresses_have_a_sign_and_a_size(row: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(",".join(row) + "\n", encoding="utf-8")
    with pytest.raises(BadFile, match=said):
        lanes.read(file, OP)


@pytest.mark.long
def test_odd_files_of_addresses_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "latin.csv").write_bytes(b"\xff\xfe,1\n")
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 1000)[:-30] + b"x" * 30)
    (tmp_path / "header.csv.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"x" * 30)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(bytes(lanes.MOST_BYTES + 1), 1))
    (tmp_path / "empty.csv").touch()
    for file in [*tmp_path.glob("*.csv*"), Path("x" * 100_000 + ".csv"), tmp_path / "none.csv"]:
        with pytest.raises(BadFile):
            lanes.read(file, OP)


@pytest.mark.parametrize(
    "expression",
    ["tid + 4294967296*4294967296", "tid*4294967296*4294967296", "1099511627775<<40", "-tid*(1<<40)*(1<<40)"],
)
def test_a_product_that_64_bits_do_not_hold_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="too large for an address"):
        evaluate(expression)
