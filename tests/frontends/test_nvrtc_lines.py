"""The numbers that lines of CUDA C++ in strings get."""

from __future__ import annotations

import re

import pytest

from ncu_swizzle.frontends import nvrtc

PLAIN = 'S = r"""\nfirst\nsecond\n"""\n'
SUM = 'HEAD = "#define W 32\\n#define V 1\\n"\nS = HEAD + r"""\nfirst\nsecond\n""" + HEAD\n'
TWO = 'A = r"""\nfirst\n"""\n\nB = """\nsecond\n"""\nS = A + B\n'


def lines(text: str, variable: str = "S") -> dict[str, str]:
    """Execute a file; return the place that a compiler gives to each line of the source, by the line."""
    names: dict[str, str] = {}
    exec(text, names)
    numbered = nvrtc.numbered(names[variable], variable, "k.py", text)
    found, line, file = {}, 0, ""
    for each in numbered.split("\n"):
        if directive := re.fullmatch(r'#line (\d+) "(.*)"', each):
            line, file = int(directive[1]), directive[2]
            continue
        found[each] = f"{file}:{line}"
        line += 1
    return found


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (PLAIN, "k.py:2", "k.py:3"),
        (PLAIN.replace("S =", "S: str ="), "k.py:2", "k.py:3"),
        (PLAIN.replace("S = r", 'S = "" + r'), "k.py:2", "k.py:3"),
        ('S = r"""\nfirst\nsecond\n%d\n""" % 4\n', "k.py:2", "k.py:3"),
        ('n = 4\nS = f"""\nfirst\nsecond\n{n}\n"""\n', "k.py:3", "k.py:4"),
        ('def made():\n    return """\nfirst\nsecond\n"""\nS = made()\n', "k.py:3", "k.py:4"),
        (TWO, "k.py:2", "k.py:6"),
        (SUM, "k.py:3", "k.py:4"),
        ('S = "first\\nsecond\\n"\n', "k.py::S:1", "k.py::S:2"),
        ('S = "first\\n" "second\\n"\n', "k.py::S:1", "k.py::S:2"),
        ('S = "\\n".join(["first", "second"])\n', "k.py::S:1", "k.py::S:2"),
    ],
)
def test_lines_are_those_of_the_literals(text: str, first: str, second: str) -> None:
    found = lines(text)
    assert (found["first"], found["second"]) == (first, second)


def test_what_surrounds_a_literal_has_the_variable_s_lines() -> None:
    found = lines(SUM)
    assert found["#define W 32"] == "k.py::S:6"  # the last of two
    assert found["#define V 1"] == "k.py::S:7"


def test_a_line_that_is_continued_is_not_interrupted() -> None:
    names: dict[str, str] = {}
    exec('A = "#define first \\\\\\n"\nB = r"""second\nthird\n"""\nS = A + B\n', names)
    text = nvrtc.numbered(names["S"], "S", "k.py", 'A = 1\nB = r"""second\nthird\n"""\n')
    assert "\\\nsecond" in text


def test_a_file_that_cannot_be_parsed_has_no_lines() -> None:
    assert nvrtc.numbered("first\n", "S", "k.py", "S = (") == '#line 1 "k.py::S"\nfirst\n'
