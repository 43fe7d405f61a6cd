"""Read a .ncu-rep, and the facts file next to it if it is one of ours, into one Profile per result.

What only NVIDIA's reader knows, units and each instruction's text and source line, is obtained in a separate process
with limits, see `ncu_report_process`, and only if the cache lacks it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import math
import os
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ncu_swizzle.base import cache, child, codes, validate
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, TimeLimit
from ncu_swizzle.base.files import AGAIN, brief, parse_json, read_bytes
from ncu_swizzle.base.paths import child_environment
from ncu_swizzle.base.texts import encodable
from ncu_swizzle.base.traffic import METRICS, Traffic
from ncu_swizzle.cubin.lines import Location, line_table
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.frontends.python_kernels import CachedKernel, PythonLines
from ncu_swizzle.reports import container, model, pack, remarks
from ncu_swizzle.reports.container import Container, Facts, ReportResult
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Finding, KernelId, Metric, Profile, UnknownCounts
from ncu_swizzle.reports.options import NCU

# Cached answers of NVIDIA's module, which needs half a second or more for each.
#
# An entry is JSON, keyed by the question and by the module's size and date: another version may answer differently.
# One without the expected types is dropped.

KIND = "disassembly"


def load(shape: Any, *question: bytes) -> Any:
    """Return the cached answer, plain JSON of the type `shape`, see `validate.check`; or None."""
    key = _key(question)
    content = cache.load(KIND, key) if key else None
    if content is None:
        return None
    with contextlib.suppress(ValueError, RecursionError, MemoryError):
        answer = json.loads(content)
        if not validate.check(shape)(answer):
            return answer
    cache.drop(KIND, key)
    return None


def save(answer: Any, *question: bytes) -> None:
    """Cache an answer, plain JSON."""
    if key := _key(question):
        cache.save(KIND, key, json.dumps(answer).encode())


def _key(question: tuple[bytes, ...]) -> str:
    """Return the entry's key; empty if NVIDIA's module is not installed."""
    module = _module_version()
    if not module:
        return ""
    return f"{sha256_of_texts(module, *map(sha256, question))[:40]}.json"


@functools.cache
def _module_version() -> str:
    """Return a fingerprint of the installed ncu_report; empty if there is none."""
    spec = importlib.util.find_spec("ncu_report")
    if spec is None or spec.origin is None:
        return ""
    libraries = sorted(Path(spec.origin).parent.glob("_ncu_report*.so"))
    return " ".join(f"{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in libraries)


TIMEOUT_S = 120.0
MEMORY = (6 << 30, 64)  # bytes of address space: fixed, and per byte of the report
ANSWER = 1 << 30  # bytes
READER = Path(__file__).with_name("ncu_report_process.py")
UNITS = b"units"  # the cache key of all units together
SAMPLED = "warp"  # the unit of stalls: the reader guesses it from the name, and not always consistently

# Before 2026 the reader printed the operands of LDGSTS the other way round: source, destination.
_TURNED = re.compile(r"(?<![\w.])(LDGSTS(?:\.\w++)*+) (desc\[\w++\]\[[^][]*+\]|\[R\d++\.64[^][]*+\]), (\[[^][]*+\])")
_ADDRESS = re.compile(r"0x[0-9a-f]{9,16}\b")  # immediates of SASS have 32 bits at most
_OFFSET = re.compile(r"\{([0-9a-f]+)\}")

# An instruction's text, and the file and line that ncu names.
Line = tuple[str, Location | None]


class Question(NamedTuple):
    """A request for the code of one result at these addresses."""

    result: ReportResult
    pcs: Sequence[int]


def units_and_code(report: Path, questions: Sequence[Question]) -> tuple[dict[str, str], list[list[Line]]]:
    """Return the unit of every metric, and each result's code; `questions` cover all results, in order.

    Raises DamagedFile or BadFile if the reader fails, EnvironmentLacking if it is not installed.
    """
    names = {name for question in questions for name in question.result.metrics}
    cached_units: dict[str, str] = load(dict[str, str], UNITS) or {}
    units = cached_units | {name: SAMPLED for name in names if name.startswith(model.STALLED)}
    codes = [_recall(question) for question in questions]
    unknown = {number: questions[number].pcs for number, code in enumerate(codes) if code is None}
    missing_units = sorted(names - units.keys())
    if missing_units or unknown:
        order = {"units": missing_units, "code": list(unknown.items()), "results": len(questions)}
        answer = _answer(report, order)
        units |= answer["units"]
        for number, lines in zip(unknown, answer["code"], strict=True):
            code = [(_in_order(text), tuple(at) if at else None) for text, at in lines]
            codes[number] = code
            _keep(questions[number], code)
        if missing_units:
            save(cached_units | dict.fromkeys(missing_units, "") | answer["units"], UNITS)
    return units, [code or [] for code in codes]


# ------------------------------------------------------------------------------------------------ cached code


def _recall(question: Question) -> list[Line] | None:
    """Return the cached code, or None. Addresses are cached as offsets: a function's address changes with every run."""
    if not question.pcs:
        return []
    start, cached = question.result.address, None
    if start and question.result.cubin:
        cached = load(dict[str, Line], *_named(question.result))
    if cached is None:
        return None
    try:
        lines = [cached[f"{pc - start:x}"] for pc in question.pcs]
    except KeyError:
        return None
    return [(_OFFSET.sub(lambda m: hex(start + int(m[1], 16)), text), tuple(at) if at else None) for text, at in lines]


