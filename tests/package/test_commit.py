"""From which commit a profile's sources are."""

import os
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.kernels.git import commit_of


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **who}).stdout.strip()


def test_a_checkout_has_one_and_the_files_in_question_make_it_dirty(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    a, b, other = kernels / "a.cu", kernels / "b\n\u00e4.cu", tmp_path / "other.txt"
    kernels.mkdir()
    for file in (a, b, other):
        file.write_text("one\ntwo\n", encoding="utf-8")
    (kernels / "link").symlink_to("a.cu")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    git(tmp_path, "tag", "-am", "A release", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert commit_of(tmp_path) == head, "a commit, not a tag"
    other.write_text("two", encoding="utf-8")
    (kernels / "new.cu").write_text("untracked", encoding="utf-8")
    a.write_bytes(b"one\r\ntwo\r\n")  # as git checks it out elsewhere
    assert commit_of(kernels) == head
    assert commit_of(kernels, [other]) == f"{head}-dirty"
    b.write_text("two", encoding="utf-8")
    assert commit_of(kernels, [a]) == head
    assert commit_of(kernels) == f"{head}-dirty"
    b.unlink()
    assert commit_of(tmp_path) == f"{head}-dirty"


def test_elsewhere_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(tmp_path) == ""
