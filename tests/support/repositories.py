"""Git repositories of a known history, clones as a runner makes them, and ones written object by object."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.support.marks import executable
from tests.support.places import ROOT, text

STRIDE = {False: 2, True: 7}  # the shift of a lane's address: 4 bytes, without conflicts; 128, 32 ways
KERNEL, PROJECT = text("repositories/turn.ptx"), text("repositories/ncu-swizzle.toml")
EXCESSIVE = 2 * 31  # of a store and a load, 32 ways each


def git(folder: Path, *words: str, date: str = "2026-03-01T12:00:00Z") -> str:
    """Run git as a user without any configuration of their own; commits are made at `date`."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **who, **nothing, "GIT_COMMITTER_DATE": date},
    ).stdout


def repository(folder: Path, commits: int, planted: int | None, broken: tuple[int, ...] = ()) -> list[str]:
    """Make a repository, return its commits; number `planted` brings the conflict, `broken` do not compile."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "ncu-swizzle.toml").write_text(PROJECT, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    names = []
    for number in range(commits):
        source = KERNEL.format(remark=f"commit {number}", shift=STRIDE[planted is not None and number >= planted])
        source = source.replace("ret;", "no such instruction;") if number in broken else source
        (folder / "kernels" / "turn.ptx").write_text(source, encoding="utf-8")
        (folder / "README").write_text(f"{number}\n", encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Change {number}", date=f"2026-03-01T12:{number:02}:00Z")
        names.append(git(folder, "rev-parse", "HEAD").strip())
    return names


TURN, DESCRIBED = text("repositories/turn.cu"), text("repositories/turn.toml")


def pull_request(folder: Path, before: str, after: str) -> Path:
    """Return a clone as actions/checkout makes it: the only commit of a branch, after one of ``main``, of a kernel."""
    origin = folder / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "ncu-swizzle.toml").write_text(DESCRIBED, encoding="utf-8")
    for source in (before, after):
        (origin / "turn.cu").write_text(source, encoding="utf-8")
        git(origin, "add", "-A")
        git(origin, "commit", "-q", "-m", "a change")
        git(origin, "checkout", "-q", "-B", "topic")  # where the second commit goes
    git(folder, "clone", "-q", "--depth=1", "--branch", "topic", "--single-branch", origin.as_uri(), "clone")
    return folder / "clone"


def install(temporary: Path) -> Path:
    """Put a program where the action installs it, and return it: this ncu-swizzle."""
    program = temporary / "ncu-swizzle" / "bin" / "ncu-swizzle"
    return executable(program, f'PYTHONPATH={ROOT} exec {sys.executable} -m ncu_swizzle "$@"')


FILE, LINK, FOLDER, SUBMODULE = "100644", "120000", "40000", "160000"
Entry = tuple[str, bytes, str]


class Hostile:
    """A repository that is written object by object: git itself refuses many of these trees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")

    def put(self, kind: str, content: bytes) -> str:
        whole = b"%s %d\0" % (kind.encode(), len(content)) + content
        name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self.folder / ".git" / "objects" / name[:2] / name[2:]
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zlib.compress(whole))
        return name

    def blob(self, content: bytes = b"written by a stranger\n") -> str:
        return self.put("blob", content)

    def tree(self, *entries: Entry) -> str:
        return self.put("tree", b"".join(b"%s %s\0" % (m.encode(), n) + bytes.fromhex(o) for m, n, o in entries))

    def commit(self, tree: str, branch: str = "main", parents: Sequence[str] = ()) -> str:
        above = "".join(f"parent {parent}\n" for parent in parents)
        who = "A <a@b> 1767225600 +0000"
        name = self.put("commit", f"tree {tree}\n{above}author {who}\ncommitter {who}\n\nx\n".encode())
        (self.folder / ".git" / "refs" / "heads" / branch).write_text(f"{name}\n")
        return name
