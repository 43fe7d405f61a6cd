"""The files of a project that may include a changed one: which of its translation units are to be compared, too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from ncu_swizzle.kernels import git, limits

# Which files of a checkout lead to a file by ``#include``: a patch of it would be one of them, too.
#
# How they are compiled is not known: with which ``-I``, as what language, or at all. So nothing here decides like a
# preprocessor, which `units` asks later. What may be an include is one, also in comments, strings and branches that are
# not taken; a name that is not beside its file means every file of that name; and an include that a macro names may
# mean any file.

MOST_FILES = 100_000  # of any kind in the checkout
MOST_BYTES = 256 << 20  # of those that are read
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
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_DIRECTIVE = re.compile(
    r"""
    (?:\#|%:|\?\?=) [ \t\v\f\0]* (?P<word> include_next|include|import|embed ) (?![A-Za-z0-9_$]) [ \t\v\f\0]*
    (?: "(?P<beside>[^"\n]*)" | <(?P<other>[^<>\n]*)> | (?P<macro>[A-Za-z_$\x80-\U0010ffff]|\\[uU]) )
    """,
    re.VERBOSE,
)
_FIRST = re.compile(r"(?:.*\*/)?\s*")  # what may come before a directive in its line


@dataclass(frozen=True)
class Included:
    """What a file may include: names, with whether they are in quotes, and the first line that leaves it to a macro."""

    names: frozenset[tuple[str, bool]] = frozenset()
    computed: str = ""


@dataclass(eq=False)
class CheckoutFiles:
    """The files of a project, read once."""

    project: Path
    unknown: str = ""  # why not all of them are known
    computed: dict[Path, str] = field(default_factory=dict, init=False)  # files with such an include, and its line
    _left: int = field(default_factory=lambda: MOST_BYTES, init=False)

    def including(self, changed: Collection[Path], own: Collection[Path] = ()) -> list[Path]:
        """Return the files that lead to a changed one, but for the source's `own`: itself, and headers that it has.

        What else may be compiled by itself is not a header. Sets `unknown` and `computed` if there may be more.
        """
        seen = {*changed, *map(self._real, changed)}
        waiting = list(seen)
        while waiting:
            fresh = self._above.get(waiting.pop(), set()) - seen
            seen |= fresh
            waiting += fresh
        return sorted(seen - {*own, *map(self._real, own)})

    @property
    def unclear(self) -> str:
        """Why there may be more that leads to a file than `including` returned; empty if there is not."""
        for file, line in self.computed.items():
            path = os.path.relpath(file, self.project)
            return self.unknown or f"{path} has {line!r}, and what that names is not followed"
        return self.unknown

    @cached_property
    def _above(self) -> dict[Path, set[Path]]:
        """The files that may include each file."""
        files = self.files
        named: dict[str, list[Path]] = {}
        for file in files:
            named.setdefault(_folded(file.name), []).append(file)
        above: dict[Path, set[Path]] = {}
        computed: dict[Path, str] = {}
        waiting = [file for file in files if kind(file) not in OTHERS]
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
        compiled = UNITS | HEADERS
        self.computed = {file: line for file, line in computed.items() if file in above or kind(file) in compiled}
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

    @cached_property
    def files(self) -> list[Path]:
        """The files of the checkout as git knows them, without those that it ignores; else all below it."""
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


def kind(file: Path) -> str:
    """Return what a file's suffix says, in small letters; of ``a.cu.in`` that of ``a.cu``."""
    path = PurePosixPath(file.name.lower() if not file.name.endswith("~") else "x.bak")
    while path.suffix in TEMPLATES and PurePosixPath(path.stem).suffix:
        path = PurePosixPath(path.stem)
    return path.suffix


def _folded(name: str) -> str:
    return name.casefold()  # file systems of macOS and Windows, where sources are written too


def _meant(name: str, beside: bool, file: Path, named: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the files of a checkout that an include in one of them may mean."""
    found = limits.plain(file.parent / name) if "\0" not in name else file
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
    names = set[tuple[str, bool]]()
    computed = ""
    # With comments and without, as what looks like the start of one may be within a string.
    for each in dict.fromkeys((*texts, *(_COMMENT.sub(" ", joined) for joined in texts))):
        checked = -1  # the line whose first macro was looked at: a directive is the first in its line
        for found in _DIRECTIVE.finditer(each):
            if found["macro"] is None:
                beside = found["beside"] is not None and found["word"] != "include_next"
                names.add((found["beside"] or found["other"] or "", beside))
            elif not computed and (start := each.rfind("\n", 0, found.start()) + 1) != checked:
                checked = start
                if _FIRST.fullmatch(each, start, found.start()):
                    computed = " ".join(each[found.start() : found.start() + 80].partition("\n")[0].split())
    return Included(frozenset(names), computed)
