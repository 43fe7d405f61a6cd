"""Suppressions: comments in sources, and entries of the settings, that hide findings by their codes.

    // ncu-swizzle: ignore SW001 — reason      in CUDA C++; after code about that line, else about the next line of code
    # ncu-swizzle: ignore SW001, UN001: reason in Python

    [[ignore]]                                 in ncu-swizzle.toml; in pyproject.toml [[tool.ncu-swizzle.ignore]]
    codes = ["SW001"]
    file = "src/old/*.cu"                      relative to the settings' folder; optional, as is kernel
    kernel = "legacy_.*"                       a regular expression that matches the whole name
    reason = "measured: no time"

A suppressed finding stays in every output that lists findings, but does not count. Findings about a whole kernel can
be hidden only in the settings: which of its lines is the worst may change with any edit.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

from ncu_swizzle.base import codes
from ncu_swizzle.base.bounds import OutOfTime, shortened, within
from ncu_swizzle.base.errors import Hint, TimeLimit, Typed, UsageError
from ncu_swizzle.gate.baseline import kernel_pattern, pattern
from ncu_swizzle.gate.verdict import SUPPRESSIONS, Check, Outcome, Place, Suppression
from ncu_swizzle.kernels.family import PYTHON
from ncu_swizzle.kernels.nvcc_options import Checkout, source_bytes
from ncu_swizzle.kernels.project import IGNORE, Project, refuse_others

MARK = re.compile(r"ncu-swizzle:\s*+ignore\b")
FORM = "ncu-swizzle: ignore SW001 — reason"
TOML = 'codes = ["SW001"], and file = "src/*.cu" or kernel = "name.*" if not everywhere'

# Where a comment or a literal of CUDA C++ begins, and where a character ends the rest of a quotation.
_BEGIN = re.compile(r"""//|/\*|R"(?P<delimiter>[^()\\\s"]{0,16})\(|"|(?:(?<![0-9A-Fa-f])|(?<=\bu8))'""")  # not 1'000
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)*+", re.DOTALL) for quote in "\"'"}
_CODE = re.compile(r"\S")
_NOT_CODES = re.compile(r"[^\w\s,]")
_SEPARATED = re.compile(r"[\s,]+")
Span = tuple[int, int]  # from, to


def in_source(file: str, checkouts: Sequence[Checkout], limit_s: float = 600.0) -> tuple[Suppression, ...]:
    """Return the suppressions in a source file; none if it cannot be read, see `source_bytes`.

    Raises TimeLimit after that much processor time.
    """
    data = source_bytes(file, checkouts)
    if b"ncu-swizzle:" not in data:
        return ()
    try:
        with within(limit_s):
            text = data.decode("utf-8", "replace")
            comments = _python_comments(text) if file.endswith(PYTHON) else _cuda_comments(text)
            return tuple(_suppressions(file, text, comments))
    except OutOfTime:
        raise TimeLimit(
            f"{shortened(file)}: its comments were not read within {limit_s:g} s",
            Hint("allow more time: ", Typed(f"--timeout {2 * limit_s:g}")),
        ) from None


def _cuda_comments(text: str) -> Iterator[Span]:
    """Yield where each comment is. No character is looked at twice."""
    end = 0
    while begin := _BEGIN.search(text, end):
        start, what = begin.start(), begin[0]
        if what == "//":
            end = _after("\n", text, start) - 1
        elif what == "/*":
            end = _after("*/", text, begin.end())
        elif what[0] == "R":
            end = _after(f'){begin["delimiter"]}"', text, begin.end())
        else:
            quoted = _QUOTED[what].match(text, begin.end())
            assert quoted is not None  # it may be empty
            end = quoted.end() + text.startswith(what, quoted.end())
        if what[0] == "/":
            yield start, end


def _after(mark: str, text: str, start: int) -> int:
    """Return where the text continues after a mark; without one, past the text's end."""
    position = text.find(mark, start)
    return len(text) + 1 if position < 0 else position + len(mark)


def _python_comments(text: str) -> Iterator[Span]:
    lines, starts = io.StringIO(text), [0]

    def line() -> str:
        read = lines.readline()
        starts.append(starts[-1] + len(read))
        return read

    try:
        for token in tokenize.generate_tokens(line):
            if token.type == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                yield start, start + len(token.string)
    except (tokenize.TokenError, SyntaxError):  # unparsable code is not executed either
        return


