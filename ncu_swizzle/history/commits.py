"""What git holds of a commit: its files, written to a folder.

The checkout may be anyone's, and its configuration can name programs that git runs for a working tree: hooks, filters.
So no working tree is made: files are written as git stores them. Links and submodules are left out.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.build.commit import OFFLINE, SAFELY
from ncu_swizzle.errors import EnvironmentLacking, ProgramFailed, UsageError
from ncu_swizzle.files import replace
from ncu_swizzle.texts import one_line

TIMEOUT_S = 120.0
REGULAR = (b"100644", b"100755")


@dataclass(frozen=True)
class Commit:
    """A commit: its full name, and the first line of its message."""

    name: str
    subject: str = ""

    @property
    def short(self) -> str:
        return self.name[:12]


def root_of(folder: Path) -> Path:
    """Return the top folder of the repository that a folder is in; raise UsageError outside of one."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top:
        raise UsageError(f"{folder} is not in a git repository", "cd to the repository of the kernel")
    return Path(os.path.realpath(os.fsdecode(top.rstrip(b"\n"))))


def find(root: Path, name: str) -> Commit:
    """Return a commit by anything that names it; raise UsageError."""
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").decode().strip()
    if not found:
        raise UsageError(f"git knows no commit {name!r}", "git log shows the commits")
    return _with_subjects(root, [found])[0]


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


def unpack(root: Path, commit: Commit, folder: Path) -> None:
    """Write the files of a commit below a folder. Raises ProgramFailed if git does not give them."""
    entries = []
    for entry in _git(root, "ls-tree", "-r", "-z", "--full-tree", commit.name).split(b"\0"):
        described, _, path = entry.partition(b"\t")
        mode, _, rest = described.partition(b" ")
        if mode in REGULAR:
            entries.append((os.fsdecode(path), rest.split(b" ")[1]))
    contents = _blobs(root, [blob for _, blob in entries])
    for (name, _), content in zip(entries, contents, strict=True):
        replace(folder / name, content, 0o600)


def _blobs(root: Path, names: list[bytes]) -> list[bytes]:
    """Return the contents of blobs, all in one call of git."""
    text = _git(root, "cat-file", "--batch", given=b"".join(name + b"\n" for name in names))
    found, at = [], 0
    for _ in names:
        head, _, _ = text[at:].partition(b"\n") if len(text) - at < 256 else text[at : at + 256].partition(b"\n")
        parts = head.split(b" ")
        if len(parts) != 3 or parts[1] != b"blob":
            raise ProgramFailed("git does not give the files of a commit", "git fsck says what is damaged")
        start = at + len(head) + 1
        found.append(text[start : start + int(parts[2])])
        at = start + int(parts[2]) + 1
    return found


def _git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return what git prints; nothing if it fails. Raises EnvironmentLacking if there is no git."""
    command = ["git", *SAFELY, "-C", str(folder), *arguments]
    environment = {**paths.tool_environment(), **OFFLINE}
    try:
        git = subprocess.run(command, input=given, capture_output=True, check=False, timeout=TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacking(f"git cannot be run: {error}", "apt-get install git") from error
    return git.stdout if git.returncode == 0 else b""
