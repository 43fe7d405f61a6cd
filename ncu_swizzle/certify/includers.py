"""The files of a project that may include a changed one, and so the translation units to compare as well."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ncu_swizzle.kernels import git, halves, limits

# Which units read a file is the compiler's to say, which `units` asks; here is only who is worth asking. So nothing
# decides like a preprocessor. Whatever stands in quotes or angle brackets may be included, also in comments and in
# branches that are not taken; a name that is not beside its file means every file of that name; and an include that a
# macro names may mean any.

MOST_FILES = 100_000  # of any kind in the checkout
MOST_BYTES = 256 << 20  # of those that are read
LISTING_S = 60.0
_JOINT = re.compile(r"(?:\\|\?\?/)[ \t\v\f]*\n")  # only some compilers read a trigraph, or allow for spaces
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_NAMED = re.compile(r'(?="([^"\n]*)"|<([^<>\n]*)>)')  # from any mark on, as one may be an odd one
_COMPUTED = re.compile(
    r"(?:#|%:|\?\?=)[ \t\v\f\0]*(?:include_next|include|import|embed)(?![A-Za-z0-9_$])[ \t\v\f\0]*"
    r"(?:[A-Za-z_$\x80-\U0010ffff]|\\[uU])"
)


@dataclass(frozen=True)
class Included:
    """What a file may include: names, with whether they are in quotes, and whether a macro names another file."""

    names: frozenset[tuple[str, bool]] = frozenset()
    computed: bool = False


@dataclass(eq=False)
class CheckoutFiles:
    """The files of a project, read once, from those that are compiled on: `units`, and what a compiler takes."""

    project: Path
    units: frozenset[Path] = frozenset()
    unknown: str = ""  # why not all of them are known
    computed: set[Path] = field(default_factory=set, init=False)  # files that include what a macro names

    def including(self, changed: Collection[Path]) -> set[Path]:
        """Return the files that lead to a changed one. Sets `unknown` and `computed`: there may be more."""
        seen = {*changed, *map(self._real, changed)}
        waiting = [*seen]
        while waiting:
            fresh = self._above.get(waiting.pop(), set()) - seen
            seen |= fresh
            waiting += fresh
        return seen - set(changed)

    @cached_property
    def _above(self) -> dict[Path, set[Path]]:
        """The files that may include each file."""
        named: dict[str, list[Path]] = {}
        for file in self.files:
            named.setdefault(_folded(file.name), []).append(file)
        above: dict[Path, set[Path]] = {}
        seen = {file for file in self.files if file in self.units or halves.is_compiled(file)}
        waiting, left = [*seen], MOST_BYTES
        while waiting and not self.unknown:
            file = waiting.pop()
            text = _text(file)
            if (left := left - len(text)) < 0:
                self.unknown = f"the sources of {self.project} have more than {MOST_BYTES >> 20} MiB"
            content = included(text)
            if content.computed:
                self.computed.add(file)
            targets = {header for name, beside in content.names for header in _meant(name, beside, file, named)}
            targets |= {self._real(file)} if file.is_symlink() else set()
            for header in targets:
                above.setdefault(header, set()).add(file)
            waiting += targets - seen
            seen |= targets
        return above

    def _real(self, file: Path) -> Path:
        """Return the file that a path leads to through links, as it is listed."""
        return self.project / os.path.relpath(os.path.realpath(file), os.path.realpath(self.project))

    @cached_property
    def files(self) -> list[Path]:
        """The files of the checkout as git knows them, without those that it ignores; else all below it."""
        paths: list[Path] = []
        folders = [self.project]
        listed = git.files(self.project, LISTING_S) if (self.project / ".git").exists() else None
        if listed is not None:
            paths = [self.project / path for path in listed]
            folders = [path for path in paths if path.is_dir() and not path.is_symlink()]  # submodules
        for top in folders:
            for folder, inner, names in os.walk(top):
                inner[:] = [name for name in inner if name != ".git"]
                paths += [Path(folder, name) for name in names]
                if len(paths) > MOST_FILES:
                    break
        if len(paths) > MOST_FILES:
            self.unknown = f"{self.project} has more than {MOST_FILES:,} files"
        return paths


def _text(file: Path) -> str:
    try:
        if stat.S_ISREG(file.stat().st_mode):
            return file.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:  # it is gone, or who may not read it cannot compile it
        pass
    return ""


def _folded(name: str) -> str:
    """Return the last part of a name, in lower case: file systems of macOS and Windows ignore case."""
    return re.split(r"[/\\]", name.strip())[-1].casefold()


def _meant(name: str, beside: bool, file: Path, named: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the files of a checkout that an include in one of them may mean."""
    alike = named.get(_folded(name), [])
    found = limits.plain(file.parent / name) if alike else file
    if beside and ".." not in name and found in alike and found.name in name:
        yield found  # the compiler looks there first
    else:
        yield from alike


def included(text: str) -> Included:
    """Return what a text may include."""
    text = _JOINT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    skips = "include_next" in text  # what is beside its file
    names = {(beside or other, bool(beside) and not skips) for beside, other in _NAMED.findall(text)}
    # With comments and without, as what looks like the start of one may be within a string.
    return Included(frozenset(names), any(_COMPUTED.search(each) for each in (text, _COMMENT.sub(" ", text))))
