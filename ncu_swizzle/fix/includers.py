"""Which files of a checkout lead to a file by ``#include``: a patch of it must do for all of them.

How they are compiled is not known: with which ``-I``, as what language, or at all. So nothing here decides like a
preprocessor. What may be an include is one, also in comments, strings and branches that are not taken; a name that is
not beside its file means every file of that name; and an include that a macro names may mean any file.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from ncu_swizzle.build import git
from ncu_swizzle.catalog import includes

MOST_FILES = 100_000  # of any kind in the checkout
MOST_BYTES = 256 << 20  # of those that are read
MOST_COMMENTS = 100  # between # and include, and from there to the name
LONGEST_LINE = 10_000  # characters that are looked at
LISTING_S = 60.0


def _suffixes(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Compiled as they are, perhaps as CUDA, also if another file includes them.
UNITS = _suffixes(".c .c++ .cc .cl .cp .cpp .cppm .cu .cxx .hip .ixx .m .mm .mpp")
HEADERS = _suffixes(".cuh .def .h .h++ .hh .hpp .hxx .icc .ii .inc .inl .ipp .tcc .tpp .txx")
# Files that show or hold code, such as a README, count if a file that is compiled includes them.
OTHERS = _suffixes("""
    .7z .a .avif .bak .bat .bazel .bib .bin .bmp .bz2 .bzl .cff .cfg .cmake .conf .css .csv .cubin .diff .dll
    .dylib .eps .gif .gz .htm .html .ico .ini .ipynb .jpeg .jpg .js .json .launches .lock .log .md .mk .mp4
    .ncu-rep .ninja .npy .npz .o .onnx .orig .org .patch .pdf .pem .png .pt .pth .py .pyc .pyi .rej .rst
    .safetensors .sass .sh .so .sqlite .svg .swp .tar .tex .tiff .toml .ts .tsv .ttf .txt .webp .whl .woff .woff2
    .xml .xz .yaml .yml .zip .zst
""")
TEMPLATES = (".in", ".j2", ".jinja", ".template", ".tmpl", ".tpl")  # behind the suffix of what is made of them

# A line that goes on; only some compilers read a trigraph, or allow for spaces behind the backslash.
_JOINTS = tuple(re.compile(rf"{joint}\n") for joint in (r"\\", r"\\[ \t\v\f]*", r"(?:\\|\?\?/)[ \t\v\f]*"))
_HASH = re.compile(r"#|%:|\?\?=")
_SPACE = re.compile(r"[ \t\v\f\0]*")
_WORD = re.compile(r"(?:include_next|include|import|embed)(?![A-Za-z0-9_$])")
_MACRO = re.compile(r"[A-Za-z_$\x80-\U0010ffff]|\\[uU]")
_NAME = re.compile(r'"([^"\n]*)"|<([^>\n]*)>')
_FIRST = re.compile(r"(?:.*\*/)?\s*", re.DOTALL)  # what may come before # in its line


@dataclass(frozen=True)
class Included:
    """What a file may include: names, with whether they are in quotes, and the first line that leaves it to a macro."""

    names: frozenset[tuple[str, bool]] = frozenset()
    computed: str = ""


@dataclass(frozen=True)
class Includers:
    """What must be judged besides a source, or why that is not known; `reached` are also the headers on the way."""

    files: tuple[Path, ...] = ()
    unknown: str = ""
    reached: tuple[Path, ...] = ()


@dataclass(eq=False)
class Checkout:
    """The files of a project, read once."""

    project: Path
    unknown: str = ""  # why not all of them are known
    _left: int = field(default_factory=lambda: MOST_BYTES, init=False)

    def including(self, changed: Collection[Path], source: Path) -> Includers:
        """Return the files that are compiled, perhaps, with one of the changed ones, without the source itself."""
        above = self._above
        if self.unknown:
            return Includers(unknown=self.unknown)
        changed = {*changed, *map(self._real, changed)}
        reached = _reached(changed, above)
        # A file that another one includes is judged as part of that one. Those that only include each other are, too.
        own = reached - {source}
        tops = {file for file in own if _kind(file) in UNITS or not (above.get(file, set()) - {file}) & reached}
        tops -= {file for file in changed if _kind(file) not in UNITS}  # which the source includes
        covered = self._below({*tops, source}, reached) | set(changed)
        return Includers(tuple(sorted(tops | (own - covered))), reached=tuple(sorted(own - changed)))

    def _below(self, files: Iterable[Path], among: Collection[Path]) -> set[Path]:
        below: dict[Path, set[Path]] = {}
        for header in among:
            for file in self._above.get(header, ()):
                below.setdefault(file, set()).add(header)
        return _reached(files, below)

    @cached_property
    def _above(self) -> dict[Path, set[Path]]:
        """The files that may include each file."""
        files = self._files()
        named: dict[str, list[Path]] = {}
        for file in files:
            named.setdefault(_folded(file.name), []).append(file)
        above: dict[Path, set[Path]] = {}
        computed: dict[Path, str] = {}
        waiting = [file for file in files if _kind(file) not in OTHERS]
        seen = set(waiting)
        while waiting and not self.unknown:
            file = waiting.pop()
            content = self._read(file)
            if content.computed:
                computed[file] = content.computed
            found = {header for name, beside in content.names for header in _meant(name, beside, file, named)}
            if file.is_symlink():
                found.add(self._real(file))
            for header in found:
                above.setdefault(header, set()).add(file)
            fresh = {header for header in found if _folded(header.name) in named} - seen
            seen |= fresh
            waiting += fresh
        for file, line in computed.items():
            if not self.unknown and (file in above or _kind(file) in UNITS | HEADERS):
                path = os.path.relpath(file, self.project)
                self.unknown = f"{path} has {line!r}, and what that names is not followed"
        return above

    def _read(self, file: Path) -> Included:
        try:
            found = file.stat()
            if not stat.S_ISREG(found.st_mode):
                return Included()
            self._left -= found.st_size
            if self._left < 0:
                self.unknown = f"the sources of {self.project} have more than {MOST_BYTES >> 20} MiB"
                return Included()
            content = file.read_bytes()
        except OSError:  # it is gone, or who may not read it cannot compile it
            return Included()
        return included(content.decode("utf-8", "surrogateescape"))

    def _real(self, file: Path) -> Path:
        """Return the file that a path leads to through links, as it is listed."""
        return self.project / os.path.relpath(os.path.realpath(file), os.path.realpath(self.project))

    def _files(self) -> list[Path]:
        """Return the files of the checkout as git knows them, without those that it ignores; else all below."""
        found: list[Path] = []
        folders = [self.project]
        listed = git.files(self.project, LISTING_S) if (self.project / ".git").exists() else None
        if listed is not None:
            found = [self.project / path for path in listed]
            folders = [path for path in found if path.is_dir() and not path.is_symlink()]  # submodules
        for top in folders:
            for folder, inner, names in os.walk(top):
                inner[:] = [name for name in inner if name != ".git"]
                found += [Path(folder, name) for name in names]
                if len(found) > MOST_FILES:
                    break
        if len(found) > MOST_FILES:
            self.unknown = f"{self.project} has more than {MOST_FILES:,} files"
        return found


def _reached(files: Iterable[Path], onward: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return some files and all that lead on from them."""
    seen = set(files)
    waiting = list(seen)
    while waiting:
        fresh = set(onward.get(waiting.pop(), ())) - seen
        seen |= fresh
        waiting += fresh
    return seen


