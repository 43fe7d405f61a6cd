"""Suppressions: comments in sources, and entries of the settings, that hide findings by their codes.

    // ncu-swizzle: ignore SW001 — reason      in CUDA C++; after code about that line, else about the next line of code
    # ncu-swizzle: ignore SW001, UN001: reason in Python

    [[ignore]]                                 in ncu-swizzle.toml; in pyproject.toml [[tool.ncu-swizzle.ignore]]
    codes = ["SW001"]
    file = "src/old/*.cu"                      relative to the settings' folder; optional, as is kernel
    kernel = "legacy_.*"                       a regular expression that matches the whole name
    reason = "measured: no time"

A finding stays in every output that lists findings, and counts for nothing. What is about a whole kernel is hidden in
the settings alone: which of its lines is the worst may change with any edit.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.gate.baseline import kernel_pattern, pattern
from ncu_swizzle.gate.verdict import SUPPRESSIONS, Check, Outcome, Place, Suppression
from ncu_swizzle.kernels.family import PYTHON
from ncu_swizzle.kernels.project import IGNORE, Project, refuse_others

MARK = re.compile(r"ncu-swizzle:\s*ignore\b(?P<rest>.*)")
REST = re.compile(r"\s*(?P<codes>[\w\s,]*?)\s*(?:(?:[—–:]|-+)\s*(?P<reason>.*?))?\s*(?:\*/.*)?")
# Comments of CUDA C++, and literals, in which nothing is a comment. A quote after a digit separates digits.
TOKENS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
FORM = "ncu-swizzle: ignore SW001 — reason"
TOML = 'codes = ["SW001"], and file = "src/*.cu" or kernel = "name.*" if not everywhere'


def in_source(file: str) -> tuple[Suppression, ...]:
    """Return the suppressions in a source file; none if it cannot be read."""
    path = Path(file)
    try:
        text = read_bytes(path).decode("utf-8", "replace") if path.is_file() else ""
    except UsageError:
        return ()
    if "ncu-swizzle" not in text:
        return ()
    comments = dict(_python_comments(text) if path.suffix == PYTHON else _cuda_comments(text))
    return tuple(_suppressions(file, text.split("\n"), comments))


def _cuda_comments(text: str) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the line of each comment, from 1, with the column of its start and its first line."""
    for token in TOKENS.finditer(text):
        if comment := token["comment"]:
            start = token.start()
            column = start - (text.rfind("\n", 0, start) + 1)
            yield text.count("\n", 0, start) + 1, (column, comment.partition("\n")[0])


def _python_comments(text: str) -> Iterator[tuple[int, tuple[int, str]]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], (token.start[1], token.string)
    except (tokenize.TokenError, SyntaxError):  # what cannot be parsed is not executed, either
        return


def _suppressions(file: str, lines: Sequence[str], comments: dict[int, tuple[int, str]]) -> Iterator[Suppression]:
    for number, (column, comment) in comments.items():
        if not (mark := MARK.search(comment)):
            continue
        rest = REST.fullmatch(mark["rest"])
        named = re.split(r"[\s,]+", rest["codes"]) if rest else mark["rest"].split()
        about = number
        if not lines[number - 1][:column].strip():  # on a line of its own: about the next line of code
            about = next(
                (n for n in range(number + 1, len(lines) + 1) if lines[n - 1][: comments.get(n, (None,))[0]].strip()), 0
            )
        yield Suppression(
            codes=tuple(code.upper() for code in named if code),
            reason=(rest["reason"] if rest else "") or "",
            place=Place(file, number),
            line=about or number,
        )


def in_settings(project: Project) -> tuple[Suppression, ...]:
    """Return the entries of a settings file; raise UsageError for one that makes no sense."""
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
class Judged:
    """What a run says of its kernels: what `Suppressions.leftover` may rely on."""

    lines: frozenset[tuple[str, int]] = frozenset()  # files and lines that have instructions of kernels that were run
    kernels: frozenset[str] = frozenset()
    complete: bool = True  # whether every kernel that was named was run


