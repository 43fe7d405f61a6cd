"""The commits of a repository: by name, and those between two."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.build import git
from ncu_swizzle.errors import EnvironmentLacking, UsageError
from ncu_swizzle.texts import one_line

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Commit:
    """A commit: its full name, and the first line of its message."""

    name: str
    subject: str = ""

    @property
    def short(self) -> str:
        return self.name[:12]


def root_of(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in.

    Raises UsageError outside of one, EnvironmentLacking without git.
    """
    if not shutil.which("git"):
        raise EnvironmentLacking("git is not installed", "apt-get install git")
    if not (top := git.top(folder)):
        raise UsageError(f"{folder} is not in a git repository", "cd to the repository of the kernel")
    return Path(os.path.realpath(top))


def find(root: Path, name: str) -> Commit:
    """Return a commit by anything that names it; raise UsageError."""
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").decode().strip()
    if not found:
        raise UsageError(f"git knows no commit {name!r}", "git log shows the commits")
    return _with_subjects(root, [found])[0]


def time_of(root: Path, commit: Commit) -> str:
    """Return when a commit was made, in ISO 8601; empty if git does not say."""
    return _git(root, "log", "--no-walk", "--format=%cI", commit.name).decode(errors="replace").strip()


def between(root: Path, good: Commit, bad: Commit) -> list[Commit]:
    """Return the commits after the good one up to the bad one, oldest first, merges as one commit each.

    Raises UsageError unless the good one is an ancestor.
    """
    names = _git(root, "rev-list", "--first-parent", "--reverse", f"{good.name}..{bad.name}").decode().split()
    older = _git(root, "merge-base", good.name, bad.name).decode().strip()
    if older != good.name or not names:
        raise UsageError(
            f"{good.short} is not an ancestor of {bad.short}", f"git merge-base {good.short} {bad.short} names one"
        )
    return _with_subjects(root, names)


def _with_subjects(root: Path, names: list[str]) -> list[Commit]:
    said = _git(root, "log", "--no-walk=unsorted", "--format=%H %s", *names).decode(errors="replace").splitlines()
    subjects = dict(line.partition(" ")[::2] for line in said)
    return [Commit(name, one_line(subjects.get(name, ""))) for name in names]


def _git(folder: Path, *arguments: str) -> bytes:
    return git.said(folder, *arguments, timeout_s=TIMEOUT_S)
