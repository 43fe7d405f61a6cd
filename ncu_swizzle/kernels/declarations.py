"""A preprocessed translation unit, split into its declarations, some of which can be left out.

The text is the preprocessor's output: no comments, no macro definitions, and markers ``# 12 "file.cu"`` that say where
the lines that follow come from. Nothing here knows types: a declaration ends where brackets and semicolons end it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

_MARKER = re.compile(r'^#(?:line)?[ \t]+(\d+)[ \t]+"((?:[^"\\\n]|\\.)*)"([ \t\d]*)$', re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<line>^[ \t]*\#[^\n]*)                                  # a marker or a pragma
    |R"(?P<mark>[^\s()\\]{0,16})\((?:.*?\)(?P=mark)"|.*+)         # a raw string
    |"(?:[^"\\\n]|\\.)*+"?+                                     # a string, to the line's end if nothing ends it
    |(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*+'?+                      # a character; not 1'000
    |(?P<open>[({\[]) | (?P<close>[)}\]]) | (?P<end>;)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b\s*(?P<name>[\w:]*)[^;=]*|extern\s*\"C(?:\+\+)?\"\s*", re.DOTALL)
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\b")
_DEVICE = re.compile(r"__attribute__\(\((?:device|global|constant|managed|shared)\)\)")
_GLOBAL = re.compile(r"__attribute__\(\(global\)\)")
_CALLED = re.compile(r"(?<!\w)(~?\w++)\s*+\(")
_GROUP = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\))*+\)"
_BOUNDS = re.compile(rf"__(?:attribute|launch_bounds)__\s*+{_GROUP}")
UNNAMED = ""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A declaration at namespace scope: its place in the text, the namespaces around it, and its head.

    The head is what stands before the body. An unnamed namespace's name is UNNAMED.
    """

    start: int
    end: int
    scope: tuple[str, ...]
    head: str
    has_body: bool

    @cached_property
    def is_kernel(self) -> bool:
        """Whether it declares a ``__global__`` function."""
        return _GLOBAL.search(self.head) is not None and self.name != ""

    @cached_property
    def is_host_function(self) -> bool:
        """Whether it defines a function that no device code can call."""
        head = self.head
        kept = _DEVICE.search(head) or re.search(r"\bconstexpr\b|\bconsteval\b|\boperator\b", head)
        return self.has_body and not kept and not _TYPE.search(_without_groups(head)) and ")" in head

    @cached_property
    def name(self) -> str:
        """The name of the function that it declares; "" without parameters."""
        match = _CALLED.search(_BOUNDS.sub(" ", _without_template(self.head)).partition("=")[0])
        return match[1] if match else ""

    @property
    def parameters(self) -> str:
        """The text of a function's parameters."""
        head = _BOUNDS.sub(" ", _without_template(self.head))
        match = _CALLED.search(head)
        return head[match.end() : head.rfind(")")] if match else ""

    @property
    def is_template(self) -> bool:
        """Whether it is a template with parameters, not one of its instances or specializations."""
        return re.match(r"\s*template\s*<\s*[^>\s]", self.head) is not None

    @property
    def template_parameters(self) -> list[str]:
        """The template's parameters as they are declared."""
        match = re.match(r"\s*template\s*<", self.head)
        if match is None:
            return []
        inner = self.head[match.end() : closing_angle(self.head, match.end())]
        return [part for part in (" ".join(argument.split()) for argument in split_arguments(inner)) if part]


def _without_template(head: str) -> str:
    match = re.match(r"\s*template\s*<", head)
    return head[closing_angle(head, match.end()) + 1 :] if match else head


def _without_groups(head: str) -> str:
    """Return a head without what is in brackets, and without its template's parameters."""
    text = _without_template(head)
    while (fewer := re.sub(r"\([^()]*\)|<[^<>]*>", " ", text)) != text:
        text = fewer
    return text


def closing_angle(text: str, start: int) -> int:
    """Return the index of the ``>`` that closes a ``<`` just before `start`; the end of the text without one."""
    depth, rounds = 1, 0
    for index in range(start, len(text)):
        letter = text[index]
        if letter in "([{":
            rounds += 1
        elif letter in ")]}":
            rounds -= 1
        elif rounds == 0 and letter == "<":
            depth += 1
        elif rounds == 0 and letter == ">" and text[index - 1] != "-":
            depth -= 1
            if depth == 0:
                return index
    return len(text)


def split_arguments(text: str) -> list[str]:
    """Return arguments, split at the commas outside of all brackets, ``<>`` too."""
    parts, start, depth = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and text[index - 1 : index] != "-"):
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


@dataclass(frozen=True)
class _Region:
    """Consecutive lines of one file: where they start in the text, the number of the first, and whose they are."""

    start: int
    file: str
    line: int
    foreign: bool