@dataclass
class Suppressions:
    """The entries of the settings, the comments of every file that was asked for, and which of them hid something."""

    entries: tuple[Suppression, ...] = ()
    _files: dict[str, tuple[Suppression, ...]] = field(default_factory=dict)
    _used: set[tuple[Suppression, str]] = field(default_factory=set)

    def marked(self, checks: Iterable[Check]) -> Iterator[Check]:
        """Yield the checks; those of which all codes are suppressed with what suppresses them."""
        for check in checks:
            hiding = {code: found for code in check.codes if (found := self._hiding(check, code))}
            self._used |= {(found, code) for code, found in hiding.items()}
            hidden = check.outcome is not Outcome.passed and hiding.keys() == set(check.codes)
            yield replace(check, suppressions=tuple(dict.fromkeys(hiding.values()))) if hidden and hiding else check

    def _hiding(self, check: Check, code: str) -> Suppression | None:
        place = check.place
        if place and place.line and codes.CATALOGUE[code].about == codes.LINE:
            for each in self.of(place.file):
                if each.line == place.line and code in each.codes:
                    return each
        return next((entry for entry in self.entries if code in entry.codes and _applies(entry, check)), None)

    def of(self, file: str) -> tuple[Suppression, ...]:
        """Return the comments of a file, read once."""
        if file not in self._files:
            self._files[file] = in_source(file)
        return self._files[file]

    def leftover(self, command: str, judged: Judged) -> Iterator[Check]:
        """Yield a warning for each code of a suppression that hid nothing or does not exist, as far as that is sure.

        A comment is judged if its line belongs to a kernel that was run, and all were; an entry, if its kernel was.
        """
        for file in sorted({file for file, _ in judged.lines}):
            for each in self.of(file):
                yield from self._of_comment(each, judged, command)
        for entry in self.entries:
            if entry.kernel and kernel_pattern(entry.kernel, str(entry.place)).is_one_of(judged.kernels):
                for code in entry.codes:
                    if (entry, code) not in self._used and command in codes.CATALOGUE[code].commands:
                        message = f"{code} is ignored for {entry.kernel}, and no kernel of that name has it"
                        yield _warning(entry, codes.UNUSED, message)

    def _of_comment(self, each: Suppression, judged: Judged, command: str) -> Iterator[Check]:
        if not each.codes:
            yield _warning(each, codes.UNKNOWN_CODE, "the comment names no code: nothing is ignored")
        for code in each.codes:
            known = codes.CATALOGUE.get(code)
            if known is None:
                yield _warning(each, codes.UNKNOWN_CODE, f"{codes.no_such(code)}: nothing is ignored")
            elif known.about == codes.KERNEL:
                message = f"{code} is about a whole kernel, and is ignored in ncu-swizzle.toml alone"
                yield _warning(each, codes.UNUSED, message)
            elif (
                judged.complete
                and (each.place.file, each.line) in judged.lines
                and (each, code) not in self._used
                and command == "lint"  # which finds all that is about a line
                and codes.UNUSED not in each.codes
            ):
                yield _warning(each, codes.UNUSED, f"line {each.line} has no {code}: the comment can go")


def _warning(each: Suppression, code: str, message: str) -> Check:
    where = PurePath(each.place.file).name
    return Check(
        outcome=Outcome.warning, kernel=where, criterion=SUPPRESSIONS, message=message, place=each.place, code=code,
        hint=FORM if each.in_source else TOML,
    )  # fmt: skip


def _applies(entry: Suppression, check: Check) -> bool:
    if entry.kernel and not kernel_pattern(entry.kernel, str(entry.place)).is_one_of([check.kernel.partition(" #")[0]]):
        return False
    if not entry.files:
        return True
    return check.place is not None and fnmatchcase(os.path.abspath(check.place.file), entry.files)  # noqa: PTH100 - resolve() follows links
