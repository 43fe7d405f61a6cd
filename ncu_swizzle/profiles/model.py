"""What one launch of one kernel was seen to do: plain data, saved as JSON and loaded back equal.

Counts are stored, ratios are properties. ``docs/profile.md`` describes the file.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle import digest
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.errors import BadFile, DamagedFile
from ncu_swizzle.files import write_atomically
from ncu_swizzle.profiles.counts import Instruction, Total, added, grouped
from ncu_swizzle.profiles.engine import EMULATED

SCHEMA = 2
READABLE = (1, SCHEMA)  # a file of schema 1 does not tell `launch` and `kernel.mangled`

DURATION = "gpu__time_duration.sum"
WAVEFRONTS = "memory_l1_wavefronts_shared"
IDEAL = "memory_l1_wavefronts_shared_ideal"
EXECUTED = "inst_executed"
STALLED = "smsp__pcsamp_warps_issue_stalled_"  # + the reason
NEEDED = (WAVEFRONTS, IDEAL, EXECUTED, DURATION, STALLED + "selected")


@dataclass(frozen=True)
class KernelId:
    """Which kernel it was: its name in the catalogue, or the function's own name where it has none."""

    name: str
    function: str
    family: str = ""
    title: str = ""
    mangled: str = ""


@dataclass(frozen=True)
class LaunchId:
    """Which result of its report it is: its place there from 0 (ncu's ID), what was profiled, in what size.

    `occurrence` counts, from 0, the results before it that are of the same function. `workload` is "kernel", or
    "range", "graph" or "command list", whose results have no instructions. Sizes are empty where unknown.
    """

    index: int = 0
    occurrence: int = 0
    workload: str = "kernel"
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class MachineInfo:
    """Where it ran. A field that the source of the profile does not tell is empty (or 0)."""

    gpu: str = ""
    compute_capability: str = ""
    sm_count: int = 0
    driver: str = ""
    cuda: str = ""
    ncu: str = ""
    clock_control: str = ""


@dataclass(frozen=True)
class Metric:
    """One number of ncu's (or a text), under ncu's name and in ncu's unit."""

    value: float | int | str
    unit: str = ""


def stall_reason(metric: str) -> str:
    """Return the stall reason that a metric counts the warp samples of; empty for any other metric."""
    counts = metric.startswith(STALLED) and not metric.endswith("_not_issued")
    return metric.removeprefix(STALLED) if counts else ""


@dataclass(frozen=True)
class Finding:
    """What one of ncu's rules said of the launch."""

    rule: str
    kind: str
    title: str
    message: str


