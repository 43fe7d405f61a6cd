"""A source and the headers that it includes as one text, each header in its place, and the files of such a text again.

Two pragmas mark where a header begins and ends. The first one keeps its path from the source's folder and the line that
included it, so that the text alone says what its files are, whatever is edited between the marks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda

if TYPE_CHECKING:
    from tree_sitter import Node

BEGIN, END, OPEN = b"#pragma ncu_swizzle_begin ", b"#pragma ncu_swizzle_end", b"#pragma ncu_swizzle_end open"
HOLDERS = (
    "translation_unit", "declaration_list", "compound_statement", "linkage_specification",
    "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif",
)  # fmt: skip

Find = Callable[[str, bool, Path], "Path | None"]  # by the name in a file's #include, and whether it is in quotes


@dataclass(frozen=True)
class Spliced:
    """The text, and the headers that are left out of it: included more than once, and not the same each time."""

    text: bytes
    repeated: frozenset[Path] = frozenset()


@dataclass(eq=False, kw_only=True)
class _Splicing:
    """One attempt: the headers that have their place, and those that would need a second one."""

    source: Path
    find: Find
    read: Callable[[Path], bytes]
    left_out: frozenset[Path]
    guarded: dict[Path, bool] = field(default_factory=dict)
    again: set[Path] = field(default_factory=set)

    def text(self, file: Path, text: bytes) -> bytes:
        parts, reached = [], 0
        for node in _includes(text, file.name):
            start = text.rfind(b"\n", 0, node.start_byte) + 1
            end = text.find(b"\n", start) + 1 or len(text)
            header = self._header(node, text[start:end], file)
            if header is not None:
                parts += [text[reached:start], self._placed(header, text[start:end])]
                reached = end
        return b"".join([*parts, text[reached:]])

    def _header(self, node: Node, line: bytes, file: Path) -> Path | None:
        """Return the header whose text goes where a line is; None if the line stays."""
        name = cuda.field_of(node, "path")
        written = name.text.decode("utf-8", "surrogateescape") if name is not None and name.text is not None else ""
        plain = line.lstrip().startswith(b"#") and b"/*" not in line and not line.rstrip().endswith(b"\\")
        header = self.find(written[1:-1], written[0] == '"', file) if plain and written[:1] in ('"', "<") else None
        if header is None or header in self.left_out:
            return None
        if header in self.guarded:
            self.again |= set() if self.guarded[header] else {header}
            return None
        return header

    def _placed(self, header: Path, line: bytes) -> bytes:
        text = self.read(header)
        self.guarded[header] = _guarded(text, header.name)
        ended = not text or text.endswith(b"\n")
        path = os.path.relpath(header, self.source.parent)
        kept = (os.fsencode(path) + b"\0" + line).hex().encode()
        return b"".join([
            BEGIN, kept, b"\n", self.text(header, text), b"" if ended else b"\n", END if ended else OPEN, b"\n",
        ])  # fmt: skip


def splice(source: Path, text: bytes, find: Find, read: Callable[[Path], bytes]) -> Spliced:
    """Return a source with the headers that `find` knows in their places, each where it is included first."""
    left_out: frozenset[Path] = frozenset()
    while True:
        splicing = _Splicing(source=source, find=find, read=read, left_out=left_out)
        whole = splicing.text(source, text)
        if whole.count(BEGIN) != len(splicing.guarded):  # a file has such a pragma of its own
            return Spliced(text)
        if not splicing.again:
            return Spliced(whole, left_out)
        left_out |= splicing.again


def parted(source: Path, text: bytes) -> dict[Path, bytes]:
    """Return the files of a text, the source first; it may have been edited."""
    parts: dict[Path, list[bytes]] = {source: []}
    for file, line, _ in _lines(source, text):
        parts.setdefault(file, []).append(line)
    return {file: b"".join(lines) for file, lines in parts.items()}


def place(source: Path, text: bytes, line: int) -> tuple[Path, int]:
    """Return the file that a line of the text is in, and its number there."""
    numbers = (each for each in _lines(source, text, marks=True))
    count: dict[Path, int] = {}
    for number, (file, _, own) in enumerate(numbers, 1):
        count[file] = count.get(file, 0) + own
        if number == line:
            return file, count[file]
    return source, line


def _lines(source: Path, text: bytes, marks: bool = False) -> Iterator[tuple[Path, bytes, bool]]:
    """Yield the lines of all files, each with its file; with `marks` the ends of headers, too, which are in no file."""
    inside: list[Path] = [source]
    *lines, rest = text.split(b"\n")
    for number, line in enumerate(lines):
        if line.startswith(BEGIN):
            path, _, include = bytes.fromhex(line[len(BEGIN) :].decode()).partition(b"\0")
            yield inside[-1], include, True
            inside.append(Path(os.path.normpath(source.parent / os.fsdecode(path))))
        elif line.startswith(END):
            ended = inside.pop()
            if marks:
                yield ended, b"", False
        elif number + 1 < len(lines) and lines[number + 1].startswith(OPEN):
            yield inside[-1], line, True
        else:
            yield inside[-1], line + b"\n", True
    if rest:
        yield inside[-1], rest, True


def _includes(text: bytes, name: str) -> Iterator[Node]:
    if b"include" not in text:
        return
    for node in cuda.parse(text, name).nodes("preproc_include"):
        if node.parent is not None and node.parent.type in HOLDERS:
            yield node


def _guarded(text: bytes, name: str) -> bool:
    """Return whether a header is read only once: by ``#pragma once``, or because an ``#ifndef`` holds all of it."""
    file = cuda.parse(text, name)
    nodes = [node for node in file.root.named_children if node.type != "comment"]
    if any(node.type == "preproc_call" and file.of(node).split() == ["#pragma", "once"] for node in nodes):
        return True
    if len(nodes) != 1 or nodes[0].type != "preproc_ifdef" or not file.of(nodes[0]).startswith("#ifndef"):
        return False
    named, inner = cuda.field_of(nodes[0], "name"), nodes[0].named_children
    defined = next((node for node in inner if node.type == "preproc_def"), None)
    return (
        named is not None and defined is not None and file.of(named) == file.of(cuda.field_of(defined, "name") or named)
    )