def _suppressions(file: str, text: str, comments: Iterable[Span]) -> Iterator[Suppression]:
    """Yield the lines that comments suppress: the comment's own if it has code before it, else the next with code."""
    line, counted = 1, 0  # the line of a position, which only grows

    def line_at(position: int) -> int:
        nonlocal line, counted
        line, counted = line + text.count("\n", counted, position), position
        return line

    waiting: list[Suppression] = []
    end = last = 0  # of the comment before; the last line with code
    for start, after in (*comments, (len(text), len(text))):
        if code := _CODE.search(text, end, start):
            last = line_at(code.start())
            yield from (replace(suppression, line=last) for suppression in waiting)
            waiting.clear()
            last = line_at(end + len(text[end:start].rstrip()) - 1)
        number, end = line_at(start), min(after, len(text))
        if named := _named(text[start:end].partition("\n")[0]):
            suppression = Suppression(codes=named[0], reason=named[1], place=Place(file, number), line=number)
            if last == number:
                yield suppression
            else:
                waiting.append(suppression)
    yield from waiting


def _named(comment: str) -> tuple[tuple[str, ...], str] | None:
    """Return the codes that a comment ignores, and why; None if it is about something else."""
    if not (mark := MARK.search(comment)):
        return None
    rest = comment[mark.end() :].partition("*/")[0]
    other = _NOT_CODES.search(rest)
    listed, reason = (rest[: other.start()], rest[other.start() :]) if other else (rest, "")
    if reason.startswith("-"):
        reason = reason.lstrip("-")
    elif reason[:1] in tuple("—–:"):
        reason = reason[1:]
    elif reason:  # neither codes nor a reason: each word is an unknown code
        listed, reason = rest, ""
    codes_ = tuple(code.upper() for code in _SEPARATED.split(listed) if code)
    return codes_, reason.strip()


def in_settings(project: Project) -> tuple[Suppression, ...]:
    """Return the entries of a settings file; raise UsageError for an invalid one."""
    tables = project.content.get(IGNORE, [])
    name = f"{project.outer}{IGNORE}"
    if not isinstance(tables, list) or not all(isinstance(entry, dict) for entry in tables):
        raise UsageError(f"{project.file.name}: {name} is not an array of tables", f"[[{name}]] {TOML}")
    return tuple(_entry(entry, f"{project.file.name} [[{name}]] {n}", project) for n, entry in enumerate(tables, 1))


def _entry(entry: dict[str, Any], origin: str, project: Project) -> Suppression:
    refuse_others(entry, ("codes", "file", "kernel", "reason"), origin)
    named = entry.get("codes")
    if not isinstance(named, list) or not named or not all(isinstance(code, str) for code in named):
        raise UsageError(f"{origin}: codes is {named!r}", f"[[{project.outer}{IGNORE}]] {TOML}")
    texts = {key: entry.get(key, "") for key in ("file", "kernel", "reason")}
    if wrong := next((key for key, text in texts.items() if not isinstance(text, str)), ""):
        raise UsageError(f"{origin}: {wrong} is {texts[wrong]!r}", "write a string in quotes")
    for code in named:
        if code.upper() not in codes.CATALOGUE:
            raise UsageError(f"{origin}: {codes.no_such(code)}", codes.HELP)
    return Suppression(
        codes=tuple(code.upper() for code in named),
        reason=texts["reason"],
        place=Place(os.path.relpath(project.file)),
        files=os.path.normpath(project.file.parent / texts["file"]) if texts["file"] else "",
        kernel=pattern(texts["kernel"], origin) if texts["kernel"] else "",
    )


@dataclass(frozen=True)
class Coverage:
    """The coverage of a run, which `Suppressions.leftover` relies on."""

    lines: frozenset[tuple[str, int]] = frozenset()  # files and lines that have instructions of kernels that were run
    kernels: frozenset[str] = frozenset()
    complete: bool = True  # whether every kernel that was named was run