@dataclass(frozen=True)
class Profile:
    """One profiled launch."""

    engine: str  # where the figures come from: "ncu", "recorded" (measured earlier, shipped), "emulated" (computed)
    kernel: KernelId
    problem: Mapping[str, int]
    machine: MachineInfo
    when: str  # ISO 8601, UTC
    command: str  # ncu's command line
    report: str  # the .ncu-rep's name
    report_sha256: str
    errors: Mapping[str, float]  # relative error of each output that was checked before profiling
    metrics: Mapping[str, Metric]
    instructions: tuple[Instruction, ...]
    findings: tuple[Finding, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""  # that the kernel's sources are of, with -dirty where they differ from it
    launch: LaunchId = LaunchId()
    notes: tuple[str, ...] = ()  # what has to be known of the figures, such as why some are unknown
    beside: str = ""  # of an emulated profile: where its times, stalls and other metrics were recorded, if they were

    def number(self, name: str) -> float | None:
        """Return a metric's value; None where the report lacks it or it is no finite number."""
        metric = self.metrics.get(name)
        if metric is None or not isinstance(metric.value, int | float) or not math.isfinite(metric.value):
            return None
        return float(metric.value)

    @property
    def duration_ns(self) -> float | None:
        return self.number(DURATION)

    @property
    def missing(self) -> tuple[str, ...]:
        """The metrics that every figure here rests on and that the report lacks; `notes` say what was not computed."""
        if self.engine == EMULATED:
            return ()
        return tuple(name for name in NEEDED if name not in self.metrics)

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks in x, y, z; zeros where the report does not tell."""
        return self._dimensions("grid") or self.launch.grid or (0, 0, 0)

    @property
    def block(self) -> tuple[int, ...]:
        """Threads in x, y, z; zeros where the report does not tell."""
        return self._dimensions("block") or self.launch.block or (0, 0, 0)

    def _dimensions(self, what: str) -> tuple[int, ...]:
        sizes = tuple(int(self.number(f"launch__{what}_dim_{axis}") or 0) for axis in "xyz")
        return sizes if any(sizes) else ()

    @property
    def total(self) -> Total:
        """All shared-memory accesses together."""
        return added(self.shared())

    @property
    def accesses(self) -> dict[str, Total]:
        """The totals of each access kind, the one with most wavefronts first."""
        totals = grouped(self.shared(), lambda instruction: [instruction.access])
        return dict(sorted(totals.items(), key=lambda item: -(item[1].wavefronts or 0)))

    @property
    def lines(self) -> dict[Location, Total]:
        """The totals of each source line, with all that was inlined there: a call counts what it calls."""
        return grouped(self.instructions, lambda instruction: dict.fromkeys(instruction.stack))

    @property
    def stalls(self) -> dict[str, int]:
        """Warp samples per stall reason, most first. "selected" is no stall: the warp issued."""
        reasons = {reason: int(self.number(name) or 0) for name in self.metrics if (reason := stall_reason(name))}
        return dict(sorted(reasons.items(), key=lambda item: -item[1]))

    def shared(self) -> Iterator[Instruction]:
        """Yield the instructions that access shared memory and that ncu counted wavefronts of.

        Of an emulated profile that is every access: one whose wavefronts could not be computed makes totals unknown.
        """
        return (i for i in self.instructions if i.access and (i.wavefronts is not None or self.engine == EMULATED))

    # ------------------------------------------------------------------------------------------ JSON

    def to_json(self) -> str:
        """Return the profile as JSON, with its schema's number and a digest of everything else."""
        return self._json

    @cached_property
    def _json(self) -> str:  # it is saved, and the page holds it too
        bare = dataclasses.replace(self, instructions=())  # they go into a table: as dictionaries they take their time
        content = {"schema": SCHEMA, **dataclasses.asdict(bare)}
        content["instructions"] = _to_table(self.instructions)
        return json.dumps({**content, "digest": digest.sha256_of_json(content)}, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "the profile") -> Profile:
        """Return the profile that `to_json` wrote; raise BadFile or DamagedFile."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise DamagedFile(f"{name} is not whole: {error}", "profile the kernel again") from error
        if not isinstance(content, dict) or "digest" not in content or "schema" not in content:
            raise BadFile(f"{name} is not a saved profile", "give a file that ncu-swizzle profile wrote")
        if content["schema"] not in READABLE:
            raise BadFile(
                f"{name} has schema {content['schema']}, this ncu-swizzle reads {SCHEMA} and before",
                "read its .ncu-rep instead, or profile the kernel again",
            )
        if content.pop("digest") != digest.sha256_of_json(content):
            raise DamagedFile(f"{name} was altered after it was written", "read its .ncu-rep instead")
        del content["schema"]
        return cls(
            **{
                **content,
                "kernel": KernelId(**content["kernel"]),
                "launch": _launch(content.get("launch", {})),
                "machine": MachineInfo(**content["machine"]),
                "metrics": {name: Metric(**metric) for name, metric in content["metrics"].items()},
                "instructions": _from_table(content["instructions"]),
                "findings": tuple(Finding(**finding) for finding in content["findings"]),
                "notes": tuple(content.get("notes", ())),
            }
        )

    def save(self, path: str | Path) -> None:
        write_atomically(Path(path), self.to_json().encode())


def _launch(content: Mapping[str, Any]) -> LaunchId:
    sizes = {name: tuple(content.get(name, ())) for name in ("grid", "block")}
    return LaunchId(**{**content, **sizes})


def _to_table(instructions: Iterable[Instruction]) -> dict[str, list[Any]]:
    """Return columns and rows; a row names its stack by its number, many instructions share one."""
    columns = [column.name for column in dataclasses.fields(Instruction)]
    stacks: dict[tuple[Location, ...], int] = {}
    rows = []
    for instruction in instructions:
        row = {column: getattr(instruction, column) for column in columns}
        row["stack"] = stacks.setdefault(instruction.stack, len(stacks))
        rows.append(list(row.values()))
    return {"columns": columns, "rows": rows, "stacks": list(stacks)}


def _from_table(table: Mapping[str, list[Any]]) -> tuple[Instruction, ...]:
    stacks = [tuple((file, line) for file, line in stack) for stack in table["stacks"]]
    rows = (dict(zip(table["columns"], row, strict=True)) for row in table["rows"])
    return tuple(Instruction(**{**row, "stack": stacks[row["stack"]]}) for row in rows)
