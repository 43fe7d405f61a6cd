"""What an editor shows of a source: diagnostics, code lenses and hovers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from lsprotocol import types

from ncu_swizzle.base import codes
from ncu_swizzle.base.texts import in_markdown, one_line
from ncu_swizzle.gate.verdict import BOUNDS, BUILT, MAX_DEGREE, Outcome
from ncu_swizzle.kernels.family import PYTHON
from ncu_swizzle.servers.answer import Answer, Row, stamp

# Edits that turn one text into another, hunk by hunk: an editor keeps its cursor and folds elsewhere.

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")  # a form feed, say, ends no line of the protocol's


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each with its end."""
    return LINE.findall(text)


def edits(before: str, after: str) -> Iterator[types.TextEdit]:
    """Yield an edit of whole lines for each part that differs."""
    old, new = lines_of(before), lines_of(after)
    for tag, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            where = types.Range(types.Position(first, 0), types.Position(last, 0))
            yield types.TextEdit(where, "".join(new[start:stop]))


# What was found of one source, and whether it still holds.


@dataclass(frozen=True, kw_only=True)
class SeenSource:
    """The rows of `lines` about a source, the text that they are about, and explanations of its lines so far."""

    text: str
    rows: tuple[Row, ...] = ()
    stamps: tuple[tuple[str, int, int], ...] = ()  # of what it was made from
    declared: Mapping[str, str] = field(default_factory=dict)  # kernels whose launch is declared, and their sources
    error: str = ""
    explained: dict[tuple[str, int], Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Answer, text: str) -> SeenSource:
        """Return what an answer says of a text."""
        stamps = tuple((path, time, size) for path, time, size in answer.facts.get("read", ()))
        return cls(text=text, rows=answer.rows, stamps=stamps, declared=answer.facts.get("declared", {}))

    @property
    def lasts(self) -> bool:
        """Whether nothing that it was made from has changed since."""
        return bool(self.stamps) and all(stamp(each[0]) == each for each in self.stamps)

    @property
    def lines(self) -> Sequence[Row]:
        """The rows about lines."""
        return [row for row in self.rows if "line" in row]

    @property
    def kernels(self) -> Sequence[Row]:
        """The rows about whole kernels."""
        return [row for row in self.rows if "function" in row]

    def at(self, number: int) -> Iterator[Row]:
        """Yield the rows about a line, counted from 1."""
        return (row for row in self.lines if row["line"] == number)


SOURCE = "ncu-swizzle"
# A definition: CUDA's with its attributes and return type, Python's with its name alone.
DEFINITION = r"__global__[^;{{}}]*?\b{name}\s*\(|^[ \t]*def\s+{name}\s*\("
ANY = r"\w+"
FIX = "ncu-swizzle.fix"  # the command behind the action


def diagnostics(seen: SeenSource) -> list[types.Diagnostic]:
    """Return a diagnostic per line that conflicts, cannot be judged, or keeps its kernel from being judged."""
    lines = lines_of(seen.text)
    made = [_of_row(row, lines) for row in seen.lines if "outcome" in row]
    first = _definition(seen.text, ANY)
    notes = [row["undeclared"] for row in seen.rows if "undeclared" in row]
    made += [_diagnostic(note, first, lines, types.DiagnosticSeverity.Hint) for note in notes]
    if seen.error:
        made.append(_diagnostic(seen.error, first, lines, types.DiagnosticSeverity.Error))
    return made


def _of_row(row: Row, lines: list[str]) -> types.Diagnostic:
    error = row.get("criterion") in (BOUNDS, BUILT) or row["outcome"] == Outcome.error
    judged = types.DiagnosticSeverity.Error if error else types.DiagnosticSeverity.Warning
    severity = types.DiagnosticSeverity.Information if row["outcome"] == Outcome.inconclusive else judged
    counted = f"{row['wavefronts']:,} wavefronts, {row['ideal']:,} ideal: " if row.get("wavefronts") is not None else ""
    access = f", {row['access']}" if "access" in row else ""
    made = _diagnostic(f"{row['kernel']}{access}: {counted}{row['message']}", row["line"] - 1, lines, severity)
    if code := row.get("code", ""):
        made.code, made.code_description = code, types.CodeDescription(codes.uri(code))
    made.data = {"kernel": row["kernel"]}
    return made