def _keep(question: Question, code: Sequence[Line]) -> None:
    """Cache the code if it starts at the function's start and is complete; a damaged report's may not be."""
    start = question.result.address
    if not question.result.cubin or question.pcs[0] != start or not all(text for text, _ in code):
        return
    lines = {}
    for pc, (text, at) in zip(question.pcs, code, strict=True):
        # An instruction has 16 bytes: a branch may lead to where the last one ends.
        offsets = _offsets(text, start, question.pcs[-1] + 16)
        if offsets is None:
            return
        lines[f"{pc - start:x}"] = (offsets, at)
    save(lines, *_named(question.result))


def _named(result: ReportResult) -> tuple[bytes, ...]:
    return result.cubin, result.function.encode(), str(result.source.target).encode()


def _in_order(text: str) -> str:
    """Return the text with the operands in the order of nvdisasm and of newer readers: destination first."""
    return _TURNED.sub(r"\1 \3, \2", text)


def _offsets(text: str, start: int, end: int) -> str | None:
    """Return a text with the function's addresses as ``{offset}``; None if it has any other address."""
    named = [int(address, 16) for address in _ADDRESS.findall(text)]
    if "{" in text or any(not start <= address <= end for address in named):
        return None
    return _ADDRESS.sub(lambda m: f"{{{int(m[0], 16) - start:x}}}", text)


# ------------------------------------------------------------------------------------------------ the process


def _answer(report: Path, order: dict[str, Any]) -> dict[str, Any]:
    """Return the reader's answer, from a separate process with limits on time, memory and output."""
    limits = {"memory_bytes": MEMORY[0] + MEMORY[1] * report.stat().st_size, "answer_bytes": ANSWER}
    with os.fdopen(os.memfd_create("reader"), "r+", encoding="utf-8") as both_ways:
        json.dump({**order, **limits, "report": str(report)}, both_ways)
        both_ways.seek(0)
        _run(report, both_ways.fileno())
        both_ways.seek(0)
        answer: dict[str, Any] = parse_json(both_ways.read(), f"the output of NVIDIA's reader for {report}")
    if answer["results"] != order["results"]:
        raise DamagedFile(
            f"{report} is damaged: {answer['results']} of its {order['results']} results can be read", AGAIN
        )
    return answer


def _run(report: Path, both_ways: int) -> None:
    # Without site and runpy it starts in half the time; PYTHONPATH tells it where its modules are.
    command = [sys.executable, "-S", "-P", str(READER), str(both_ways)]
    environment = child_environment()
    modules = [environment["PYTHONPATH"], *(entry for entry in sys.path if entry)]
    environment["PYTHONPATH"] = os.pathsep.join(modules)
    try:
        outcome = child.run(command, TIMEOUT_S, environment=environment, pass_fds=(both_ways,))
    except TimeLimit as error:
        raise DamagedFile(
            f"reading {report} took more than {TIMEOUT_S:g} s", "profile fewer kernels: -c, -k"
        ) from error
    last_line = outcome.log.strip().rsplit("\n", 1)[-1]
    if "No module named 'ncu_report'" in last_line:
        raise EnvironmentLacking("the package ncu-report is not installed", "pip install ncu-report")
    if outcome.status < 0:
        raise DamagedFile(f"{report} makes NVIDIA's reader crash (signal {-outcome.status})", AGAIN)
    if "MemoryError" in last_line or "bad_alloc" in outcome.log:
        raise DamagedFile(f"{report} makes NVIDIA's reader run out of memory", AGAIN)
    if outcome.status:
        raise BadFile(f"{report} cannot be read: {last_line}", "pip install --upgrade ncu-report")


SHOWN = 5  # metrics that a note lists


@dataclass(frozen=True, kw_only=True)
class ReportOrigin:
    """The origin that all results of a report share."""

    report: str
    sha256: str
    session: Container
    facts: Facts


