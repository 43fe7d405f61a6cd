"""From which commit a profile's sources are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.kernels.git import commit_of


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **who},
    )
    return done.stdout.strip()


def test_a_checkout_has_one_and_says_when_files_differ(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "kernel.cu").write_text("one", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    git(tmp_path, "tag", "-am", "A release", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == head[:12], "a commit, not a tag"
    (tmp_path / "kernel.cu").write_text("two", encoding="utf-8")
    assert commit_of(tmp_path) == f"{head[:12]}-dirty"


def test_only_the_files_in_question_make_it_dirty(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "kernels").mkdir()
    for name in ("kernels/a.cu", "kernels/b\n\u00e4.cu", "other.txt"):
        (tmp_path / name).write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "kernels" / "link").symlink_to("a.cu")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    (tmp_path / "other.txt").write_text("two", encoding="utf-8")
    (tmp_path / "kernels" / "new.cu").write_text("untracked", encoding="utf-8")
    (tmp_path / "kernels" / "a.cu").write_bytes(b"one\r\ntwo\r\n")  # as git checks it out elsewhere
    assert commit_of(tmp_path / "kernels") == head
    assert commit_of(tmp_path / "kernels", [tmp_path / "other.txt"]) == f"{head}-dirty"
    (tmp_path / "kernels" / "b\n\u00e4.cu").write_text("two", encoding="utf-8")
    assert commit_of(tmp_path / "kernels", [tmp_path / "kernels" / "a.cu"]) == head
    assert commit_of(tmp_path / "kernels") == f"{head}-dirty"
    (tmp_path / "kernels" / "b\n\u00e4.cu").unlink()
    assert commit_of(tmp_path) == f"{head}-dirty"


def test_elsewhere_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) == ""
