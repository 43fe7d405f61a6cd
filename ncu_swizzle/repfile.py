"""From a .ncu-rep to a Profile.

Beside a report that ncu-swizzle made lies a facts file (``kernel2.facts.json``, see `launch`): what was launched,
on what, from which sources, and the report's size and SHA-256. It is read where it is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle import advisor, child, container, doubts, sass, shape
from ncu_swizzle.container import Container, Result
from ncu_swizzle.errors import BadFile, DamagedFile, EnvironmentLacking, TimeLimit
from ncu_swizzle.files import brief, parse_json, read_bytes, read_json, write_json
from ncu_swizzle.inlining import line_table
from ncu_swizzle.paths import child_environment
from ncu_swizzle.profile import (
    EXECUTED,
    IDEAL,
    STALLED,
    WAVEFRONTS,
    Finding,
    Instruction,
    Kernel,
    Launch,
    Location,
    Machine,
    Metric,
    Profile,
)

READER_TIMEOUT_S = 120.0
READER_MEMORY = (6 << 30, 64)  # bytes of address space: so many, and so many for each byte of the report
READER_ANSWER = 1 << 30  # bytes
SHOWN = 5  # names that a note lists
READER = Path(__file__).with_name("reader.py")
AGAIN = "copy it again from where it was made, or profile again"


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


def read(report: Path) -> list[Profile]:
    """Return one Profile per result in the report; its engine is ncu unless its facts say that it was recorded.

    Raises BadFile (missing, not a report, without results) and DamagedFile.
    """
    data = read_bytes(report)
    outside = container.parse(data, str(report))
    facts = Facts.beside(report)
    digest = hashlib.sha256(data).hexdigest()
    facts.verify(report, digest)
    if not outside.results:
        raise BadFile(
            f"{report} holds no kernel: ncu profiled none, or the file was cut short",
            "look at the filters that it was made with: -k, -s, -c, --nvtx-include",
        )
    actions = _extract(report, outside.results, len(data))
    try:
        profiles = [
            _profile(action, result, launch, outside, facts, report.name, digest)
            for action, result, launch in zip(actions, outside.results, _launches(actions, outside), strict=True)
        ]
        if wrong := next(filter(None, map(shape.mismatch, profiles)), ""):
            raise ValueError(wrong)
        return profiles
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise DamagedFile(f"{report} is damaged: {brief(error)}", AGAIN) from error


def _launches(actions: list[dict[str, Any]], outside: Container) -> Iterator[Launch]:
    seen: Counter[str] = Counter()
    for index, (action, result) in enumerate(zip(actions, outside.results, strict=True)):
        name = action["mangled"] or action["name"]
        workload = action["workload"] if result.workload == "kernel" else result.workload
        yield Launch(index, seen[name], workload, result.grid, result.block)
        seen[name] += 1


def _extract(report: Path, results: Sequence[Result], size: int) -> list[dict[str, Any]]:
    """Return what `reader.extract` makes of each result, with the texts of instructions from the cache if possible."""
    kept = {number: known for number, result in enumerate(results) if (known := sass.recall(result))}
    actions = _ask(report, tuple(kept), len(results), size)
    for number, known in kept.items():
        actions[number]["sass"] = known.at(actions[number]["pcs"])
    if any(action["sass"] is None for action in actions):  # the kept ones lack an instruction
        actions = _ask(report, (), len(results), size)
        kept = {}
    for number, (action, result) in enumerate(zip(actions, results, strict=True)):
        if number not in kept and result.function == action["mangled"]:
            sass.keep(result, action["pcs"], action["sass"])
    return actions


def _ask(report: Path, known_sass: Sequence[int], expected: int, size: int) -> list[dict[str, Any]]:
    """Return the reader's answer, from a process of its own with limits on time, memory and what it writes."""
    with os.fdopen(os.memfd_create("answer"), "r", encoding="utf-8") as answer:
        order = {
            "report": str(report),
            "counts": [EXECUTED, WAVEFRONTS, IDEAL],
            "stalls": STALLED,
            "known_sass": known_sass,
            "answer": answer.fileno(),
            "answer_bytes": READER_ANSWER,
            "memory_bytes": READER_MEMORY[0] + READER_MEMORY[1] * size,
        }
        # Without site and runpy it starts in half the time; where its modules lie it is told.
        command = [sys.executable, "-S", "-P", str(READER), json.dumps(order)]
        try:
            outcome = child.run(
                command, READER_TIMEOUT_S, environment=_reader_environment(), pass_fds=(answer.fileno(),)
            )
        except TimeLimit as error:
            raise DamagedFile(
                f"{report} could not be read within {READER_TIMEOUT_S:g} s", "profile fewer kernels: -c, -k"
            ) from error
        _explain(report, outcome)
        answer.seek(0)
        actions = parse_json(answer.read(), f"what NVIDIA's reader made of {report}")
    if len(actions) != expected:
        raise DamagedFile(f"{report} is damaged: {len(actions)} of its {expected} results can be read", AGAIN)
    checked: list[dict[str, Any]] = actions
    return checked


