"""What project files may ask for without --trust: nvcc options on a list, and files of their own checkout.

Linting a checkout that one does not trust must not run its programs, or read and show what lies beside it.
docs/security.md has the whole of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncu_swizzle.catalog import nvcc_allowed, nvcc_options
from ncu_swizzle.catalog.nvcc_options import HEADER
from ncu_swizzle.errors import Untrusted, UsageError

GIT = ".git"
TRUST = "trust=True"  # the hint to callers from Python; commands replace it by the command to type


@dataclass(frozen=True)
class Checkout:
    """The checkout of a project file in `folder`, and whether the user trusts it."""

    folder: Path
    trusted: bool = False

    @cached_property
    def root(self) -> Path:
        """The checkout: the nearest folder with a .git, unless the home folder is in it; else the file's folder."""
        folder, home = _real(self.folder), _real(Path.home())
        for parent in (folder, *folder.parents):
            if home.is_relative_to(parent):
                break
            if (parent / GIT).exists():
                return parent
        return folder

    def path(self, text: str, origin: str) -> Path:
        """Return the path that a project file names; raise Untrusted if it leads out of the checkout."""
        if "\0" in text:
            raise UsageError(f"{origin}: {text!r} is not a path", "leave out the NUL character")
        path = self.folder / text
        if not self.trusted and not self.holds(path):
            raise Untrusted(f"{origin}: {text} needs your trust: it is outside {self.root}", TRUST)
        return path

    def holds(self, path: Path) -> bool:
        """Return whether the path, with all links followed, is in the checkout."""
        return _real(path).is_relative_to(self.root)

    def options(self, words: Sequence[str], origin: str) -> tuple[str, ...]:
        """Return nvcc's options, each in one word; raise Untrusted for one that is not on the list."""
        try:
            nvcc_options.refuse_shell(words)
        except UsageError as error:
            raise UsageError(f"{origin}: {error}", error.hint) from error
        if self.trusted:
            return tuple(words)
        options = tuple(nvcc_allowed.in_one_word(words))
        for option in options:
            header = option.removeprefix(HEADER) if option.startswith(HEADER) else ""
            if not nvcc_allowed.is_allowed(option) or (header.startswith("/") and not self.holds(Path(header))):
                what = "not among the options that a project file may pass to nvcc"
                raise Untrusted(f"{origin}: {option} needs your trust: it is {what}", TRUST)
        return options


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
