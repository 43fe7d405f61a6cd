"""Numbers and highlighted source as text; the times of kernels on a terminal."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import listing, text
from ncu_swizzle.render.colours import Colours, Token
from ncu_swizzle.reports.comparison import TimedFamily


@pytest.mark.parametrize(
    ("before", "after", "reads"),
    [
        (100, 50, "÷ 2.00"),
        (10, 35, "× 3.50"),
        (100, 112, "+12.0 %"),
        (100, 99, "−1.0 %"),
        (3, 3, "same"),
        (0, 1234, "+1,234"),
        (5, 0, "−100.0 %"),
        (None, 5, "unknown"),
        (5, float("nan"), "unknown"),
    ],
)
def test_a_change_reads_well(before: float | None, after: float | None, reads: str) -> None:
    assert text.change(before, after) == reads


def test_numbers_read_well() -> None:
    assert text.count(1886388224) == "1,886,388,224"
    assert text.count(None) == text.degree(float("inf")) == text.percent(float("nan")) == "unknown"
    assert text.fixed(0.000123, 3) == "0.000123"
    assert text.points(86.85, 31.04) == "−55.8 pp"
    assert text.raw(9658720.0) == "9,658,720"
    assert text.raw(0.125) == "0.125"


def test_counts_are_short_or_lower_bounds_and_times_have_one_unit() -> None:
    assert [text.short(n) for n in (0, 999, 4200, 999_960, 469_762_048)] == ["0", "999", "4.2 k", "1.0 M", "469.8 M"]
    assert (text.counted(None, 5), text.counted(None, 0), text.counted(7, 5)) == ("at least 5", "unknown", "7")
    assert text.percent(-0.01) == "0.0 %"
    assert text.change(100_000, 100_002) == "+0.002 %"
    assert (text.duration_text(80_000), text.duration_text(1.5e6)) == ("80.00 µs", "1.500 ms")
    assert text.duration_text(80_000, text.time_unit([80_000, 2e6, None])) == "0.080 ms"


def test_highlighting_keeps_every_character_on_its_line() -> None:
    source = '\n\n/* one\ntwo */ int x = 1;\r\n#define A "s" \\\n  1\nno end'
    lines = Colours()(source, "a.cu").lines
    assert ["".join(token.text for token in line) for line in lines] == source.split("\n")
    assert Token("com", "/* one") in lines[2]
    assert Colours()("", "a.cu").lines == []
    assert len(Colours()("a\nb\n", "a.cu").lines) == 2


MACHINE = {"gpu": "A GPU", "driver": "1.2", "cuda": "13.0"}


def timing(family: str, times: dict[str, list[float]], copy: list[float]) -> TimedFamily:
    found, _ = catalog.shipped().named(next(iter(times)))
    assert found.name == family
    kernels = tuple(kernel for kernel in found.kernels if kernel.name in times)
    facts: dict[str, Any] = {"machine": MACHINE, "problem": found.problem(), "times_ms": times, "copy_ms": copy}
    return TimedFamily(found, kernels, {**facts, "errors": {"transpose-xor": {"out": 0.0}}})


def shown(one: TimedFamily) -> str:
    console = Console(file=StringIO(), width=120)
    listing.show_times(one, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_family_that_memory_limits_is_held_against_a_copy() -> None:
    one = timing("transpose", {"transpose-plain": [0.3, 0.2, 0.1], "transpose-xor": [0.1]}, [0.05, 0.06, 0.05])
    assert listing.reference_time(one) == ("a plain copy", 0.05)
    text = shown(one)
    assert "of a plain copy" in text
    assert "0.250" in text, "the median of plain, 0.2 ms, is four copies long"
    assert "0.500" in text


def test_a_library_s_kernel_comes_first() -> None:
    one = timing("gemm", {"gemm-plain": [10.0], "reference-gemm": [2.0]}, [])
    assert listing.reference_time(one) == ("reference-gemm", 2.0)
    assert "0.200" in shown(one)


@pytest.mark.parametrize("copy", [[], None])
def test_without_either_there_is_no_such_column(copy: list[float]) -> None:
    one = timing("gemm", {"gemm-plain": [10.0]}, copy)
    assert listing.reference_time(one) is None
    assert " of " not in shown(one).splitlines()[-2]
