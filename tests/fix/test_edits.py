"""Edits change their bytes and no others, and the patch says exactly what they did."""

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.fix.edits import Edit, Overlap, edited, line_end, unified


def test_edits_leave_everything_else_as_it_is() -> None:
    assert edited(b"a\r\n\tb\xff c", [Edit(4, 5, "BB"), Edit(0, 0, "x")]) == b"xa\r\n\tBB\xff c"


def test_two_edits_of_the_same_bytes_are_refused() -> None:
    with pytest.raises(Overlap):
        edited(b"abc", [Edit(0, 2, "x"), Edit(1, 3, "y")])


def test_lines_end_as_most_of_the_file_does() -> None:
    text = b"a\r\nb\r\nc\nd"
    assert [line_end(text, at) for at in (0, 3, 6, 8)] == ["\r\n", "\r\n", "\n", "\n"]
    assert line_end(b"a", 0) == "\n"


def test_a_patch_makes_the_new_text_of_the_old_one(tmp_path: Path) -> None:
    for text in ("one\ntwo\nthree\n", "one\r\ntwo\r\nthree\r\n", "one\ntwo\nthree", "one\n\x0ctwo\nthree\n"):
        before, after = text.encode(), text.replace("two", "2").encode()
        (tmp_path / "a.cu").write_bytes(before)
        (tmp_path / "a.patch").write_bytes(unified(before, after, "a.cu").encode())
        subprocess.run(["git", "apply", "a.patch"], cwd=tmp_path, check=True)
        assert (tmp_path / "a.cu").read_bytes() == after
