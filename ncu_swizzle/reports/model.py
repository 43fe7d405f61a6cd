"""The profile of one kernel launch: plain data, saved as JSON and loaded back equal.

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

from ncu_swizzle.base import cache, codes
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.base.timeline import Timeline
from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.base.validate import MOST_DIGITS, Amount, Count, Whole, from_plain
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.cycles.simulated import Simulated
from ncu_swizzle.reports.counts import Instruction, SavedRequests, Total, added, grouped
from ncu_swizzle.reports.options import RECORDED, Origin, origin_of

SCHEMA = 12
# More than any compiler's kernel has: the time to show a profile grows with them.
MOST_INSTRUCTIONS, MOST_FRAMES, MOST_PLACES = 100_000, 500, 1_000_000
# 1 lacks `launch` and `kernel.mangled`, 2 `requests`, 3 `sample`, 4 `layouts`, 5 `unknowns` and codes of findings, 6
# `traffic` of instructions, 7 `timeline`, 8 `simulated`, 9 `through` and `related` of findings, `arrays` and
# `supposed`, 10 `checked`, 11 `line` of findings
READABLE = (*range(1, SCHEMA), SCHEMA)

DURATION = "gpu__time_duration.sum"
WAVEFRONTS = "memory_l1_wavefronts_shared"
IDEAL = "memory_l1_wavefronts_shared_ideal"
EXECUTED = "inst_executed"
STALLED = "smsp__pcsamp_warps_issue_stalled_"  # + the reason
NEEDED = (WAVEFRONTS, IDEAL, EXECUTED, DURATION, STALLED + "selected")


@dataclass(frozen=True, kw_only=True)
class KernelId:
    """The kernel: its name in the catalogue, or else the function's own name."""

    name: str
    function: str
    family: str = ""
    title: str = ""
    mangled: str = ""

    @property
    def names(self) -> tuple[str, str, str]:
        """The names by which `-k` and `--kernel-name` select it."""
        return self.name, self.function, self.mangled


@dataclass(frozen=True, kw_only=True)
class LaunchId:
    """The launch: its index in the report from 0 (ncu's ID), what was profiled, and the launch size.

    `occurrence` is the number of earlier results of the same function. `workload` is "kernel", or "range", "graph" or
    "command list", whose results have no instructions. Sizes are empty if unknown.
    """

    index: Count = 0
    occurrence: Count = 0
    workload: str = "kernel"
    grid: tuple[Count, ...] = ()
    block: tuple[Count, ...] = ()


MEASURED_ON = "9.0"  # the compute capability that the rules of docs/wavefronts.md were measured on
RULE_FROM = "rule measured on sm_90"


@dataclass(frozen=True)
class MachineInfo:
    """The machine it ran on. Unknown fields are empty (or 0)."""

    gpu: str = ""
    compute_capability: str = ""
    sm_count: Count = 0
    driver: str = ""
    cuda: str = ""
    ncu: str = ""
    clock_control: str = ""


@dataclass(frozen=True)
class Metric:
    """One of ncu's values, a number or a string, in ncu's unit."""

    value: float | Whole | str
    unit: str = ""


def stall_reason(metric: str) -> str:
    """Return the stall reason whose warp samples a metric counts; empty for any other metric."""
    counts = metric.startswith(STALLED) and not metric.endswith("_not_issued")
    return metric.removeprefix(STALLED) if counts else ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The message of one of ncu's rules about the launch, or of our own checks, with a code of `base.codes`."""

    rule: str
    kind: str
    title: str
    message: str
    code: str = ""
    line: Location | None = None  # the own source line that does it, if known
    through: tuple[Location, ...] = ()  # what is inlined at the line, innermost last
    related: tuple[Location, ...] = ()  # the lines of others that take part


@dataclass(frozen=True, kw_only=True)
class UnknownCounts:
    """What is unknown for one reason: the reason with its code, what would make it known, and the instructions.

    Without instructions it is about the whole launch.
    """

    code: str
    reason: str
    remedy: str
    offsets: tuple[Count, ...] = ()

    @classmethod
    def of(cls, code: str, reason: str, offsets: Iterable[int] = ()) -> UnknownCounts:
        """Return a reason, with the remedy from the catalogue of codes."""
        return cls(code=code, reason=reason, remedy=codes.CATALOGUE[code].remedy, offsets=tuple(offsets))


