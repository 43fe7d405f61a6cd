"""Read a .ncu-rep, and the facts file next to it if it is one of ours, into one Profile per result."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.base.files import AGAIN, brief, read_bytes
from ncu_swizzle.base.texts import encodable
from ncu_swizzle.cubin.lines import line_table
from ncu_swizzle.reports import container, disassembly, layouts, pack, python_kernels, sanity
from ncu_swizzle.reports.container import Container, Facts
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.disassembly import Line, Question
from ncu_swizzle.reports.model import (
    EXECUTED,
    IDEAL,
    WAVEFRONTS,
    Finding,
    KernelId,
    LaunchId,
    MachineInfo,
    Metric,
    Profile,
    stall_reason,
)
from ncu_swizzle.reports.python_kernels import PythonLines
from ncu_swizzle.reports.results import ReportResult
from ncu_swizzle.reports.triton_cache import CachedKernel

SHOWN = 5  # metrics that a note lists


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin that all results of a report share."""

    report: str
    sha256: str
    session: Container
    facts: Facts


def read(report: Path) -> list[Profile]:
    """Return one Profile per result in the report; the engine is ncu unless the facts name another.

    Raises BadFile (missing, not a report, without results) and DamagedFile.
    """
    data = read_bytes(report)
    session = container.container_of(data, str(report))
    origin = Origin(
        report=encodable(report.name), sha256=cache.sha256(data), session=session, facts=Facts.beside(report)
    )
    origin.facts.verify(report, origin.sha256)
    if not session.results:
        raise BadFile(
            f"{report} has no kernel: ncu profiled none, or the file was truncated",
            "check the filters it was made with: -k, -s, -c, --nvtx-include",
        )
    try:
        tables = [_InstructionTable.counted_in(result) for result in session.results]
        questions = [Question(result, table.pcs) for result, table in zip(session.results, tables, strict=True)]
        units, codes = disassembly.units_and_code(report, questions)
        kernels = python_kernels.known(session.results, origin.facts)
        profiles = [
            _profile(result, launch, units, _Code(table, code, python_kernels.of(result, kernels)), origin)
            for result, launch, table, code in zip(
                session.results, _launches(session.results), tables, codes, strict=True
            )
        ]
        if wrong := next(filter(None, map(sanity.impossible, profiles)), ""):
            raise ValueError(wrong)
        return profiles
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
        raise DamagedFile(f"{report} is damaged: {brief(error)}", AGAIN) from error


def _launches(results: Sequence[ReportResult]) -> Iterator[LaunchId]:
    seen: Counter[str] = Counter()
    for index, result in enumerate(results):
        yield LaunchId(
            index=index,
            occurrence=seen[result.function],
            workload=result.workload,
            grid=result.grid,
            block=result.block,
        )
        seen[result.function] += 1


def _profile(
    result: ReportResult,
    launch: LaunchId,
    units: Mapping[str, str],
    code: _Code,
    origin: Origin,
) -> Profile:
    facts, compiled = origin.facts.content, code.compiled
    metrics = {
        name: Metric(value, units.get(name, ""))
        for name, value in result.metrics.items()
        if not isinstance(value, float) or math.isfinite(value)  # ncu writes NaN for anything it could not measure
    }
    name = facts.get("kernel") or result.name
    lacking = (*python_kernels.lacking(result, compiled), *PythonLines.of(result).lacking(result))
    notes = (*facts.get("notes", ()), *lacking, *_not_measured(result))
    profile = Profile(
        engine=facts.get("engine", "ncu"),
        kernel=KernelId(
            name=name,
            function=result.demangled,
            family=facts.get("family", ""),
            title=facts.get("title", ""),
            mangled=result.function,
        ),
        problem=facts.get("problem", {}),
        machine=_machine(metrics, origin, result),
        when=origin.session.created,
        command=origin.session.command,
        report=origin.report,
        report_sha256=origin.sha256,
        errors=facts.get("errors", {}).get(name, {}),
        metrics=metrics,
        instructions=tuple(_instructions(result, code, origin.facts)),
        findings=(*result.findings, *_warnings(notes)),
        sources=facts.get("sources") or result.source.files,
        commit=facts.get("commit", ""),
        launch=launch,
    )
    return layouts.explained(profile, compiled.ttgir, compiled.explicit) if compiled else profile


