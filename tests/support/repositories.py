"""Repositories of a known history: a kernel in PTX, which is quick to assemble, and a commit with a conflict."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.places import text

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
