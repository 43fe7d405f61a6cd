"""What only NVIDIA's reader knows about a .ncu-rep: units, and each instruction's text and source line.

It runs in a separate process with limits, see `ncu_report_process`, and only for what the cache lacks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ncu_swizzle.base import cache, child, validate
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, TimeLimit
from ncu_swizzle.base.files import AGAIN, parse_json
from ncu_swizzle.base.paths import child_environment
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports.model import STALLED
from ncu_swizzle.reports.results import ReportResult

# Cached answers of NVIDIA's module, which needs half a second or more for each.
#
# An entry is JSON, keyed by the question and by the module's size and date: another version may answer differently.
# One that does not have the expected types is dropped.


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
_TURNED = re.compile(r"(LDGSTS\S*) (desc\[\w+\]\[[^\]]*\]|\[R\d+\.64[^\]]*\]), (\[[^\]]*\])")
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
    units = cached_units | {name: SAMPLED for name in names if name.startswith(STALLED)}
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