@dataclass(frozen=True, kw_only=True)
class CheckedOutput:
    """An output of a launch that was executed without a GPU, compared with its reference.

    Elements that threads of the executed blocks did not write, or whose contents are unknown, are not compared.
    """

    name: str
    problem: Mapping[str, Count]  # which may be smaller than the profile's
    checked: Count  # elements that were compared
    elements: Count
    blocks: Count  # that were executed
    all_blocks: Count
    error: Amount | None  # the largest relative error of a row (2-norm); None if it has NaN, as what was never written
    tolerance: Amount
    wrong: str = ""  # the first wrong element, and who wrote it; empty: all are right
    inexact: tuple[str, ...] = ()  # instructions that reach it and are not bit-exact
    unknown: str = ""  # why elements are unknown; empty: none is

    def __str__(self) -> str:
        """What was checked, and with what result."""
        of = f"{self.checked:,} of {self.elements:,} elements"
        at = ", ".join(f"{name}={size}" for name, size in self.problem.items())
        where = f" at {at}" if at else ""
        where += f" in {self.blocks:,} of {self.all_blocks:,} blocks" if self.blocks < self.all_blocks else ""
        found = self.wrong or f"largest relative error {self.error or 0:.2g}"
        unknown = f"; others are unknown: {self.unknown}" if self.unknown else ""
        exact = f"; not bit-exact: {', '.join(self.inexact)}" if self.inexact else ""
        return f"output {self.name} checked{where}, {of}, {found}{unknown}{exact}"


@dataclass(frozen=True)
class LayoutNote:
    """What the compiler of a Python kernel tells about accesses with conflicts: their operation, layouts, a remedy.

    With `explicit` layouts, chosen by the author, a swizzle that was tried can be used.
    """

    text: str
    offsets: tuple[Count, ...]
    explicit: bool = False


