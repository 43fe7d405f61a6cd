"""From a .ncu-rep to a Profile.

Beside a report that ncu-swizzle made lies a facts file (``kernel2.facts.json``, see `launch`): what was launched,
on what, from which sources, and the report's size and SHA-256. It is read where it is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ncu_swizzle import container
from ncu_swizzle.container import Container, Result
from ncu_swizzle.errors import BadFile, DamagedFile, EnvironmentLacking
from ncu_swizzle.inlining import line_table
from ncu_swizzle.paths import child_environment
from ncu_swizzle.profile import (
    EXECUTED,
    IDEAL,
    NEVER,
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

# Opcodes that access shared memory. Others (a generic LD, HGMMA) count where ncu saw wavefronts of them.
SHARED = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "LDGSTS"})


@dataclass(frozen=True)
class Facts:
    """What the program that launched the kernel wrote down; all empty for a report of another origin."""

    content: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def beside(cls, report: Path) -> Facts:
        path = facts_path(report)
        if not path.is_file():
            return cls()
        try:
            return cls(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise DamagedFile(f"{path} is not whole: {error}", "profile the kernel again") from error

    def verify(self, report: Path, digest: str) -> None:
        """Raise DamagedFile where the report, of this SHA-256, is not to the byte the one that was made."""
        made = self.content.get("report", {}).get("sha256")
        if made and made != digest:
            raise DamagedFile(
                f"{report} is not the report that was made: its SHA-256 differs from {facts_path(report).name}",
                "copy it again from where it was made, or profile again",
            )

    def relative(self, file: str) -> str:
        """Return a source's path below the folder that it was compiled from; a foreign path as it is."""
        for root in self.content.get("source_roots", ()):
            if file.startswith(f"{root}/"):
                return PurePosixPath(file).relative_to(root).as_posix()
        return file


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def read(report: Path) -> list[Profile]:
    """Return one Profile per result in the report; its engine is ncu unless its facts say that it was recorded.

    Raises BadFile (missing, not a report, without results) and DamagedFile.
    """
    outside = container.inspect(report)
    facts = Facts.beside(report)
    digest = sha256(report)
    facts.verify(report, digest)
    if not outside.results:
        raise BadFile(
            f"{report} holds no kernel: ncu profiled none, or the file was cut short",
            "look at the filters that it was made with: -k, -s, -c, --nvtx-include",
        )
    actions = _extract(report)
    if len(actions) != len(outside.results):
        raise DamagedFile(
            f"{report} is damaged: {len(actions)} of its {len(outside.results)} results can be read",
            "copy it again from where it was made, or profile again",
        )
    return [
        _profile(action, result, launch, outside, facts, report.name, digest)
        for action, result, launch in zip(actions, outside.results, _launches(actions, outside), strict=True)
    ]


def _launches(actions: list[dict[str, Any]], outside: Container) -> Iterator[Launch]:
    seen: Counter[str] = Counter()
    for index, (action, result) in enumerate(zip(actions, outside.results, strict=True)):
        name = action["mangled"] or action["name"]
        workload = action["workload"] if result.workload == "kernel" else result.workload
        yield Launch(index, seen[name], workload, result.grid, result.block)
        seen[name] += 1


def _extract(report: Path) -> list[dict[str, Any]]:
    """Return what `reader.extract` makes of each result, read in a process of its own."""
    command = [sys.executable, "-m", "ncu_swizzle.reader", str(report)]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=READER_TIMEOUT_S, env=child_environment()
        )
    except subprocess.TimeoutExpired as error:
        raise DamagedFile(
            f"{report} could not be read within {READER_TIMEOUT_S:g} s", "profile fewer kernels: -c, -k"
        ) from error
    said = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
    if "No module named 'ncu_report'" in said:
        raise EnvironmentLacking("the package ncu-report is not installed", "pip install ncu-report")
    if done.returncode < 0:
        raise DamagedFile(
            f"{report} makes NVIDIA's reader crash (signal {-done.returncode})",
            "copy it again from where it was made, or profile again",
        )
    if done.returncode:
        raise BadFile(f"{report} cannot be read: {said}", "pip install --upgrade ncu-report")
    actions: list[dict[str, Any]] = json.loads(done.stdout)
    return actions


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
        findings=tuple(Finding(**finding) for finding in action["findings"]),
        sources=known.get("sources") or action["files"],
        commit=known.get("commit", ""),
        launch=launch,
    )


def _metrics(action: dict[str, Any]) -> Iterator[tuple[str, Metric]]:
    for name, (value, unit) in action["metrics"].items():
        if not isinstance(value, float) or math.isfinite(value):  # ncu writes NaN for what it could not measure
            yield name, Metric(value if isinstance(value, int | float) else str(value), unit or "")


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
    for index, stack in enumerate(_stacks(action, result)):
        sass = " ".join(action["sass"][index].split())
        opcode = _opcode(sass)
        kind = opcode.split(".")[0]
        yield Instruction(
            pc=pcs[index],
            sass=sass,
            opcode=opcode,
            access=kind if (kind in SHARED or wavefronts[index]) and not sass.startswith(NEVER) else "",
            stack=tuple((facts.relative(file), line) for file, line in stack),
            executed=executed[index],
            wavefronts=wavefronts[index],
            ideal=ideal[index],
            samples={reason: values[index] for reason, values in stalls.items() if values[index]},
        )


def _stacks(action: dict[str, Any], result: Result) -> Iterator[tuple[Location, ...]]:
    """Yield each instruction's call sites from the cubin, or ncu's one location where the cubin tells none."""
    own = result.cubin if result.function == action["mangled"] else b""
    table = line_table(own, result.function)
    for pc, location in zip(action["pcs"], action["locations"], strict=True):
        known = ((location[0], location[1]),) if location else ()
        yield table.stack(pc - action["pcs"][0]) or known


def _opcode(sass: str) -> str:
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].rstrip(";") if words else ""
