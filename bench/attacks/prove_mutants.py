"""Changes of kernels for bench/attacks/prove.py: small mistakes in right ones, in PTX or in the source, and hasty ones.

A mistake need not be one: whether it is equivalent is for an oracle to say that knows nothing of the checker.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Iterator, Sequence

# One instruction of PTX, changed: a number (masks, shifts, pitches), what is done, which registers it is done to, also
# where no index is computed.

_INTEGER = re.compile(
    r"^\s*(?:@!?%p\d+\s+)?(add|mul\.lo|mul\.wide|shl|shr|and|or|xor|sub|mov|rem|div|mad\.lo|setp\.\w+)"
    r"\.(s|u|b)(16|32|64)\s"
)
_LAST_NUMBER = re.compile(r",\s*(-?\d+);\s*$")
_TWO_REGISTERS = re.compile(r"^(\s*[\w.]+\s+%\w+, )(%\w+), (%\w+);$")
_ADDRESS = re.compile(r"\[(%\w+)(\+\d+)?\]")
_REGISTER = re.compile(r"%(r|rd|f|fd|rs|p)(\d+)\b")
EXCHANGED = (
    ("xor.b32", "or.b32"),
    ("xor.b32", "and.b32"),
    ("xor.b32", "add.s32"),
    ("and.b32", "or.b32"),
    ("shr.u32", "shr.s32"),
    ("shr.s32", "shr.u32"),
    ("cvt.s64.s32", "cvt.u64.u32"),
    ("%tid.x", "%tid.y"),
    ("%tid.y", "%tid.x"),
    ("add.s32", "sub.s32"),
    ("setp.lt.s32", "setp.le.s32"),
    ("rem.s32", "div.s32"),
)


def mutants_of_ptx(ptx: str, symbol: str) -> list[tuple[str, str]]:
    """Return changed texts of a kernel's module, each with what was changed."""
    lines = ptx.split("\n")
    start = next(number for number, line in enumerate(lines) if re.search(rf"\.entry {re.escape(symbol)}\b", line))
    end = next((number for number in range(start, len(lines)) if lines[number].startswith("}")), len(lines))
    shared = re.findall(r"\.shared\s+(?:\.align\s+\d+\s+)?\.b\d+\s+([\w$]+)", ptx)
    found: list[tuple[str, str]] = []
    for number in range(start, end):
        for changed in dict.fromkeys(_changed_line(lines[number], shared)):
            if changed != lines[number]:
                text = "\n".join((*lines[:number], changed, *lines[number + 1 :]))
                found.append((f"{lines[number].strip()} -> {changed.strip()}", text))
    return found


def _changed_line(line: str, shared: Sequence[str]) -> Iterator[str]:
    if _INTEGER.match(line):
        if match := _LAST_NUMBER.search(line):
            value = int(match[1])
            for other in (value + 1, value - 1, value * 2, value // 2, value ^ 4):
                yield f"{line[: match.start(1)]}{other};"
        if match := _TWO_REGISTERS.match(line):
            yield f"{match[1]}{match[2]}, {match[2]};"  # one operand twice
            yield f"{match[1]}{match[3]}, {match[2]};"  # the other order
        if (match := re.match(r"^(\s*mov\.[ub](?:32|64)\s+%\w+, )([\w$]+);$", line)) and match[2] in shared:
            yield from (f"{match[1]}{other};" for other in shared if other != match[2])  # another array
    for old, new in EXCHANGED:
        if old in line:
            yield line.replace(old, new, 1)
    stores = re.match(r"\s*(?:@!?%p\d+\s+)?(st|red|bra)\b", line) is not None
    for match in list(_REGISTER.finditer(line))[0 if stores or "@" in line else 1 :]:
        if "<" not in line and int(match[2]) > 1:  # the one before, which is mostly set before
            yield f"{line[: match.start()]}%{match[1]}{int(match[2]) - 1}{line[match.end() :]}"
    if (
        re.match(r"\s*(?:@!?%p\d+\s+)?(ld|st|atom)\.", line)
        and ".param" not in line
        and (match := _ADDRESS.search(line))
    ):
        for step in (4, 128):  # the next element, and beyond the row
            yield f"{line[: match.start()]}[{match[1]}+{int((match[2] or '+0')[1:]) + step}]{line[match.end() :]}"


# The tokens of a source that a right change replaced: one of them as it was, or replaced by something else.

_TOKEN = re.compile(r"\s+|\w+|<<|>>|[^\w\s]")


def mutants_of_source(before: str, after: str) -> list[tuple[str, str]]:
    """Return changed texts of the new version, each with what was changed."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    found: list[tuple[str, str]] = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        found.append(("a use left out", "".join((*new[:start], *old[first:last], *new[end:]))))
        names = sorted({token for token in new[max(0, start - 40) : end + 40] if re.fullmatch(r"[A-Za-z_]\w*", token)})
        for number in range(start, end):
            for other in _changed_token(new[number], names):
                text = "".join((*new[:number], other, *new[number + 1 :]))
                found.append((f"{new[number]} -> {other}", text))
    return [(what, text) for what, text in found if text not in (before, after)]


def _changed_token(token: str, names: Sequence[str]) -> Iterator[str]:
    if token.isdecimal():
        yield from (
            str(other) for other in (int(token) + 1, int(token) - 1, int(token) * 2, int(token) ^ 4) if other >= 0
        )
    elif token in "^&|+*%-":
        yield from (other for other in "^&|+" if other != token)
    elif token in ("<<", ">>"):
        yield ">>" if token == "<<" else "<<"
    elif re.fullmatch(r"[A-Za-z_]\w*", token):
        yield from random.Random(token).sample([name for name in names if name != token], min(2, len(names) - 1))


# Changes as somebody in a hurry makes them: every subscript that is spelled out, whatever else names the array.


def in_a_hurry(text: str) -> list[tuple[str, str]]:
    """Return texts in which the subscripts of two-dimensional shared arrays, or flat ones, are swizzled or padded."""
    found: list[tuple[str, str]] = []
    for name, rows, columns in re.findall(r"__shared__[^;()]*?\b(\w+)\[(\w+)\]\[(\w+)\]\s*[;,]", text):
        uses = [match for match in re.finditer(rf"(?<![\w.]){name}{_BRACKETS}{_BRACKETS}", text) if match[1] != rows]
        swizzled = [(match.span(2), f"({match[2]}) ^ (({match[1]}) & 31)") for match in uses]
        found.append((f"{name}: XOR", _with(text, swizzled)))
        found += [(f"{name}: XOR but one", _with(text, swizzled[:n] + swizzled[n + 1 :])) for n in range(len(swizzled))]
        declared = re.search(rf"\b{name}\[{rows}\]\[({columns})\]", text)
        if declared:
            found.append((f"{name}: padded", _with(text, [(declared.span(1), f"{columns} + 1")])))
    flat = list(re.finditer(r"(\(?\w+\)?) \* (32|W|ld) \+ (\w+|\([^()]*\))", text))
    swizzled = [(match.span(3), f"(({match[3]}) ^ (({match[1]}) & 31))") for match in flat]
    found += [(f"{match[0]}: XOR", _with(text, [edit])) for match, edit in zip(flat, swizzled, strict=True)]
    return [(what, changed) for what, changed in dict(found).items() if changed != text]


_BRACKETS = r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]"


def _with(text: str, edits: Sequence[tuple[tuple[int, int], str]]) -> str:
    """Return a text with spans replaced."""
    for (start, end), new in sorted(edits, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text
