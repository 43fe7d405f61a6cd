"""The commits of a repository, by name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ncu_swizzle.build import git
from ncu_swizzle.errors import EnvironmentLacking, UsageError

TIMEOUT_S = 120.0


def root_of(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in.

    Raises UsageError outside of one, EnvironmentLacking without git.
    """
    if not shutil.which("git"):
        raise EnvironmentLacking("git is not installed", "apt-get install git")
    if not (top := git.top(folder)):
        raise UsageError(f"{folder} is not in a git repository", "cd to the repository of the kernel")
    return Path(os.path.realpath(top))


def find(root: Path, name: str) -> str:
    """Return a commit's full name by anything that names it; raise UsageError."""
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").decode().strip()
    if not found:
        raise UsageError(f"git knows no commit {name!r}", "git log shows the commits")
    return found


def time_of(root: Path, commit: str) -> str:
    """Return when a commit was made, in ISO 8601; empty if git does not say."""
    return _git(root, "log", "--no-walk", "--format=%cI", commit).decode(errors="replace").strip()


def _git(folder: Path, *arguments: str) -> bytes:
    return git.said(folder, *arguments, timeout_s=TIMEOUT_S)