def _explain(report: Path, outcome: child.Outcome) -> None:
    """Raise what says why the reader failed, where it did."""
    said = outcome.log.strip().rsplit("\n", 1)[-1]
    if "No module named 'ncu_report'" in said:
        raise EnvironmentLacking("the package ncu-report is not installed", "pip install ncu-report")
    if outcome.status < 0:
        raise DamagedFile(f"{report} makes NVIDIA's reader crash (signal {-outcome.status})", AGAIN)
    if "MemoryError" in said or "bad_alloc" in outcome.log:
        raise DamagedFile(f"{report} makes NVIDIA's reader run out of memory", AGAIN)
    if outcome.status:
        raise BadFile(f"{report} cannot be read: {said}", "pip install --upgrade ncu-report")


def _reader_environment() -> dict[str, str]:
    environment = child_environment()
    modules = [environment["PYTHONPATH"], *(entry for entry in sys.path if entry)]
    return {**environment, "PYTHONPATH": os.pathsep.join(modules)}


def _profile(
    action: dict[str, Any],
    result: Result,
    launch: Launch,
    outside: Container,
    facts: Facts,
    report: str,
    digest: str,
) -> Profile:
    known = facts.content
    metrics = dict(_metrics(action))
    name = known.get("kernel") or action["name"] or launch.workload
    return Profile(
        engine=known.get("engine", "ncu"),
        kernel=Kernel(
            name=name,
            function=action["demangled"] or action["name"],
            family=known.get("family", ""),
            title=known.get("title", ""),
            mangled=action["mangled"],
        ),
        problem=known.get("problem", {}),
        machine=_machine(metrics, outside, result, known.get("machine", {})),
        when=outside.created,
        command=outside.command,
        report=report,
        report_sha256=digest,
        errors=known.get("errors", {}).get(name, {}),
        metrics=metrics,
        instructions=tuple(_instructions(action, result, facts)),
        findings=(
            *(Finding(**finding) for finding in action["findings"]),
            *(Finding(doubts.NOTE, "warning", doubts.TITLE, note) for note in known.get("notes", ())),
            *_not_measured(action),
        ),
        sources=known.get("sources") or action["files"],
        commit=known.get("commit", ""),
        launch=launch,
    )


def _metrics(action: dict[str, Any]) -> Iterator[tuple[str, Metric]]:
    for name, (value, unit) in action["metrics"].items():
        if not isinstance(value, float) or math.isfinite(value):  # ncu writes NaN for what it could not measure
            yield name, Metric(value if isinstance(value, int | float) else str(value), unit or "")


def _not_measured(action: dict[str, Any]) -> Iterator[Finding]:
    names = [name for name, (value, _) in action["metrics"].items() if isinstance(value, float) and math.isnan(value)]
    if names:
        listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        yield Finding(doubts.NOTE, "warning", doubts.TITLE, f"ncu wrote NaN for {listed}.")


def _machine(metrics: dict[str, Metric], outside: Container, result: Result, known: dict[str, Any]) -> Machine:
    def attribute(name: str) -> Any:
        metric = metrics.get(f"device__attribute_{name}")
        return metric.value if metric else ""

    major, minor = attribute("compute_capability_major"), attribute("compute_capability_minor")
    return Machine(
        gpu=str(attribute("display_name")),
        compute_capability=f"{major}.{minor}" if major != "" else "",
        sm_count=int(attribute("multiprocessor_count") or 0),
        driver=known.get("driver", ""),
        cuda=known.get("cuda") or outside.cuda,
        ncu=outside.ncu,
        clock_control=_clock_control(outside.command, result.clocks_locked),
    )


def _clock_control(command: str, locked: bool | None) -> str:
    given = re.search(r"--clock-control[ =](\S+)", command)
    return given[1] if given else {True: "base", False: "none", None: ""}[locked]


def _instructions(action: dict[str, Any], result: Result, facts: Facts) -> Iterator[Instruction]:
    pcs, counts = action["pcs"], action["counts"]
    unknown = [None] * len(pcs)
    executed, wavefronts, ideal = (counts.get(name, unknown) for name in (EXECUTED, WAVEFRONTS, IDEAL))
    stalls = {name.removeprefix(STALLED): values for name, values in counts.items() if name.startswith(STALLED)}
    known = advisor.pack("facts")  # what an access is, the rules inside ncu say too
    for index, (stack, at) in enumerate(_stacks(action, result)):
        text = " ".join(action["sass"][index].split())
        yield Instruction(
            pc=pcs[index],
            sass=text,
            opcode=known.opcode(text),
            access=known.access(text, wavefronts[index]),
            stack=tuple((facts.relative(file), line) for file, line in stack),
            executed=executed[index],
            wavefronts=wavefronts[index],
            ideal=ideal[index],
            samples={reason: values[index] for reason, values in stalls.items() if values[index]},
            at=at,
        )


def _stacks(action: dict[str, Any], result: Result) -> Iterator[tuple[tuple[Location, ...], int]]:
    """Yield each instruction's call sites from the cubin, and which of them ncu names; its one where there are none."""
    own = result.cubin if result.function == action["mangled"] else b""
    table = line_table(own, result.function)
    for pc, location in zip(action["pcs"], action["locations"], strict=True):
        known = ((location[0], location[1]),) if location else ()
        stack = table.stack(pc - action["pcs"][0]) or known
        yield stack, stack.index(known[0]) if known and known[0] in stack else 0
