"""The times of kernels on a terminal: each beside what its family is held against."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import listing
from ncu_swizzle.reports.comparison import TimedFamily

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
