"""Hopper's tiles as `banks` draws them: the pictures of docs/hopper.md, files and data, and mistakes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.process import Command

BOTH = ("explain", "box(8,64)+k-major(8,16,1024)", "--swizzle", "128B")
SHOWN = re.findall(
    r"```console\n\$ ncu-swizzle (.*)\n((?:.*\n)*?)```", (ROOT / "docs" / "hopper.md").read_text(encoding="utf-8")
)


def test_the_documentation_shows_pictures() -> None:
    assert len(SHOWN) == 5


@pytest.mark.parametrize(("typed", "shown"), SHOWN)
def test_the_documentation_shows_what_the_command_prints(typed: str, shown: str, command: Command) -> None:
    done = command(*shlex.split(typed))
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


def test_tiles_as_data_and_as_files(command: Command, tmp_path: Path) -> None:
    done = command(*BOTH, "--json", "-", "--html", "tile.html", "--svg", "tile.svg")
    box, operand = json.loads(done.stdout)["tiles"]
    assert box["title"] == "TMA writes: box of 8 x 64, 128-byte swizzle"
    assert box["chunks"][1] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert operand["chunks"][2] == [-1, -1, 0, 1, -1, -1, -1, -1]
    assert operand["rows"][2] == [-1, -1, 2, 2, -1, -1, -1, -1]
    assert "wgmma reads: k-major, 128-byte swizzle" in (tmp_path / "tile.html").read_text(encoding="utf-8")
    assert (tmp_path / "tile.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["box(8,128)", "--swizzle", "128B"], "rows of 256 bytes exceed the 128-byte swizzle", "at most 64 columns"),
        (["box(8,7)"], "a box of 8 rows of 14 bytes", "a multiple of 16 bytes"),
        (["box(8,64)", "--swizzle", "48B"], "no swizzle '48B'", "32B, 64B or 128B"),
        (["box(8)"], "box takes 2 numbers", "box(64,64)"),
        (["k-major(8,16)"], "k-major takes 3 numbers", "k-major(64,16,1024)"),
        (["k-major(12,16,1024)"], "12 rows with offsets of 16 and 1024 bytes", "multiples of 8 up to 256"),
        (["k-major(8,17,1024)"], "offsets of 17 and 1024 bytes", "multiples of 16"),
        (["box(8,64)+nothing"], "is not a box or an operand of wgmma", "joined by +"),
        (["box(8,64)", "--pad", "1"], "is drawn as it is", "omit the padding"),
        (["box(8,64)", "--grid", "1"], "box(8,64)", "--grid"),
    ],
)
def test_mistakes_say_what_to_type_next(arguments: list[str], said: str, hint: str, command: Command) -> None:
    done = command("explain", *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
