"""From a .ncu-rep to a Profile.

Beside a report that ncu-swizzle made lies a facts file (``kernel2.facts.json``, see `launch`): what was launched,
on what, from which sources, and the report's size and SHA-256. It is read where it is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle import advisor, container, doubts, nvreader, shape
from ncu_swizzle.container import Container
from ncu_swizzle.errors import BadFile, DamagedFile
from ncu_swizzle.files import brief, read_bytes, read_json, write_json
from ncu_swizzle.inlining import line_table
from ncu_swizzle.nvreader import AGAIN, Line, Question
from ncu_swizzle.profile import (
    EXECUTED,
    IDEAL,
    STALLED,
    WAVEFRONTS,
    Finding,
    Instruction,
    Kernel,
    Launch,
    Machine,
    Metric,
    Profile,
)
from ncu_swizzle.results import Result

SHOWN = 5  # names that a note lists


@dataclass(frozen=True)
class Facts:
    """What the program that launched the kernel wrote down; all empty for a report of another origin."""

    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, report: Path) -> Facts:
        path = facts_path(report)
        if not path.exists():
            return cls()
        content = read_json(path)
        wrong = _wrong_facts(content)
        if wrong:
            raise DamagedFile(f"{path} is not whole: {wrong}", "profile the kernel again")
        return cls(content)

    def verify(self, report: Path, digest: str) -> None:
        """Raise DamagedFile where the report, of this SHA-256, is not to the byte the one that was made."""
        made = self.content.get("report", {}).get("sha256")
        if made and made != digest:
            raise DamagedFile(
                f"{report} is not the report that was made: its SHA-256 differs from {facts_path(report).name}",
                AGAIN,
            )

    def relative(self, file: str) -> str:
        """Return a source's path below the folder that it was compiled from; a foreign path as it is."""
        plain = posixpath.normpath(file)  # the compiler writes folder/../include/tile.cuh
        for root in self.content.get("source_roots", ()):
            if plain.startswith(f"{root}/"):
                return plain.removeprefix(f"{root}/")
        return file


# What is read of a facts file, by its type.
_FACTS = {
    **dict.fromkeys(("engine", "kernel", "title", "family", "commit", "digest"), str),
    **dict.fromkeys(("machine", "report"), Mapping[str, str | int]),
    **dict.fromkeys(("source_roots", "notes"), tuple[str, ...]),
    "problem": Mapping[str, int],
    "sources": Mapping[str, str],
    "errors": Mapping[str, Mapping[str, float]],
}


def _wrong_facts(content: Any) -> str:
    """Say what is wrong with the content of a facts file; empty where nothing is."""
    if not isinstance(content, dict):
        return "it holds no facts"
    for name, hint in _FACTS.items():
        if name in content and (wrong := shape.check(hint)(content[name])):
            return f"{name}{wrong}"
    if content.get("kernel") and not isinstance(content.get("report", {}).get("sha256"), str):
        return "it does not tell the report's SHA-256"
    if "digest" in content and content["digest"] != facts_digest(content):
        return "it was altered after it was written"
    return ""


def facts_digest(content: Mapping[str, Any]) -> str:
    """Return the digest of everything in a facts file but the digest itself."""
    told = {name: value for name, value in content.items() if name != "digest"}
    return "sha256:" + hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def seal(report: Path, notes: Sequence[str] = ()) -> None:
    """Add to the facts beside a new report: its size and SHA-256, what ncu warned of, and a digest of all."""
    path = facts_path(report)
    content = read_json(path)
    content["report"] = {"sha256": sha256(report), "bytes": report.stat().st_size}
    if notes:
        content["notes"] = list(notes)
    write_json(path, {**content, "digest": facts_digest(content)})


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Origin:
    """Where a report's results come from, all of them."""

    report: str
    sha256: str
    session: Container
    facts: Facts


def read(report: Path) -> list[Profile]:
    """Return one Profile per result in the report; its engine is ncu unless its facts say that it was recorded.

    Raises BadFile (missing, not a report, without results) and DamagedFile.
    """
    data = read_bytes(report)
    held = container.parse(data, str(report))
    origin = Origin(report.name, hashlib.sha256(data).hexdigest(), held, Facts.beside(report))
    origin.facts.verify(report, origin.sha256)
    if not held.results:
        raise BadFile(
            f"{report} holds no kernel: ncu profiled none, or the file was cut short",
            "look at the filters that it was made with: -k, -s, -c, --nvtx-include",
        )
    try:
        tables = [_Table.of(result) for result in held.results]
        asked = [Question(result, table.pcs) for result, table in zip(held.results, tables, strict=True)]
        units, codes = nvreader.ask(report, asked)
        return [
            _profile(result, launch, units, tuple(_instructions(result, table, code, origin.facts)), origin)
            for result, launch, table, code in zip(held.results, _launches(held.results), tables, codes, strict=True)
        ]
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
        raise DamagedFile(f"{report} is damaged: {brief(error)}", AGAIN) from error


