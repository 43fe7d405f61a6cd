"""No regular expression of the package takes longer than linear time, whatever text a stranger gives to it."""

import re
from dataclasses import replace

import pytest

from ncu_swizzle.engines.ncu import FAILURES
from ncu_swizzle.kernels.nvcc_options import VALUES
from tests.support.places import ROOT
from tests.support.regexes import Attacks, Expression, Matcher, expressions, longest_growth

# What is known only as the program runs: how it is written, and every value that it has.
ELSEWHERE = {
    "self.text": [],  # typed by users, or of their files: limited in time
    "self.pattern": [failure.pattern for failure in FAILURES],
    "pattern": [],  # of the one before, line by line
    "VALUES[name]": [*VALUES.values()],
}


@pytest.fixture(scope="module")
def found() -> list[Expression]:
    """The package's expressions, with their values: each module is imported, whatever extra it needs."""
    try:
        return every(
            [*expressions(ROOT / "ncu_swizzle"), *expressions(ROOT / "rules" / "swizzle_pack", ROOT / "rules")]
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("ncu_swizzle", "swizzle_pack", "tests"):
            raise
        pytest.skip(f"{error.name} is not installed: make test-all installs it")


def every(found: list[Expression]) -> list[Expression]:
    """Return expressions, with the values of those that have several."""
    unlike = [each for each in found if each.pattern == "" and each.code not in ELSEWHERE]
    assert not unlike, "say which values they have"
    values = [
        replace(each, pattern=value, place=f"{each.place} {value}")
        for each in found
        for value in dict.fromkeys(ELSEWHERE.get(each.code, ()))
        if each.pattern == ""
    ]
    return [each for each in found if each.pattern != ""] + values


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_expressions_take_linear_steps(part: int, found: list[Expression]) -> None:
    slow = [f"{each.place}: {text}" for each in found[part::4] if (text := longest_growth(each))]
    assert not slow, "\n".join(slow)


@pytest.mark.long
def test_steps_are_counted_of_the_match_that_re_finds(found: list[Expression]) -> None:
    for each in found:
        matcher = Matcher(each)
        for first, pump in sorted(Attacks(matcher).families())[:6]:
            text = f"{first}{pump * 3}!"
            match = matcher.whole.match(matcher.given(text))
            assert matcher.run(matcher.start, text, 0) == (match.end() if match else None), (each, text)


SLOW = {
    "quadratic": [r"\s+y", r"/\*.*?\*/", r'"(?:\\.|[^"\\])*"', r"a[^b]*b", r"(?:x|y)*z", r"\w+:", r"(?=.*!!)a",
                  r"^\s*a", r"\d+\d+z", r"(\w+) \1!!"],
    "exponential": [r"^(?:a|a)*z", r"^(\w+\s?)*$", r"^(a*)*b", r"^([^)]|\(\))*!!"],
    "linear": [r"x\s++y", r"(?<!\s)\s++y", r"\b\w++:", r"/\*.*?(?:\*/|\Z)", r"^(a|b)*+z", r"a[^ab]*b", r"[^;]{0,16}y",
               r"(?<!a)b", r"(?i)ABC", r"x{2,5}"],
}  # fmt: skip


@pytest.mark.parametrize("growth", SLOW)
def test_growth_is_found(growth: str) -> None:
    for pattern in SLOW[growth]:
        found = longest_growth(Expression("here", pattern, re.MULTILINE | re.DOTALL, frozenset({"search"})))
        assert bool(found) == (growth != "linear"), (pattern, found)