@dataclass(frozen=True)
class Profile:
    """One profiled launch."""

    engine: str  # source of the values: "ncu", "recorded" (measured earlier, shipped), "emulated" (computed)
    kernel: KernelId
    problem: Mapping[str, Count]
    machine: MachineInfo
    when: str  # ISO 8601, UTC
    command: str  # ncu's command line
    report: str  # name of the .ncu-rep
    report_sha256: str
    errors: Mapping[str, Amount]  # relative error of each output checked before profiling
    metrics: Mapping[str, Metric]
    instructions: tuple[Instruction, ...]
    findings: tuple[Finding, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""  # of the kernel's sources, with -dirty if they were changed
    launch: LaunchId = LaunchId()
    notes: tuple[str, ...] = ()  # caveats about the values, such as why some are unknown
    beside: str = ""  # for an emulated profile: the recording that its times, stalls and other metrics come from
    requests: tuple[SavedRequests, ...] = ()  # of an emulated profile's accesses, over the blocks that ran
    layouts: tuple[LayoutNote, ...] = ()  # what the compiler of a Python kernel tells about accesses with conflicts
    sample: int | None = None  # the seed of random inputs that an emulated profile's counts depend on; None: none
    unknowns: tuple[UnknownCounts, ...] = ()  # why counts are unknown, or something was not checked
    unknown_traffic: tuple[UnknownCounts, ...] = ()  # why some of an emulated profile's `traffic` is unknown
    recorded_metrics: tuple[str, ...] = ()  # of an emulated profile: the metrics that come from the recording
    timeline: Timeline | None = None  # of shared memory, if races were looked for
    simulated: Simulated | None = None  # an H100's simulated cycles, of an emulated profile
    arrays: tuple[SharedArray, ...] = ()  # of an emulated profile: the shared arrays that its PTX declares
    checked: tuple[CheckedOutput, ...] = ()  # of an emulated profile: its outputs, if they were asked for
    supposed: tuple[SavedRequests, ...] = ()  # of its accesses with unknown counts: what some of the lanes may request

    @property
    def sample_clause(self) -> str:
        """What to add to a sentence about its counts if inputs were random; mostly empty."""
        return "" if self.sample is None else f", in a sample of random inputs (seed {self.sample})"

    @property
    def origin(self) -> Origin:
        """Where its counts come from."""
        return origin_of(self.engine)

    @property
    def provenance(self) -> str | dict[str, Any]:
        """Where its numbers come from: measured, recorded or computed; by key if not all come from one place."""
        own, lent = self.origin.provenance, origin_of(RECORDED).provenance
        if not self.beside:
            return own
        metrics = {"*": own, **dict.fromkeys(self.recorded_metrics, lent)}
        return {"*": own, "metrics": metrics, "samples": lent}

    @property
    def rule_from(self) -> str:
        """Which GPU's rule gave an emulated profile's wavefronts, if its own architecture was never measured."""
        capability = self.machine.compute_capability
        if not self.origin.computed or capability in ("", MEASURED_ON) or not any(i.access for i in self.instructions):
            return ""
        return RULE_FROM

    @property
    def library(self) -> bool:
        """Whether it is a catalogued kernel without a source: a library's, shown for reference."""
        return bool(self.kernel.family) and not self.sources

    def number(self, name: str) -> float | None:
        """Return a metric's value; None if the report lacks it or it is not a finite number."""
        metric = self.metrics.get(name)
        if metric is None or not isinstance(metric.value, int | float) or not math.isfinite(metric.value):
            return None
        return float(metric.value)

    @property
    def duration_ns(self) -> float | None:
        return self.number(DURATION)

    @property
    def missing(self) -> tuple[str, ...]:
        """The required metrics that the report lacks. An emulated profile's `notes` say what could not be computed."""
        if self.origin.computed:
            return ()
        return tuple(name for name in NEEDED if name not in self.metrics)

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks in x, y, z; zeros if unknown."""
        return self._dimensions("grid") or self.launch.grid or (0, 0, 0)

    @property
    def block(self) -> tuple[int, ...]:
        """Threads in x, y, z; zeros if unknown."""
        return self._dimensions("block") or self.launch.block or (0, 0, 0)

    def _dimensions(self, what: str) -> tuple[int, ...]:
        sizes = tuple(int(self.number(f"launch__{what}_dim_{axis}") or 0) for axis in "xyz")
        return sizes if any(sizes) else ()

    @cached_property
    def total(self) -> Total:
        """All shared-memory accesses together."""
        return added(self.shared())

    @cached_property
    def accesses(self) -> dict[str, Total]:
        """The totals per access kind, most wavefronts first."""
        totals = grouped(self.shared(), lambda instruction: [instruction.access])
        return dict(sorted(totals.items(), key=lambda item: -(item[1].wavefronts or 0)))

    @cached_property
    def lines(self) -> dict[Location, Total]:
        """The totals per source line, including everything inlined there."""
        return grouped(self.instructions, lambda instruction: dict.fromkeys(instruction.stack))

    @cached_property
    def stalls(self) -> dict[str, int]:
        """Warp samples per stall reason, most first. "selected" is not a stall: the warp issued."""
        reasons = {reason: int(self.number(name) or 0) for name in self.metrics if (reason := stall_reason(name))}
        return dict(sorted(reasons.items(), key=lambda item: -item[1]))

    @property
    def all_samples(self) -> int:
        """The warp samples of all reasons."""
        return sum(self.stalls.values())

    def shared(self) -> Iterator[Instruction]:
        """Yield the instructions that access shared memory and that ncu counted wavefronts for.

        In an emulated profile that is every access: one with unknown wavefronts makes the totals unknown.
        """
        return (i for i in self.instructions if i.access and (i.wavefronts is not None or self.origin.computed))

    def to_json(self) -> str:
        """Return the profile as JSON, with the schema number and a digest of everything else."""
        return self._json

    @cached_property
    def _json(self) -> str:  # cached: it is saved, and also embedded in the page
        bare = dataclasses.replace(self, instructions=())  # written as a table: dictionaries are slow
        content = {"schema": SCHEMA, "provenance": self.provenance, **dataclasses.asdict(bare)}
        content["instructions"] = _to_table(self.instructions)
        return in_json({**content, "digest": cache.sha256_of_json(content)}, allow_nan=True)

    @classmethod
    def from_json(cls, text: str, name: str = "the profile") -> Profile:
        """Return the profile that `to_json` wrote; raise BadFile or DamagedFile."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise DamagedFile(f"{name} is damaged: {error}", "profile the kernel again") from error
        if not isinstance(content, dict) or "digest" not in content or "schema" not in content:
            raise BadFile(f"{name} is not a saved profile", "give a file written by ncu-swizzle profile")
        if content["schema"] not in READABLE:
            raise BadFile(
                f"{name} has schema {content['schema']}; this ncu-swizzle reads up to {SCHEMA}",
                "read its .ncu-rep instead, or profile the kernel again",
            )
        if content.pop("digest") != cache.sha256_of_json(content):
            raise DamagedFile(f"{name} was changed after it was written", "read its .ncu-rep instead")
        if content.pop("schema") < 12:
            content["findings"] = list(map(_located, content["findings"]))
        content.pop("provenance", None)  # follows from the other fields
        return from_plain(cls, {**content, "instructions": _from_table(content["instructions"])})

    def save(self, path: str | Path) -> None:
        write_atomically(Path(path), self.to_json().encode())


def _to_table(instructions: Iterable[Instruction]) -> dict[str, list[Any]]:
    """Return columns and rows; rows refer to stacks by number, as many instructions share one."""
    columns = [column.name for column in dataclasses.fields(Instruction)]
    stacks: dict[tuple[Location, ...], int] = {}
    rows = []
    for instruction in instructions:
        row = {column: getattr(instruction, column) for column in columns}
        row["stack"] = stacks.setdefault(instruction.stack, len(stacks))
        row["traffic"] = instruction.traffic.known
        row["pattern"] = dataclasses.asdict(instruction.pattern) if instruction.pattern else None
        rows.append(list(row.values()))
    return {"columns": columns, "rows": rows, "stacks": list(stacks)}


def _from_table(table: Mapping[str, list[Any]]) -> tuple[Instruction, ...]:
    stacks = [tuple((file, line) for file, line in stack) for stack in table["stacks"]]
    deepest = max(map(len, stacks), default=0)
    frames = sum(len(stacks[row[table["columns"].index("stack")]]) for row in table["rows"])
    if deepest > MOST_FRAMES or len(table["rows"]) > MOST_INSTRUCTIONS or frames > MOST_PLACES:
        raise DamagedFile(
            f"the profile has {len(table['rows']):,} instructions with {frames:,} source lines, inlined up to "
            f"{deepest:,} deep; the limits are {MOST_INSTRUCTIONS:,}, {MOST_PLACES:,} and {MOST_FRAMES:,}",
            "no compiler writes such a kernel: profile it again",
        )
    rows = (dict(zip(table["columns"], row, strict=True)) for row in table["rows"])
    return tuple(
        Instruction(
            **{
                **row,
                "stack": stacks[row["stack"]],
                "traffic": Traffic(**row.get("traffic", {})),
                "pattern": Pattern(**row["pattern"]) if row.get("pattern") else None,
            }
        )
        for row in rows
    )


def codes_of_unknown(profile: Profile, uncounted: Iterable[Instruction]) -> tuple[str, ...]:
    """Return the codes of why these instructions of an emulated profile are unknown, each once."""
    reasons = {offset: why.code for why in profile.unknowns for offset in why.offsets}
    # Saved profiles before schema 6 have only notes.
    return tuple(dict.fromkeys(reasons.get(instruction.pc, codes.NOT_RUN) for instruction in uncounted))


# What a launch gets wrong, kept as findings whose title is the source line: accesses outside of its buffers, races,
# outputs, and tiles that wgmma reads differently from how TMA wrote them.


BOUNDS_RULE, TILES_RULE, RACES_RULE = "ncu-swizzle.bounds", "ncu-swizzle.tiles", "ncu-swizzle.races"
OUTPUT_RULE = "ncu-swizzle.output"
# The code of a rule's findings if they have none, before schema 6.
RULES = {BOUNDS_RULE: codes.OUTSIDE, TILES_RULE: codes.TILE, RACES_RULE: codes.RACE, OUTPUT_RULE: codes.WRONG_OUTPUT}


def violation(
    message: str,
    line: Location | None = None,
    rule: str = BOUNDS_RULE,
    code: str = codes.OUTSIDE,
    through: tuple[Location, ...] = (),
    related: tuple[Location, ...] = (),
) -> Finding:
    """Return what is wrong, and where, as a finding of one of our checks."""
    title = f"{line[0]}:{line[1]}" if line else ""
    return Finding(
        rule=rule, kind="warning", title=title, message=message, code=code, line=line, through=through, related=related
    )


def violations(profile: Profile) -> Iterator[Finding]:
    """Yield what the checks of a profile's launch found."""
    return (found for found in profile.findings if found.rule in RULES)


def warnings_about(label: str, profile: Profile) -> Iterator[str]:
    """Yield a sentence per violation, its source line first."""
    return (f"{label}: {f'{found.title}: ' if found.line else ''}{found.message}." for found in violations(profile))


def _located(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding of a schema before 12, whose line was in its title alone, as of now."""
    if finding["rule"] not in RULES:
        return finding
    file, _, line = finding["title"].rpartition(":")
    is_line = file and line.isascii() and line.isdigit() and len(line) <= MOST_DIGITS
    return {"code": RULES[finding["rule"]], **finding, "line": [file, int(line)] if is_line else None}