def _launches(results: Sequence[Result]) -> Iterator[Launch]:
    seen: Counter[str] = Counter()
    for index, result in enumerate(results):
        yield Launch(index, seen[result.function], result.workload, result.grid, result.block)
        seen[result.function] += 1


def _profile(
    result: Result, launch: Launch, units: Mapping[str, str], instructions: tuple[Instruction, ...], origin: Origin
) -> Profile:
    known = origin.facts.content
    metrics = {
        name: Metric(value, units.get(name, ""))
        for name, value in result.metrics.items()
        if not isinstance(value, float) or math.isfinite(value)  # ncu writes NaN for what it could not measure
    }
    name = known.get("kernel") or result.name
    return Profile(
        engine=known.get("engine", "ncu"),
        kernel=Kernel(
            name=name,
            function=result.demangled,
            family=known.get("family", ""),
            title=known.get("title", ""),
            mangled=result.function,
        ),
        problem=known.get("problem", {}),
        machine=_machine(metrics, origin, result),
        when=origin.session.created,
        command=origin.session.command,
        report=origin.report,
        report_sha256=origin.sha256,
        errors=known.get("errors", {}).get(name, {}),
        metrics=metrics,
        instructions=instructions,
        findings=(
            *result.findings,
            *(Finding(doubts.NOTE, "warning", doubts.TITLE, note) for note in known.get("notes", ())),
            *_not_measured(result),
        ),
        sources=known.get("sources") or result.source.files,
        commit=known.get("commit", ""),
        launch=launch,
    )


def _not_measured(result: Result) -> Iterator[Finding]:
    names = [name for name, value in result.metrics.items() if isinstance(value, float) and math.isnan(value)]
    if names:
        listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        yield Finding(doubts.NOTE, "warning", doubts.TITLE, f"ncu wrote NaN for {listed}.")


def _machine(metrics: Mapping[str, Metric], origin: Origin, result: Result) -> Machine:
    def attribute(name: str) -> Any:
        metric = metrics.get(f"device__attribute_{name}")
        return metric.value if metric else ""

    told, session = origin.facts.content.get("machine", {}), origin.session
    major, minor = attribute("compute_capability_major"), attribute("compute_capability_minor")
    return Machine(
        gpu=str(attribute("display_name")),
        compute_capability=f"{major}.{minor}" if major != "" else "",
        sm_count=int(attribute("multiprocessor_count") or 0),
        driver=told.get("driver", ""),
        cuda=told.get("cuda") or session.cuda,
        ncu=session.ncu,
        clock_control=_clock_control(session.command, result.clocks_locked),
    )


def _clock_control(command: str, locked: bool | None) -> str:
    given = re.search(r"--clock-control[ =](\S+)", command)
    return given[1] if given else {True: "base", False: "none", None: ""}[locked]


@dataclass(frozen=True)
class _Table:
    """What a result counts per instruction: for each metric a count by address."""

    counts: Mapping[str, Mapping[int, int]]
    stalls: Mapping[str, Mapping[int, int]]
    pcs: Sequence[int]

    @classmethod
    def of(cls, result: Result) -> _Table:
        counts = {name: result.per_instruction(name) for name in (EXECUTED, WAVEFRONTS, IDEAL)}
        stalls = {
            name.removeprefix(STALLED): result.per_instruction(name)
            for name in result.lists
            if name.startswith(STALLED) and not name.endswith("_not_issued")
        }
        return cls(counts, stalls, sorted(set().union(*counts.values(), *stalls.values())))

    def samples(self, pc: int) -> dict[str, int]:
        return {reason: count for reason, counts in self.stalls.items() if (count := counts.get(pc))}


def _instructions(result: Result, table: _Table, code: Sequence[Line], facts: Facts) -> Iterator[Instruction]:
    known = advisor.pack("facts")  # what an access is, the rules inside ncu say too
    lines = line_table(result.cubin, result.function)
    start = result.address or min(table.pcs, default=0)
    executed, wavefronts, ideal = (table.counts[name] for name in (EXECUTED, WAVEFRONTS, IDEAL))
    for pc, (text, at) in zip(table.pcs, code, strict=True):
        stack = lines.stack(pc - start) or ((at,) if at else ())
        sass = " ".join(text.split())
        yield Instruction(
            pc=pc,
            sass=sass,
            opcode=known.opcode(sass),
            access=known.access(sass, wavefronts.get(pc)),
            stack=tuple((facts.relative(file), line) for file, line in stack),
            executed=executed.get(pc),
            wavefronts=wavefronts.get(pc),
            ideal=ideal.get(pc),
            samples=table.samples(pc),
            at=stack.index(at) if at in stack else 0,
        )
