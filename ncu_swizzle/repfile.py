"""From a .ncu-rep to a Profile: the only importer of NVIDIA's ncu_report.

Beside a report that ncu-swizzle made lies a facts file (``kernel2.facts.json``, see `launch`): what was launched,
on what, from which sources, and the report's size and SHA-256. It is read where it is there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ncu_swizzle import container
from ncu_swizzle.container import Container, Result
from ncu_swizzle.errors import BadFile, DamagedFile, NothingProfiled
from ncu_swizzle.inlining import LineTable, line_table
from ncu_swizzle.profile import (
    EXECUTED,
    IDEAL,
    STALLED,
    WAVEFRONTS,
    Finding,
    Instruction,
    Kernel,
    Location,
    Machine,
    Metric,
    Profile,
)

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

    def verify(self, report: Path) -> None:
        """Raise DamagedFile where the report is not, to the byte, the one that was made."""
        made = self.content.get("report", {}).get("sha256")
        if made and made != sha256(report):
            raise DamagedFile(
                f"{report} is not the report that was made: its SHA-256 differs from {facts_path(report).name}",
                "copy it again from where it was made, or profile again",
            )

    def relative(self, file: str) -> str:
        """Return a source's path below the folder that was profiled from; a foreign path as it is."""
        root = self.content.get("source_root")
        return PurePosixPath(file).relative_to(root).as_posix() if root and file.startswith(f"{root}/") else file


def facts_path(report: Path) -> Path:
    return report.with_suffix(".facts.json")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def read(report: Path, engine: str = "ncu") -> list[Profile]:
    """Return one Profile per result in the report.

    Raises BadFile (missing, not a report), DamagedFile, and NothingProfiled for a report without results.
    """
    outside = container.inspect(report)
    facts = Facts.beside(report)
    facts.verify(report)
    if not outside.results:
        raise NothingProfiled(f"{report} holds no kernel", "look at ncu's filters: -k, -s, -c, --nvtx-include")
    actions = list(_actions(report))
    if len(actions) != len(outside.results):
        raise DamagedFile(
            f"{report} is damaged: {len(actions)} of its {len(outside.results)} results can be read",
            "copy it again from where it was made, or profile again",
        )
    return [
        _profile(action, result, report, engine, outside, facts)
        for action, result in zip(actions, outside.results, strict=True)
    ]


def _actions(report: Path) -> Iterator[Any]:
    import ncu_report

    try:
        context = ncu_report.load_report(str(report))
    except Exception as error:  # the reader raises types of its own
        raise BadFile(f"{report} cannot be read: {error}", "pip install --upgrade ncu-report") from error
    for index in range(context.num_ranges()):
        results = context.range_by_idx(index)
        for number in range(results.num_actions()):
            yield results.action_by_idx(number)


def _profile(action: Any, result: Result, report: Path, engine: str, outside: Container, facts: Facts) -> Profile:
    metrics = {name: _metric(action[name]) for name in action.metric_names() if action[name].has_value()}
    function = action.name(action.NameBase_DEMANGLED) or action.name()
    known = facts.content
    return Profile(
        engine=engine,
        kernel=Kernel(
            name=known.get("kernel") or action.name(),
            function=function,
            family=known.get("family", ""),
            title=known.get("title", ""),
        ),
        problem=known.get("problem", {}),
        machine=_machine(metrics, outside, known.get("machine", {})),
        when=outside.created,
        command=outside.command,
        report=report.name,
        report_sha256=sha256(report),
        errors=known.get("errors", {}).get(known.get("kernel"), {}),
        metrics=metrics,
        instructions=tuple(_instructions(action, result, facts)),
        findings=tuple(_findings(action)),
        sources=known.get("sources") or dict(action.source_files()),
    )


def _metric(metric: Any) -> Metric:
    value = metric.value()
    return Metric(value if isinstance(value, int | float) else str(value), metric.unit() or "")


def _machine(metrics: dict[str, Metric], outside: Container, known: dict[str, Any]) -> Machine:
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
        clock_control=_clock_control(outside),
    )


def _clock_control(outside: Container) -> str:
    given = re.search(r"--clock-control[ =](\S+)", outside.command)
    if given:
        return given[1]
    return {True: "base", False: "none", None: ""}[outside.clocks_locked]


def _instructions(action: Any, result: Result, facts: Facts) -> Iterator[Instruction]:
    executed, wavefronts, ideal = (_per_pc(action, name) for name in (EXECUTED, WAVEFRONTS, IDEAL))
    samples = {
        name.removeprefix(STALLED): _per_pc(action, name)
        for name in action.metric_names()
        if name.startswith(STALLED) and not name.endswith("_not_issued")
    }
    pcs = sorted(set().union(executed, wavefronts, *samples.values()))
    mangled = action.name(action.NameBase_MANGLED)
    table = line_table(result.cubin, mangled) if result.function == mangled else LineTable()
    for pc in pcs:
        sass = " ".join(action.sass_by_pc(pc).split())
        opcode = _opcode(sass)
        kind = opcode.split(".")[0]
        yield Instruction(
            pc=pc,
            sass=sass,
            opcode=opcode,
            access=kind if kind in SHARED or wavefronts.get(pc) else "",
            stack=tuple((facts.relative(file), line) for file, line in _stack(action, table, pc, pc - pcs[0])),
            executed=executed.get(pc),
            wavefronts=wavefronts.get(pc),
            ideal=ideal.get(pc),
            samples={reason: counts[pc] for reason, counts in samples.items() if counts.get(pc)},
        )


def _stack(action: Any, table: LineTable, pc: int, offset: int) -> tuple[Location, ...]:
    """Return the call sites from the cubin, or ncu's one location where the cubin tells none."""
    stack = table.stack(offset)
    source = None if stack else action.source_info(pc)
    return ((source.file_name(), source.line()),) if source else stack


def _per_pc(action: Any, name: str) -> dict[int, int]:
    """Return a metric's value per instruction address; empty where the report lacks it."""
    if name not in action.metric_names():
        return {}
    metric = action[name]
    if not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(k): metric.as_uint64(k) for k in range(metric.num_instances())}


def _opcode(sass: str) -> str:
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].rstrip(";") if words else ""


def _findings(action: Any) -> Iterator[Finding]:
    for rule in action.rule_results_as_dicts():
        for message in rule.get("rule_message", []) if isinstance(rule.get("rule_message"), list) else []:
            yield Finding(
                rule=str(rule.get("rule_identifier", "")),
                kind=str(message.get("type", "")),
                title=str(message.get("title", "")),
                message=str(message.get("message", "")),
            )