@dataclass
class Suppressions:
    """The entries of the settings, the comments of every requested file, and which of them hid something.

    Comments are read in files of the `checkouts` alone: findings are about files that line tables name.
    """

    entries: tuple[Suppression, ...] = ()
    checkouts: Sequence[Checkout] = ()
    limit_s: float = 600.0  # of processor time for the comments of a file
    _files: dict[str, tuple[Suppression, ...]] = field(default_factory=dict)
    _about: dict[tuple[str, int], list[Suppression]] = field(default_factory=dict)  # by file and line
    _used: set[tuple[Suppression, str]] = field(default_factory=set)

    def marked(self, checks: Iterable[Check]) -> Iterator[Check]:
        """Yield the checks; those whose codes are all suppressed, with what suppresses them."""
        for check in checks:
            hiding = {code: suppression for code in check.codes if (suppression := self._hiding(check, code))}
            self._used |= {(suppression, code) for code, suppression in hiding.items()}
            hidden = check.outcome is not Outcome.passed and hiding.keys() == set(check.codes)
            yield replace(check, suppressions=tuple(dict.fromkeys(hiding.values()))) if hidden and hiding else check

    def _hiding(self, check: Check, code: str) -> Suppression | None:
        place = check.place
        if place and place.line and codes.CATALOGUE[code].about == codes.LINE:
            self.of(place.file)
            for suppression in self._about.get((place.file, place.line), ()):
                if code in suppression.codes:
                    return suppression
        return next((entry for entry in self.entries if code in entry.codes and _applies(entry, check)), None)

    def of(self, file: str) -> tuple[Suppression, ...]:
        """Return the comments of a file, read once."""
        if file not in self._files:
            self._files[file] = in_source(file, self.checkouts, self.limit_s)
            for suppression in self._files[file]:
                self._about.setdefault((file, suppression.line), []).append(suppression)
        return self._files[file]

    def leftover(self, command: str, judged: Coverage) -> Iterator[Check]:
        """Yield a warning for each code of a suppression that certainly hid nothing or does not exist.

        A comment is judged if its line belongs to a kernel that was run, and all were; an entry, if its kernel was.
        """
        for file in sorted({file for file, _ in judged.lines}):
            for suppression in self.of(file):
                yield from self._of_comment(suppression, judged, command)
        for entry in self.entries:
            if entry.kernel and kernel_pattern(entry.kernel, str(entry.place)).is_one_of(judged.kernels):
                for code in entry.codes:
                    if (entry, code) not in self._used and command in codes.CATALOGUE[code].commands:
                        message = f"{code} is ignored for {entry.kernel}, and no kernel of that name has it"
                        yield _warning(entry, codes.UNUSED, message)

    def _of_comment(self, suppression: Suppression, judged: Coverage, command: str) -> Iterator[Check]:
        if not suppression.codes:
            yield _warning(suppression, codes.UNKNOWN_CODE, "the comment names no code: nothing is ignored")
        for code in suppression.codes:
            known = codes.CATALOGUE.get(code)
            if known is None:
                yield _warning(suppression, codes.UNKNOWN_CODE, f"{codes.no_such(code)}: nothing is ignored")
            elif known.about == codes.KERNEL:
                message = f"{code} is about a whole kernel, and is ignored in ncu-swizzle.toml alone"
                yield _warning(suppression, codes.UNUSED, message)
            elif (
                judged.complete
                and (suppression.place.file, suppression.line) in judged.lines
                and (suppression, code) not in self._used
                and command == "lint"  # which finds everything about a line
                and codes.UNUSED not in suppression.codes
            ):
                yield _warning(suppression, codes.UNUSED, f"line {suppression.line} has no {code}: the comment can go")


def _warning(suppression: Suppression, code: str, message: str) -> Check:
    where = PurePath(suppression.place.file).name
    return Check(
        outcome=Outcome.warning, kernel=where, criterion=SUPPRESSIONS, message=message, code=code,
        place=suppression.place, hint=FORM if suppression.in_source else TOML,
    )  # fmt: skip


def _applies(entry: Suppression, check: Check) -> bool:
    if entry.kernel and not kernel_pattern(entry.kernel, str(entry.place)).is_one_of([check.kernel.partition(" #")[0]]):
        return False
    if not entry.files:
        return True
    return check.place is not None and fnmatchcase(os.path.abspath(check.place.file), entry.files)  # noqa: PTH100 - resolve() follows links
