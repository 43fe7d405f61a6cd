"""A program with several kernels, laid out and shown."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence

from rich.console import Console

from ncu_swizzle.render import terminal
from ncu_swizzle.reports import many_launches
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Engine
from tests.support.recordings import Recorded
from tests.support.reports import launched

ENGINE = Engine("ncu")
LAUNCHED = ("transpose-plain", "transpose-xor", "transpose-plain", "vectors-4-stride")


def program(recorded: Recorded, times: int = 1) -> list[Profile]:
    """Return a program's launches: two with conflicts, one without, one that uses no shared memory."""
    plain, swizzled = recorded("transpose-plain"), recorded("transpose-xor")
    idle = dataclasses.replace(
        swizzled,
        instructions=tuple(
            dataclasses.replace(i, access="", wavefronts=None, ideal=None) for i in swizzled.instructions
        ),
    )
    made = [(plain, "void a::rows<float>(float *)"), (swizzled, "void a::tile<32>(int)"),
            (plain, "void a::rows<double>(double *)"), (idle, "copy(int *)")] * times  # fmt: skip
    return [launched(one, function, index) for index, (one, function) in enumerate(made)]


def laid_out(*reports: Sequence[Profile]) -> JobResult:
    columns = [f"run{number}" for number in range(len(reports))]
    comparisons, notes = many_launches.lay_out(many_launches.rows(reports), columns)
    return JobResult(comparisons=comparisons, engine=ENGINE, notes=notes, title="a program")


def shown(result: JobResult, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    terminal.show(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]