def _kind(file: Path) -> str:
    """Return what a file's suffix says, in small letters; of ``a.cu.in`` that of ``a.cu``."""
    path = PurePosixPath(file.name.lower() if not file.name.endswith("~") else "x.bak")
    while path.suffix in TEMPLATES and PurePosixPath(path.stem).suffix:
        path = PurePosixPath(path.stem)
    return path.suffix


def _folded(name: str) -> str:
    return name.casefold()  # file systems of macOS and Windows, where sources are written too


def _meant(name: str, beside: bool, file: Path, named: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the files of a checkout that an include in one of them may mean."""
    found = includes.plain(file.parent / name) if "\0" not in name else file
    if beside and ".." not in name and found in named.get(_folded(found.name), ()) and found.name == _last(name):
        yield found  # the compiler looks there first
    else:
        yield from named.get(_folded(_last(name)), ())


def _last(name: str) -> str:
    return re.split(r"[/\\]", name.strip())[-1]


def included(text: str) -> Included:
    """Return what a text may include."""
    if not any(word in text for word in ("include", "import", "embed", "\\", "??/")):
        return Included()
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    texts = dict.fromkeys((text, *(joint.sub("", text) for joint in _JOINTS)))
    found = [_included(each) for each in texts]
    return Included(
        frozenset().union(*(each.names for each in found)), next((each.computed for each in found if each.computed), "")
    )


def _included(text: str) -> Included:
    spaces = _Spaces(text)
    names = set[tuple[str, bool]]()
    computed = ""
    for hash_ in _HASH.finditer(text):
        at, long = spaces.end(hash_.end())
        word = _WORD.match(text, at)
        if word is None and not long:
            continue
        at, longer = spaces.end(word.end() if word else at)
        name = _NAME.match(text, at)
        if name is not None and word is not None:
            names.add((name[1] or name[2] or "", name[1] is not None and word[0] != "include_next"))
        macro = long or longer or (name is None and _MACRO.match(text, at))
        if macro and not computed and _is_first(text, hash_.start()):
            computed = " ".join(text[hash_.start() : hash_.start() + 80].split("\n", maxsplit=1)[0].split())
    return Included(frozenset(names), computed)


def _is_first(text: str, at: int) -> bool:
    """Return whether only spaces and comments come before a place in its line, perhaps."""
    earliest = max(0, at - LONGEST_LINE)
    start = text.rfind("\n", earliest, at) + 1
    return (earliest > start) or _FIRST.fullmatch(text, start, at) is not None


class _Spaces:
    """The spaces and comments of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [match.end() for match in re.finditer(r"\*/", text)]
        self._behind: dict[int, tuple[int, bool]] = {}  # a comment that ends there: many can start before one end

    def end(self, at: int) -> tuple[int, bool]:
        """Return where those that begin at a place end, and whether that is not known, as there are too many."""
        comment = self._comment(at)
        if comment not in self._behind:
            reached = comment
            for _ in range(MOST_COMMENTS):
                further = self._comment(reached)
                if further == reached:
                    break
                reached = further
            self._behind[comment] = reached, self._comment(reached) != reached
        return self._behind[comment]

    def _comment(self, at: int) -> int:
        """Return where the spaces at a place, and one comment behind them, end."""
        space = _SPACE.match(self._text, at)
        at = space.end() if space else at
        if not self._text.startswith("/*", at):
            return at
        number = bisect.bisect_left(self._ends, at + 4)
        return self._ends[number] if number < len(self._ends) else at