class PreprocessedUnit:
    """The preprocessor's output, with its declarations and the lines that they come from."""

    def __init__(self, text: str, is_own: Callable[[str], bool] = lambda file: True) -> None:
        """Split the text; `is_own` says whether declarations of a file count."""
        self.text = text
        self._regions = [
            _Region(match.end() + 1, match[2], int(match[1]), "3" in match[3].split() or not is_own(match[2]))
            for match in _MARKER.finditer(text)
        ]
        self._starts = [region.start for region in self._regions]

    @cached_property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations of the user's files, in order."""
        return tuple(each for each in _declarations(self.text) if not self.is_foreign(each))

    def place(self, offset: int) -> tuple[str, int]:
        """Return the file and the line that a character comes from."""
        number = bisect_right(self._starts, offset) - 1
        if number < 0:
            return "", 0
        region = self._regions[number]
        return region.file, region.line + self.text.count("\n", region.start, offset)

    def is_foreign(self, declaration: Declaration) -> bool:
        """Return whether a declaration comes from a header of the system or the toolkit."""
        number = bisect_right(self._starts, self.first_word(declaration)) - 1
        return number >= 0 and self._regions[number].foreign

    def first_word(self, declaration: Declaration) -> int:
        """Return the offset of a declaration's first word."""
        at = declaration.start
        while at < declaration.end:
            match = re.compile(r"\s+|^#[^\n]*", re.MULTILINE).match(self.text, at)
            if match is None or match.end() == at:
                break
            at = match.end()
        return at

    def offsets(self, file: str, line: int) -> list[int]:
        """Return where a file's line is in the text: nowhere, once, or as often as the file was included."""
        starts = []
        for number, region in enumerate(self._regions):
            if region.file != file or region.line > line:
                continue
            end = self._regions[number + 1].start if number + 1 < len(self._regions) else len(self.text)
            at = region.start
            for _ in range(line - region.line):
                at = self.text.find("\n", at, end) + 1
                if at == 0:
                    break
            if at and at < end:
                starts.append(at)
        return starts

    def covering(self, file: str, line: int) -> list[Declaration]:
        """Return the declarations that a file's line is a part of."""
        spans = [(at, self.text.find("\n", at) % (len(self.text) + 1)) for at in self.offsets(file, line)]
        return [
            each for each in self.declarations for at, end in spans if self.first_word(each) <= end and each.end > at
        ]

    def without(self, left_out: Collection[Declaration]) -> str:
        """Return the text without some declarations; all lines keep their numbers."""
        parts, at = [], 0
        for each in sorted(left_out, key=lambda each: each.start):
            if each.start < at:
                continue
            parts.append(self.text[at : each.start])
            lines = self.text[each.start : each.end].split("\n")
            parts.append("\n".join(line if line.lstrip().startswith("#") else "" for line in lines))
            at = each.end
        return "".join([*parts, self.text[at:]])


def _declarations(text: str) -> Iterator[Declaration]:
    """Yield the declarations of a text, at namespace scope, in order."""
    scopes: list[tuple[str, ...]] = []  # of the open namespaces
    start, depth, body = 0, 0, -1

    def declaration(end: int) -> Declaration:
        scope = tuple(name for names in scopes for name in names)
        head = _without_markers(text[start : body if body >= 0 else end])
        return Declaration(start=start, end=end, scope=scope, head=head, has_body=body >= 0)

    for token in _TOKEN.finditer(text):
        if token["open"]:
            if depth == 0 and token["open"] == "{":
                head = _without_markers(text[start : token.start()])
                if match := _NAMESPACE.fullmatch(head):
                    names = (match["name"] or "").split("::") if head.startswith(("namespace", "inline")) else []
                    scopes.append(tuple(names))
                    start, body = token.end(), -1
                    continue
                if body < 0:
                    body = token.start()
            depth += 1
        elif token["close"]:
            if depth == 0:
                if token["close"] == "}" and scopes:  # a namespace ends
                    scopes.pop()
                    start, body = token.end(), -1
                continue
            depth -= 1
            if depth == 0 and token["close"] == "}" and _ends_here(text, start, body, token.end()):
                yield declaration(token.end())
                start, body = token.end(), -1
        elif token["end"] and depth == 0:
            yield declaration(token.end())
            start, body = token.end(), -1


def _without_markers(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#")).strip()


def _ends_here(text: str, start: int, body: int, end: int) -> bool:
    """Return whether a closing brace ends a declaration: a function's does, a class's or an initializer's does not."""
    following = re.compile(r"\s*(?:^#[^\n]*\s*)*(.?)", re.MULTILINE).match(text, end)
    if following and following[1] in (";", ",", "{"):
        return False
    head = _without_template(text[start:body])
    bare = _without_groups(head)
    is_function = ")" in head and not re.search(r"(?<![=!<>])=(?!=)", re.sub(r"operator\s*\S+", "", bare))
    return is_function or not (_TYPE.search(bare) or "=" in bare)