def _diagnostic(message: str, line: int, lines: list[str], severity: types.DiagnosticSeverity) -> types.Diagnostic:
    number = min(max(line, 0), max(len(lines) - 1, 0))
    text = lines[number] if lines else ""
    start = len(text) - len(text.lstrip())
    return types.Diagnostic(
        types.Range(types.Position(number, start), types.Position(number, _units(text.rstrip()))),
        one_line(message),
        severity=severity,
        source=SOURCE,
    )


def _units(text: str) -> int:
    """Return the length of a text in UTF-16, as the protocol counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def lenses(seen: SeenSource, text: str) -> Iterator[types.CodeLens]:
    """Yield the totals of each kernel above its definition in the text that the editor has now."""
    changed = "" if text == seen.text else ", before your changes"
    totals: dict[int, list[str]] = {}
    for row in seen.kernels:
        number = _definition(text, re.escape(_base(row["function"])), -1)
        if number >= 0:
            totals.setdefault(number, []).append(f"{row['kernel']}: {_counts(row)}{changed}")
    for number, titles in totals.items():
        here = types.Position(number, 0)
        # A lens needs a command; an empty one does nothing.
        command = types.Command(one_line("; ".join(dict.fromkeys(titles))), "")
        yield types.CodeLens(types.Range(here, here), command=command)


def actions(seen: SeenSource, wanted: list[types.Diagnostic]) -> Iterator[types.CodeAction]:
    """Yield an action per source of the kernels that conflict where the user is."""
    numbers = {each.range.start.line + 1 for each in wanted if each.source == SOURCE}
    rows = [
        row
        for number in numbers
        for row in seen.at(number)
        if row.get("outcome") == Outcome.failed and row.get("criterion") == MAX_DEGREE
    ]
    for file in dict.fromkeys(seen.declared[row["kernel"]] for row in rows if row["kernel"] in seen.declared):
        if not file.endswith(PYTHON):
            title = f"Free {PurePath(file).name} of bank conflicts, if the rewritten kernels are proved"
            command = types.Command(title, FIX, arguments=[file])
            yield types.CodeAction(title, types.CodeActionKind.QuickFix, diagnostics=wanted, command=command)


def hover(rows: list[Row], explained: Answer | None) -> str:
    """Return Markdown on a line: its counts, and which lanes meet in which bank, as it is and as suggested."""
    parts = [f"**{in_markdown(row['kernel'])}**, {in_markdown(row['access'])}: {_counts(row)}" for row in rows]
    if explained is not None:
        parts.append(in_markdown(explained.summary))
        parts += [f"- {in_markdown(text)}" for text in _banks(explained)]
    return "\n\n".join(parts)


def _banks(explained: Answer) -> Iterator[str]:
    """Yield a sentence per mapping: `servers.lines` gives each one two rows."""
    mapping = ""
    for row in explained.rows:
        if "mapping" in row:
            mapping = row["mapping"]
        elif "ways" in row:
            lanes = ", ".join(map(str, row["lanes there"]))
            more = f" and {row['and more lanes']} more" if "and more lanes" in row else ""
            yield f"{mapping}: {row['ways']} ways; bank {row['bank']} serves lanes {lanes}{more}"


def _counts(row: Row) -> str:
    wavefronts, ideal = row.get("wavefronts"), row.get("ideal")
    if wavefronts is None or ideal is None:
        return "wavefronts unknown"
    if not wavefronts:
        return "no access to shared memory"
    degree = f", degree {wavefronts / ideal:.4g}" if ideal else ""
    return f"{wavefronts:,} wavefronts, {ideal:,} ideal{degree}"


def _base(function: str) -> str:
    """Return a function's name without its namespace, template arguments and parameters."""
    return re.split(r"[<(]", function, maxsplit=1)[0].split(" ")[-1].split("::")[-1]


def _definition(text: str, name: str, otherwise: int = 0) -> int:
    """Return the line, from 0, on which a kernel's name is defined."""
    found = re.search(DEFINITION.format(name=name), text, re.MULTILINE)
    return text.count("\n", 0, found.end()) if found else otherwise
