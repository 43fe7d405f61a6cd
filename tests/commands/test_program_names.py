"""What programs are called, and files of reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.commands.run_program import program_name
from ncu_swizzle.reports import many_launches


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["./app", "--size", "4096"], "app"),
        (["python", "train.py", "--steps", "3"], "train"),
        (["/usr/bin/python3.12", "-u", "-X", "dev", "-m", "pkg.module"], "pkg.module"),
        (["python3", "-c", "print()"], "python3"),
        (["pythonic", "x.py"], "pythonic"),
        ([], "program"),
    ],
)
def test_a_program_is_called_after_what_it_runs(argv: list[str], name: str) -> None:
    assert program_name(argv) == name


@pytest.mark.long
@given(st.text())
def test_any_text_has_a_name_that_can_be_printed(text: str) -> None:
    (column,) = many_launches.columns([text])
    assert all(letter.isprintable() for letter in column) or column == text
    assert program_name([text])
