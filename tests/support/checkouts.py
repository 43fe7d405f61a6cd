"""Git checkouts with a kernel, and clones of them as a runner makes them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT, text

TURN, DESCRIBED = text("repositories/turn.cu"), text("repositories/turn.toml")
WHO = ("-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True)
class Checkout:
    """A checkout of a repository of its own, with a branch ``main``."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> Checkout:
        """Return an empty one."""
        folder.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
        return cls(folder)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *WHO, *arguments], cwd=self.folder, check=True, capture_output=True)

    def write(self, source: str, described: str = DESCRIBED) -> None:
        """Write the kernel and its description."""
        (self.folder / "turn.cu").write_text(source, encoding="utf-8")
        (self.folder / "ncu-swizzle.toml").write_text(described, encoding="utf-8")

    def commit(self, source: str, described: str = DESCRIBED) -> None:
        self.write(source, described)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")

    def branch(self, name: str) -> None:
        self.git("checkout", "-q", "-b", name)

    def cloned(self, folder: Path, branch: str, source: str) -> Path:
        """Return a clone as actions/checkout makes it: one commit of a new branch with this source, no other branch."""
        self.branch(branch)
        self.write(source)
        self.git("commit", "-q", "-a", "--allow-empty", "-m", "the pull request")
        subprocess.run(
            ["git", "clone", "-q", "--depth=1", "--branch", branch, "--single-branch", self.folder.as_uri(), folder],
            check=True,
        )
        return folder

    @staticmethod
    def installed(temporary: Path) -> None:
        """Put a program where the action installs it: this one."""
        program = temporary / "ncu-swizzle" / "bin" / "ncu-swizzle"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ncu_swizzle "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)
