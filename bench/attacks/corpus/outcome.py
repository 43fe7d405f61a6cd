"""What became of a case: `refused`, `read`, or everything that must not happen."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bench.attacks.corpus.attempt import OUTPUT, SUMMARY, Ran
from bench.attacks.corpus.case import Draft

REFUSED, READ = "refused", "read"
CRASH, HANG, CODE, RAW, MARKUP, INVALID = "TRACEBACK", "HANG", "CODE RUN", "RAW CONTROL", "MARKUP", "INVALID OUTPUT"
SILENT, LOST, MUTE, LEFT, DIFFERS = "READ AS WHOLE", "LOST", "NO MESSAGE", "LEFT BEHIND", "DEPENDS ON THE CACHE"
VIOLATIONS = (CRASH, HANG, CODE, RAW, MARKUP, INVALID, SILENT, LOST, MUTE, LEFT, DIFFERS)
GATE_CODES = (0, 1, 5)
CODES = (0, 1, 2, 3, 4, 5)
ERROR = b"The gate: error"  # of lint, which reports a kernel that cannot be judged like any other, and exits with 2

# C0 and C1 but for line feed and tab, and what reorders text.
_RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MARKUP = re.compile("<(script>alert|img src=x onerror|svg onload)")
_NO_FORMULA = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?$|@!?U?P[T\d]")  # numbers, and predicates of SASS
_WORKFLOW = re.compile(r"^::(stop-commands|error file=x)::", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of a case: refused or read, what is wrong with that, and what it took."""

    what: str
    wrong: tuple[tuple[str, str], ...]  # violations, and their circumstances
    seconds: float
    peak_bytes: int


def judged(draft: Draft, ran: Ran, clean: Ran | None = None) -> Outcome:
    """Return what became of a case; `clean` is what the same command does with a clean cache."""
    wrong = tuple(dict.fromkeys(_wrong(draft, ran, clean)))
    return Outcome(READ if ran.code in GATE_CODES else REFUSED, wrong, ran.seconds, ran.peak_bytes)


def _wrong(draft: Draft, ran: Ran, clean: Ran | None) -> Iterator[tuple[str, str]]:
    said = ran.stderr.decode("utf-8", "replace")
    if ran.hung:
        yield HANG, f"ended after {ran.seconds:.0f} s"
    elif b"Traceback (most recent call last)" in ran.stderr + ran.stdout or ran.code not in CODES:
        yield CRASH, f"exit code {ran.code}: {last_lines(said)}"
    elif ran.code not in GATE_CODES and not said.strip():
        yield MUTE, f"exit code {ran.code} without a word"
    if ran.marked:
        yield CODE, "the marker exists"
    if draft.must_refuse and ran.code in GATE_CODES and not ran.hung:
        yield SILENT, f"exit code {ran.code}"
    yield from _losses(draft, ran)
    if not ran.hung:
        yield from _texts(draft, ran)
    if clean is not None and not ran.hung and _visible(draft, ran) != _visible(draft, clean):
        yield DIFFERS, f"exit code {ran.code} instead of {clean.code}: {last_lines(said)}"


def last_lines(text: str, count: int = 3) -> str:
    """Return the end of a text on one line that a terminal can show."""
    return " | ".join(ascii(line.strip()[:300])[1:-1] for line in text.strip().splitlines()[-count:])


def _losses(draft: Draft, ran: Ran) -> Iterator[tuple[str, str]]:
    """Find files of the user's that were lost, outputs that are half-written, and what was left behind."""
    for name in ran.lost:
        if name != SUMMARY:
            yield LOST, f"{name!a} was changed"
    named = {*draft.outputs, SUMMARY}
    reported = ran.code in GATE_CODES or ERROR in ran.stdout
    for name, data in ran.written.items():
        if name in draft.outputs and not reported and not ran.hung and not _partial(draft, ran):
            yield LOST, f"{name!a} was written although the exit code is {ran.code}"
        if Path(name).name.startswith(".") and not ran.hung:
            yield LEFT, f"{name!a}"
        if name in named and data == OUTPUT[: len(data)] and len(data) < len(OUTPUT):
            yield LOST, f"{name!a} was truncated"
        if _partial(draft, ran) and (why := _invalid(Path(name).suffix, data.decode("utf-8", "replace"))):
            yield LOST, f"{name!a} is half-written: {why}"
    for name in () if ran.hung else ran.left:
        yield LEFT, f"{name!a} in the temporary folder"


def _partial(draft: Draft, ran: Ran) -> bool:
    """Say whether a command that failed may have written some outputs: a sweep, or one that filled the disk."""
    return bool(draft.largest_file) or (draft.command[0] == "sweep" and ran.code == 4)


def _visible(draft: Draft, ran: Ran) -> object:
    return ran.code, ran.stdout, ran.stderr, {name: ran.written.get(name) for name in draft.outputs}


# ------------------------------------------------------------------------------------------------ what was written


def _texts(draft: Draft, ran: Ran) -> Iterator[tuple[str, str]]:
    texts = {"stdout": ran.stdout, "stderr": ran.stderr, **ran.written}
    stdout = {"--json": ".json", "--csv": ".csv", "--markdown": ".md"}
    encoding = draft.environment.get("PYTHONIOENCODING", "utf-8")
    for name, data in texts.items():
        suffix = Path(name).suffix
        if name == "stdout":
            following = dict(zip(draft.command, draft.command[1:], strict=False))
            suffix = next((form for option, form in stdout.items() if following.get(option) == "-"), "")
        if suffix in (".ncu-rep", ".npy", ".cubin", ".ptx") or not data:
            continue
        yield from _text(name, suffix, data, encoding if name.startswith("std") else "utf-8", ran.code)


def _text(name: str, suffix: str, data: bytes, encoding: str, code: int) -> Iterator[tuple[str, str]]:
    text = _decoded(data, encoding)
    if text is None:
        yield RAW, f"{name!a} is neither {encoding} nor UTF-8"
        return
    if raw := _RAW.search(text):
        around = text[max(0, raw.start() - 40) : raw.end() + 20]
        yield RAW, f"{raw[0]!a} in {name!a}: {around!a}"
    if suffix in (".html", ".md", ".svg") and (markup := _MARKUP.search(text)):
        yield MARKUP, f"{markup[0]} in {name!a}"
    if _WORKFLOW.search(text) and name in ("stdout", SUMMARY):
        yield MARKUP, f"a workflow command in {name!a}"
    if suffix == ".csv":
        yield from (_formulas(name, text))
    if code in GATE_CODES and (why := _invalid(suffix, text)):
        yield INVALID, f"{name!a}: {why}"


def _decoded(data: bytes, encoding: str) -> str | None:
    """Return the text in its encoding, or in the one that typer falls back to."""
    for tried in (encoding, "utf-8"):
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode(tried)
    return None


def _formulas(name: str, text: str) -> Iterator[tuple[str, str]]:
    csv.field_size_limit(1 << 30)
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not _NO_FORMULA.match(cell):
                yield MARKUP, f"the cell {cell[:40]!a} in {name!a}"
                return


def _invalid(suffix: str, text: str) -> str:
    """Return why a file of its kind is none; empty if it is one."""
    try:
        if suffix in (".json", ".sarif"):
            json.loads(text, parse_constant=_no_json)
        elif suffix in (".xml", ".svg"):
            ElementTree.fromstring(text)
    except (ValueError, ElementTree.ParseError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "" if suffix != ".html" or text.rstrip().endswith("</html>") else "it does not end"


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