def read(report: Path) -> list[Profile]:
    """Return one Profile per result in the report; the engine is ncu unless the facts name another.

    Raises BadFile (missing, not a report, without results) and DamagedFile.
    """
    before, data = _stamp(report), read_bytes(report)
    session, sha256 = container.container_of(data, str(report)), cache.sha256(data)
    facts = Facts.beside(report)
    facts.verify(report, sha256)
    origin = ReportOrigin(report=encodable(report.name), sha256=sha256, session=session, facts=facts)
    if not session.results:
        raise BadFile(
            f"{report} has no kernel: ncu profiled none, or the file was truncated",
            "check the filters it was made with: -k, -s, -c, --nvtx-include",
        )
    try:
        questions = [Question(result, result.pcs) for result in session.results]
        units, codes = units_and_code(report, questions)
        if _stamp(report) != before:  # NVIDIA's module reads the file itself
            raise BadFile(f"{report} has changed while it was read", "run the command again")
        kernels = python_kernels.known_kernels(session.results, facts)
        occurrences: Counter[str] = Counter()
        profiles = []
        for index, (result, code) in enumerate(zip(session.results, codes, strict=True)):
            metrics = {
                name: Metric(value, units.get(name, ""))
                for name, value in result.metrics.items()
                if not isinstance(value, float) or math.isfinite(value)  # NaN: ncu could not measure it
            }
            launch = replace(result.launch, index=index, occurrence=occurrences[result.function])
            occurrences[result.function] += 1
            compiled = python_kernels.of(result, kernels)
            instructions = tuple(_instructions(result, code, compiled, facts))
            profile = replace(_profile(result, metrics, origin, compiled), launch=launch, instructions=instructions)
            if compiled:
                from ncu_swizzle.frontends.python_kernels import with_layout_notes

                profile = with_layout_notes(profile, compiled.ttgir, compiled.explicit)
            profiles.append(profile)
        if wrong := next(filter(None, map(remarks.impossible, profiles)), ""):
            raise ValueError(wrong)
        if too_large := next(filter(None, map(remarks.too_large, profiles)), ""):
            raise BadFile(f"{report} is too large to show: {too_large}", AGAIN)
        return profiles
    except (ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
        raise DamagedFile(f"{report} is damaged: {brief(error)}", AGAIN) from error


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a stamp that changes when a file is replaced; empty without a file."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _profile(
    result: ReportResult, metrics: Mapping[str, Metric], origin: ReportOrigin, compiled: CachedKernel | None
) -> Profile:
    """Return the profile of a result, without its instructions."""
    facts = origin.facts.content
    name = facts.get("kernel") or result.name
    lacking = (*python_kernels.lacking(result, compiled), *PythonLines.of(result).lacking(result))
    notes = (*map(remarks.note, facts.get("notes", ())), *(remarks.note(each, aside=True) for each in lacking))
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
        findings=(*result.findings, *notes, *_not_measured(result)),
        sources=facts.get("sources") or result.source.files,
        commit=facts.get("commit", ""),
        unknowns=tuple(
            UnknownCounts.of(codes.NOT_COLLECTED, f"the report lacks {name}")
            for name in model.NEEDED
            if name not in metrics
        ),
    )


def _not_measured(result: ReportResult) -> Iterator[Finding]:
    names = [name for name, value in result.metrics.items() if isinstance(value, float) and math.isnan(value)]
    if names:
        listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        yield remarks.note(f"ncu wrote NaN for {listed}.", aside=remarks.FIGURES.isdisjoint(names))


def _machine(metrics: Mapping[str, Metric], origin: ReportOrigin, result: ReportResult) -> model.MachineInfo:
    def attribute(name: str) -> Any:
        metric = metrics.get(f"device__attribute_{name}")
        return metric.value if metric else ""

    machine, session = origin.facts.content.get("machine", {}), origin.session
    clocks = re.search(r"--clock-control[ =](\S+)", session.command)
    major, minor = attribute("compute_capability_major"), attribute("compute_capability_minor")
    return model.MachineInfo(
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
    executed, wavefronts, ideal = (result.counts[name] for name in (model.EXECUTED, model.WAVEFRONTS, model.IDEAL))
    traffic = {field: result.counts[metric] for field, metric in METRICS.items()}
    for pc, (text, at) in zip(pcs, code, strict=True):
        sass = " ".join(text.split())
        access = pack_facts.access(sass, wavefronts.get(pc))
        stack = python.plausible_stack(lines.stack(pc - start) or ((at,) if at else ()), bool(access))
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
            traffic=Traffic(**{name: counts[pc] for name, counts in traffic.items() if pc in counts}),
        )
