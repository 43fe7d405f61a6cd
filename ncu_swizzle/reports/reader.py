"""Read a .ncu-rep, and the facts file next to it if it is one of ours, into one Profile per result."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache, codes
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
    NEEDED,
    WAVEFRONTS,
    Finding,
    KernelId,
    LaunchId,
    MachineInfo,
    Metric,
    Profile,
    UnknownCounts,
)
from ncu_swizzle.reports.options import NCU
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
    session, sha256 = container.container_of(data, str(report)), cache.sha256(data)
    facts = Facts.beside(report)
    facts.verify(report, sha256)
    origin = Origin(report=encodable(report.name), sha256=sha256, session=session, facts=facts)
    if not session.results:
        raise BadFile(
            f"{report} has no kernel: ncu profiled none, or the file was truncated",
            "check the filters it was made with: -k, -s, -c, --nvtx-include",
        )
    try:
        questions = [Question(result, result.pcs) for result in session.results]
        units, codes = disassembly.units_and_code(report, questions)
        kernels = python_kernels.known(session.results, facts)
        seen: Counter[str] = Counter()
        profiles = []
        for index, (result, code) in enumerate(zip(session.results, codes, strict=True)):
            metrics = {
                name: Metric(value, units.get(name, ""))
                for name, value in result.metrics.items()
                if not isinstance(value, float) or math.isfinite(value)  # NaN: ncu could not measure it
            }
            launch = LaunchId(
                index=index,
                occurrence=seen[result.function],
                workload=result.workload,
                grid=result.grid,
                block=result.block,
            )
            seen[result.function] += 1
            compiled = python_kernels.of(result, kernels)
            instructions = tuple(_instructions(result, code, compiled, facts))
            profile = replace(_profile(result, metrics, origin, compiled), launch=launch, instructions=instructions)
            profiles.append(layouts.explained(profile, compiled.ttgir, compiled.explicit) if compiled else profile)
        if wrong := next(filter(None, map(sanity.impossible, profiles)), ""):
            raise ValueError(wrong)
        return profiles
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
        raise DamagedFile(f"{report} is damaged: {brief(error)}", AGAIN) from error


def _profile(
    result: ReportResult, metrics: Mapping[str, Metric], origin: Origin, compiled: CachedKernel | None
) -> Profile:
    """Return the profile of a result, without its instructions."""
    facts = origin.facts.content
    name = facts.get("kernel") or result.name
    lacking = (*python_kernels.lacking(result, compiled), *PythonLines.of(result).lacking(result))
    notes = (*facts.get("notes", ()), *lacking, *_not_measured(result))
    return Profile(
        engine=facts.get("engine", NCU),
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
        instructions=(),
        findings=(
            *result.findings,
            *(Finding(rule=sanity.NOTE, kind="warning", title=sanity.TITLE, message=note) for note in notes),
        ),
        sources=facts.get("sources") or result.source.files,
        commit=facts.get("commit", ""),
        unknowns=tuple(
            UnknownCounts.of(codes.NOT_COLLECTED, f"the report lacks {name}") for name in NEEDED if name not in metrics
        ),
    )


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
    clocks = re.search(r"--clock-control[ =](\S+)", session.command)
    major, minor = attribute("compute_capability_major"), attribute("compute_capability_minor")
    return MachineInfo(
        gpu=str(attribute("display_name")),
        compute_capability=f"{major}.{minor}" if major != "" else "",
        sm_count=int(attribute("multiprocessor_count") or 0),
        driver=machine.get("driver", ""),
        cuda=machine.get("cuda") or session.cuda,
        ncu=session.ncu,
        clock_control=clocks[1] if clocks else {True: "base", False: "none", None: ""}[result.clocks_locked],
    )


def _instructions(
    result: ReportResult, code: Sequence[Line], compiled: CachedKernel | None, facts: Facts
) -> Iterator[Instruction]:
    """Yield a result's instructions; `code` has a text and a line for each of its addresses."""
    pack_facts, pcs = pack.pack("facts"), result.pcs  # the pack is shared with the rules that run inside ncu
    lines = compiled.lines if compiled else line_table(result.cubin, result.function)
    python = PythonLines.of(result)
    start = result.address or min(pcs, default=0)
    executed, wavefronts, ideal = (result.counts[name] for name in (EXECUTED, WAVEFRONTS, IDEAL))
    for pc, (text, at) in zip(pcs, code, strict=True):
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
            samples={reason: count for reason, counts in result.stalls.items() if (count := counts.get(pc))},
            at=stack.index(at) if at in stack else 0,
        )
