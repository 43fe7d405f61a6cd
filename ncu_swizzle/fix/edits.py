"""Sources with other texts: edits by byte range, headers spliced in and taken out again, and copies to compile.

A source and the headers that it includes are one text, each header in its place. Two pragmas mark where a header begins
and ends. The first one keeps its path from the source's folder and the line that included it, so that the text alone
says what its files are, whatever is edited between the marks.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin.lines import is_library
from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.kernels import limits, project
from ncu_swizzle.kernels.family import Family, Target

# Edits of a text by byte range, and what they look like as a patch.


@dataclass(frozen=True, order=True)
class Edit:
    """The bytes from `start` to `end` are replaced; both are equal if something is inserted."""

    start: int
    end: int
    text: str


class Overlap(ValueError):
    """Two different edits of the same bytes."""


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text with all edits made; raise Overlap if two of them overlap."""
    parts, reached = [], 0
    for edit in sorted(set(edits)):
        if edit.start < reached:
            raise Overlap(f"two edits of byte {edit.start}")
        parts += [text[reached : edit.start], edit.text.encode("utf-8", "surrogateescape")]
        reached = edit.end
    return b"".join([*parts, text[reached:]])


def called(name: str, node: Node) -> list[Edit]:
    """Return the edits that make an expression the argument of a function."""
    return [Edit(node.start_byte, node.start_byte, f"{name}("), Edit(node.end_byte, node.end_byte, ")")]


def composition(start: int, end: int, prefix: str, swizzle: object) -> tuple[Edit, Edit]:
    """Return the edits that compose the layout between two bytes with a swizzle; `prefix` qualifies CuTe's names."""
    return Edit(start, start, f"{prefix}composition({prefix}{swizzle}{{}}, "), Edit(end, end, ")")


def line_end(text: bytes, at: int) -> str:
    """Return the line ending at a byte; for the last line, that of the line before."""
    end = text.find(b"\n", at)
    end = end if end >= 0 else text.rfind(b"\n")
    return "\r\n" if text[max(0, end - 1) : end] == b"\r" else "\n"


