"""Reports of several kernels, made of recorded ones, and a program's, laid out and shown."""

import dataclasses
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.reports import pairing, run_folder
from ncu_swizzle.reports.comparison import JobResult
from ncu_swizzle.reports.container import MAGIC
from ncu_swizzle.reports.model import KernelId, LaunchId, MachineInfo, Profile
from tests.support.places import PROGRAMS
from tests.support.recordings import Recorded


def join(reports: Sequence[Path]) -> bytes:
    """Return one report with the results of all, in their order; its session is the last one's.

    All were recorded with the same section: the names of metrics are those of the first.
    """
    start = len(MAGIC)
    data = [report.read_bytes() for report in reports]
    bodies = [start + 4 + int.from_bytes(one[start : start + 4], "little") for one in data]
    return data[0][: bodies[0]] + b"".join(one[body:] for one, body in zip(data, bodies, strict=True))


def save_run(folder: Path, kernel: str, profiles: Sequence[Profile]) -> Path:
    """Save profiles as the finished run of a kernel; return its folder, which is made."""
    folder.mkdir()
    for profile in profiles:
        profile.save(folder / f"{profile.kernel.name}.json")
    run_folder.finish(folder, kernel, [f"{profile.kernel.name}.json" for profile in profiles])
    return folder


def launched(profile: Profile, function: str, index: int = 0, grid: tuple[int, int, int] = (8, 1, 1)) -> Profile:
    """Return the profile as if it were of another function, launch and grid, from a program of somebody else."""
    name = re.split(r"[(<]", function, maxsplit=1)[0]
    name = re.split(r"::| ", name)[-1]
    kernel = dataclasses.replace(profile.kernel, name=name, function=function, family="", title="", mangled="")
    metrics = {key: metric for key, metric in profile.metrics.items() if not key.startswith("launch__grid")}
    launch = LaunchId(index=index, occurrence=0, workload="kernel", grid=grid, block=(32, 1, 1))
    return dataclasses.replace(profile, kernel=kernel, metrics=metrics, launch=launch, problem={}, engine="ncu")


def without(profile: Profile, *metrics: str) -> Profile:
    """Return the profile as it would be of a report that lacks the metrics, and what instructions have of them."""
    columns = {
        "inst_executed": "executed",
        "memory_l1_wavefronts_shared": "wavefronts",
        "memory_l1_wavefronts_shared_ideal": "ideal",
    }
    gone = {columns[name]: None for name in metrics if name in columns}
    samples = {} if any("pcsamp" in name for name in metrics) else None
    return dataclasses.replace(
        profile,
        metrics={name: metric for name, metric in profile.metrics.items() if not name.startswith(metrics)},
        instructions=tuple(
            dataclasses.replace(i, **gone, samples=i.samples if samples is None else samples)
            for i in profile.instructions
        ),
    )


def spoiled(profile: Profile, access: str = "", **fields: Any) -> Profile:
    """Return the profile with other fields of its first access to shared memory, or of its first one of a kind."""
    rows = list(profile.instructions)
    first = next(number for number, row in enumerate(rows) if row.access and access in ("", row.access))
    rows[first] = dataclasses.replace(rows[first], **fields)
    return dataclasses.replace(profile, instructions=tuple(rows))


EMPTY = Profile(
    engine="ncu",
    kernel=KernelId(name="bare", function=""),
    problem={},
    machine=MachineInfo(),
    when="",
    command="",
    report="",
    report_sha256="",
    errors={},
    metrics={},
    instructions=(),
)


ENGINE = "ncu"
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
    comparisons, notes = pairing.lay_out(pairing.rows(reports), columns)
    return JobResult(comparisons=comparisons, engine=ENGINE, notes=notes, title="a program")


def reopened(*names: str) -> JobResult:
    """Return what `report` shows of reports in tests/data/programs."""
    from ncu_swizzle.commands import run_kernel

    return run_kernel.reopen([str(PROGRAMS / f"{name}.ncu-rep") for name in names])


def shown(result: JobResult, width: int = 80) -> str:
    from rich.console import Console

    from ncu_swizzle.render import terminal

    console = Console(file=io.StringIO(), width=width)
    terminal.show(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]
