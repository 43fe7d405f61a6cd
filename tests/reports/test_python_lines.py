"""Lines of kernels of CuTe DSL and Numba in reports of programs: callers that are not named, files that are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ncu_swizzle.cubin.lines import LineTable, Location
from ncu_swizzle.reports import python_kernels
from ncu_swizzle.reports.python_kernels import PythonLines
from ncu_swizzle.reports.results import ModuleSource, ReportResult

KERNEL, HELPER = "/home/me/kernels.py", "/home/me/helpers.py"
TEXT = """from helpers import put

def put_here(x):
    x[0] = 1

@cuda.jit
def turn(x):
    def back(i):
        return x[i]
    put_here(x)
    put(x)
    back(3)
"""
NUMBA = "my::turn[abi:v1][abi:cw51cXTLSUwv1](Array<float, 2, C, mutable, aligned>)"
CUTE = "kernel_cutlass_turn_tensor_0"
Stack = tuple[Location, ...]


def said(
    monkeypatch: pytest.MonkeyPatch, stacks: Sequence[Stack], function: str = "turn", demangled: str = ""
) -> tuple[PythonLines, list[str]]:
    """Return what is known of a kernel with these lines, and the notes on it."""
    table = LineTable.of_stacks([(16 * number, stack) for number, stack in enumerate(stacks)])
    monkeypatch.setattr(python_kernels, "line_table", lambda *_: table)
    result = ReportResult(function=function, demangled=demangled, source=ModuleSource(files={KERNEL: TEXT}))
    lines = PythonLines.of(result)
    return lines, lines.lacking(result)


def at(*lines: int, file: str = KERNEL) -> list[Stack]:
    return [((file, line),) for line in lines]


def test_a_line_outside_of_numba_s_kernel_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, (note,) = said(monkeypatch, at(7, 10, 40, 12), demangled=NUMBA)
    assert 'inline="always"' in note
    assert [lines.believed(stack, True) for stack in at(4, 40, 7)] == [(), (), ()]
    assert [lines.believed(stack, True) for stack in at(9, 12)] == at(9, 12)  # a function within the kernel
    assert lines.believed(at(7)[0], False) == at(7)[0]  # where it begins


def test_numba_s_own_line_for_what_is_before_the_kernel_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not said(monkeypatch, at(7, 10, 12), demangled=NUMBA)[1]
    assert said(monkeypatch, at(7, 10, 7), demangled=NUMBA)[1]


def test_lines_with_callers_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = ((HELPER, 40), (KERNEL, 11))
    lines, notes = said(monkeypatch, [*at(7), stack], demangled=NUMBA)
    assert (lines.believed(stack, True), notes) == (stack, [])


def test_without_the_source_lines_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, notes = said(monkeypatch, at(400, file="/nowhere/gone.py"), demangled=NUMBA)
    assert (lines.believed(at(400, file="/nowhere/gone.py")[0], True), notes) == (
        at(400, file="/nowhere/gone.py")[0],
        [],
    )


@pytest.mark.parametrize("stacks", [at(7, 10, 4), [*at(7), *at(3, file=HELPER)]])
def test_cute_dsl_s_callers_are_said_to_be_lacking(monkeypatch: pytest.MonkeyPatch, stacks: list[Stack]) -> None:
    (note,) = said(monkeypatch, stacks, CUTE)[1]
    assert note.startswith("source lines end at inlined functions: CuTe DSL's cubin does not name their callers")


@pytest.mark.parametrize("stacks", [at(7, 10, 12), [*at(7), ((HELPER, 3), (KERNEL, 11))], []])
def test_nothing_is_lacking_of_one_function_or_with_callers(
    monkeypatch: pytest.MonkeyPatch, stacks: list[Stack]
) -> None:
    assert said(monkeypatch, stacks, CUTE)[1] == []


def test_other_kernels_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, notes = said(monkeypatch, at(4, 40), demangled="turn(float*)")
    assert (lines.believed(at(40)[0], True), notes) == (at(40)[0], [])