def _warnings(notes: Iterable[str]) -> Iterator[Finding]:
    return (Finding(rule=sanity.NOTE, kind="warning", title=sanity.TITLE, message=note) for note in notes)


def _not_measured(result: ReportResult) -> Iterator[str]:
    names = [name for name, value in result.metrics.items() if isinstance(value, float) and math.isnan(value)]
    if names:
        listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        yield f"{sanity.NOT_MEASURED}{listed}."


def _machine(metrics: Mapping[str, Metric], origin: Origin, result: ReportResult) -> MachineInfo:
    def attribute(name: str) -> Any:
        metric = metrics.get(f"device__attribute_{name}")
        return metric.value if metric else ""

    machine, session = origin.facts.content.get("machine", {}), origin.session
    major, minor = attribute("compute_capability_major"), attribute("compute_capability_minor")
    return MachineInfo(
        gpu=str(attribute("display_name")),
        compute_capability=f"{major}.{minor}" if major != "" else "",
        sm_count=int(attribute("multiprocessor_count") or 0),
        driver=machine.get("driver", ""),
        cuda=machine.get("cuda") or session.cuda,
        ncu=session.ncu,
        clock_control=_clock_control(session.command, result.clocks_locked),
    )


def _clock_control(command: str, locked: bool | None) -> str:
    given = re.search(r"--clock-control[ =](\S+)", command)
    return given[1] if given else {True: "base", False: "none", None: ""}[locked]


@dataclass(frozen=True)
class _InstructionTable:
    """A result's counts per instruction: for each metric, a count by address."""

    counts: Mapping[str, Mapping[int, int]]
    stalls: Mapping[str, Mapping[int, int]]
    pcs: Sequence[int]

    @classmethod
    def counted_in(cls, result: ReportResult) -> _InstructionTable:
        counts = {name: result.per_instruction(name) for name in (EXECUTED, WAVEFRONTS, IDEAL)}
        stalls = {reason: result.per_instruction(name) for name in result.lists if (reason := stall_reason(name))}
        return cls(counts, stalls, sorted(set().union(*counts.values(), *stalls.values())))

    def samples(self, pc: int) -> dict[str, int]:
        return {reason: count for reason, counts in self.stalls.items() if (count := counts.get(pc))}


@dataclass(frozen=True)
class _Code:
    """A result's counts, its instructions' texts and lines, and what Triton's cache has of its kernel."""

    table: _InstructionTable
    lines: Sequence[Line]
    compiled: CachedKernel | None


def _instructions(result: ReportResult, code: _Code, facts: Facts) -> Iterator[Instruction]:
    pack_facts, table = pack.pack("facts"), code.table  # the pack is shared with the rules that run inside ncu
    lines = code.compiled.lines if code.compiled else line_table(result.cubin, result.function)
    python = PythonLines.of(result)
    start = result.address or min(table.pcs, default=0)
    executed, wavefronts, ideal = (table.counts[name] for name in (EXECUTED, WAVEFRONTS, IDEAL))
    for pc, (text, at) in zip(table.pcs, code.lines, strict=True):
        sass = " ".join(text.split())
        access = pack_facts.access(sass, wavefronts.get(pc))
        stack = python.believed(lines.stack(pc - start) or ((at,) if at else ()), bool(access))
        yield Instruction(
            pc=pc,
            sass=sass,
            opcode=pack_facts.opcode(sass),
            access=access,
            stack=tuple((facts.relative(file), line) for file, line in stack),
            executed=executed.get(pc),
            wavefronts=wavefronts.get(pc),
            ideal=ideal.get(pc),
            samples=table.samples(pc),
            at=stack.index(at) if at in stack else 0,
        )