def unified(before: bytes, after: bytes, name: str) -> str:
    """Return the difference as a patch that ``git apply`` and ``patch -p1`` take."""
    old, new = (text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(_split(old), _split(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(lines: list[str]) -> list[str]:
    """Return lines as ``\\n`` ends them: a form feed within a line is part of it."""
    return "".join(lines).replace("\n", "\n\0").removesuffix("\0").split("\0") if lines else []


BEGIN, END, OPEN = b"#pragma ncu_swizzle_begin ", b"#pragma ncu_swizzle_end", b"#pragma ncu_swizzle_end open"
HOLDERS = (
    "translation_unit", "declaration_list", "compound_statement", "linkage_specification",
    "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif",
)  # fmt: skip

Find = Callable[[str, bool, Path], "Path | None"]  # by the name in a file's #include, and whether it is in quotes


def splice(source: Path, text: bytes, find: Find, read: Callable[[Path], bytes]) -> bytes:
    """Return a source with the headers that `find` knows in their places, each where it is included first.

    Where it is included again the line stays: what is compiled are the files, and it reads the edited one.
    """
    headers: set[Path] = set()

    def spliced(file: Path, text: bytes) -> bytes:
        parts, reached = [], 0
        for node in _includes(text, file.name):
            start = text.rfind(b"\n", 0, node.start_byte) + 1
            end = text.find(b"\n", start) + 1 or len(text)
            line, written = text[start:end], node.part("path").text
            plain = line.lstrip().startswith(b"#") and b"/*" not in line and not line.rstrip().endswith(b"\\")
            header = find(written[1:-1], written[0] == '"', file) if plain and written[:1] in ('"', "<") else None
            if header is not None and header not in headers:
                headers.add(header)
                parts += [text[reached:start], placed(header, line)]
                reached = end
        return b"".join([*parts, text[reached:]])

    def placed(header: Path, line: bytes) -> bytes:
        text = read(header)
        ended = not text or text.endswith(b"\n")
        kept = (os.fsencode(os.path.relpath(header, source.parent)) + b"\0" + line).hex().encode()
        inner = spliced(header, text)
        return b"".join([BEGIN, kept, b"\n", inner, b"" if ended else b"\n", END if ended else OPEN, b"\n"])

    whole = spliced(source, text)
    return whole if whole.count(BEGIN) == len(headers) else text  # else a file contains such a pragma itself


def parted(source: Path, text: bytes) -> dict[Path, bytes]:
    """Return the files of a text, the source first; it may have been edited."""
    parts: dict[Path, list[bytes]] = {source: []}
    for file, line, _ in _lines(source, text):
        parts.setdefault(file, []).append(line)
    return {file: b"".join(lines) for file, lines in parts.items()}


@lru_cache(2)
def places(source: Path, text: bytes) -> tuple[tuple[Path, int], ...]:
    """Return for each line of the text the file that it is in, and its number there."""
    count: Counter[Path] = Counter()
    locations: list[tuple[Path, int]] = []
    for file, _, own in _lines(source, text, marks=True):
        count[file] += own
        locations.append((file, count[file]))
    return tuple(locations)


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
        if node.parent.type in HOLDERS:
            yield node


# The user's own headers: those of a kernel's project, which a fix rewrites together with its source.

LARGEST = 1 << 18  # bytes; a larger header holds tables


def project_of(
    source: Path, config: str = "", trust: bool = False, within: Callable[[Path], bool] = lambda folder: True
) -> Path:
    """Return the folder of the project that a source belongs to: its checkout's, or that of its settings."""
    source = limits.plain(source)
    above = itertools.takewhile(within, source.parents)
    checkout = next((folder for folder in above if (folder / ".git").exists()), None)
    if checkout is not None:
        return checkout
    with contextlib.suppress(NcuSwizzleError):
        settings = project.project_file(config, source.parent, trust)
        folder = limits.plain(settings.file).parent if settings else source.parent
        return folder if source.is_relative_to(folder) and within(folder) else source.parent
    return source.parent


def with_headers(target: Target, folder: Path) -> Target:
    """Return a target whose sources' paths are relative to a folder that holds its own headers, too."""
    family = target.family
    root = limits.plain(family.root)
    outside = [file.parent for file in map(Path, family.included()) if _is_own(file, folder, family)]
    outside = [parent for parent in outside if not parent.is_relative_to(root)]
    if not outside:
        return target
    top = Path(os.path.commonpath([root, *outside]))
    plain = limits.plain(family.folder)  # it is compared with the top
    return replace(target, family=replace(family, folder=plain, top=str(top)))


def source_of(target: Target) -> bytes:
    """Return the text of a target's source with its own headers in their places."""
    family, source = target.family, limits.plain(target.source)
    inherited = limits.folders(())  # which a copy of the sources would not change
    root, folders = limits.plain(family.root), [f for f in family.search_folders() if f not in inherited]

    def find(name: str, beside: bool, file: Path) -> Path | None:
        header = limits.included_file(name, beside, file, folders)
        return header if header is not None and _is_own(header, root, family) else None

    return splice(source, read_bytes(source), find, read_bytes)


def _is_own(file: Path, folder: Path, family: Family) -> bool:
    """Return whether a header lies in a folder, and is neither a library's, nor a link elsewhere, nor one of ours."""
    ours = paths.kernels() in file.parents and not family.shipped
    inside = folder in file.parents and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    return inside and not ours and not is_library(str(file)) and file.stat().st_size <= LARGEST


def files_of(target: Target, text: bytes) -> dict[Path, bytes]:
    """Return the files of a text: the target's source, and its own headers."""
    return parted(limits.plain(target.source), text)


@contextlib.contextmanager
def rebuilt(target: Target, text: bytes) -> Iterator[Target]:
    """Yield the target with `text` as its source and its own headers.

    It is compiled with the same options from the same relative paths.
    """
    family, root = target.family, limits.plain(target.family.root)
    with scratch() as folder:
        included = [Path(name) for name in family.included()]
        below = {file: file.read_bytes() for file in included if file.is_relative_to(root)}
        elsewhere = len(below) < len(set(included))
        for file, content in {**below, **files_of(target, text)}.items():
            copied = folder / file.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(content)
        # What is included by a path out of the folder is found where it was.
        options = [*_moved(family.options, root, folder), *([f"-I{family.folder.absolute()}"] if elsewhere else [])]
        kernels = tuple(replace(each, options=_moved(each.options, root, folder)) for each in family.kernels)
        copy = replace(
            family, folder=folder / limits.plain(family.folder).relative_to(root), options=tuple(options),
            kernels=kernels, top=str(folder) if family.top else "",
        )  # fmt: skip
        kernel = replace(target.kernel, options=_moved(target.kernel.options, root, folder))
        yield replace(target, family=copy, kernel=kernel)


def _moved(options: Sequence[str], root: Path, folder: Path) -> tuple[str, ...]:
    """Return options whose include folders below the root are those of the copy."""
    return tuple(_in_copy(option, root, folder) for option in options)


def _in_copy(option: str, root: Path, folder: Path) -> str:
    for form in limits.FOLDER_OPTIONS:
        named = limits.plain(Path(option.removeprefix(form)))
        if option.startswith(form) and named.is_relative_to(root):
            copied = folder / named.relative_to(root)
            copied.mkdir(parents=True, exist_ok=True)
            return f"{form}{copied}"
    return option
