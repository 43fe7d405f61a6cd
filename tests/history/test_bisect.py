"""Bisecting real repositories, without a GPU."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import NotComparable, UsageError
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.history.bisect import BisectQuery, Counted, bisect
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import needs
from tests.support.repositories import EXCESSIVE, git, repository

pytestmark = needs("ptxas", "nvdisasm")


def query(folder: Path, good: str, bad: str, kernel: str = "turn") -> BisectQuery:
    return BisectQuery(good, bad, kernel, folder, Request())


def test_the_commit_is_found_and_the_working_tree_stays(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 9, planted=5)
    (tmp_path / "r" / "kernels" / "turn.ptx").write_text("edited, and not committed", encoding="utf-8")
    done = process.command("bisect", names[0], "HEAD", "turn", folder=tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"{names[5][:12]} Change 5\nbrought {EXCESSIVE} excessive wavefronts; {names[4][:12]} "
    )
    assert "of 9 commits were looked at" in done.stdout
    assert f"{names[0][:12]} 0 excessive wavefronts" in done.stderr
    assert git(tmp_path / "r", "status", "--short") == " M kernels/turn.ptx\n"
    assert git(tmp_path / "r", "worktree", "list").count("\n") == 1


@pytest.mark.slow
def test_one_of_fifty_commits_is_found_in_few_steps(tmp_path: Path) -> None:
    names = repository(tmp_path, 50, planted=33)
    found = bisect(query(tmp_path, names[0], names[-1]))
    assert (found.first.commit.name, found.before.commit.name) == (names[33], names[32])
    assert (found.first.excessive, found.before.excessive) == (EXCESSIVE, 0)
    assert len(found.looked_at) <= 2 + 6


@pytest.mark.slow
def test_no_commit_is_blamed_without_a_conflict(tmp_path: Path) -> None:
    """Twenty tries, in a history whose kernel changes with every commit and never conflicts."""
    names = repository(tmp_path, 50, planted=None)
    draw = random.Random(22)
    for _ in range(20):
        first, last = sorted(draw.sample(range(50), 2))
        with pytest.raises(UsageError, match="no commit brought a conflict"):
            bisect(query(tmp_path, names[first], names[last]))


@needs_fleet
@pytest.mark.slow
def test_workers_look_at_several_commits_at_a_time(tmp_path: Path) -> None:
    names = repository(tmp_path, 20, planted=7)
    seen: list[Counted] = []
    found = bisect(query(tmp_path, names[0], names[-1]), FleetOptions(workers="2"), on_counted=seen.append)
    assert found.first.commit.name == names[7]
    assert {counted.commit.name for counted in seen} == {counted.commit.name for counted in found.looked_at}


def test_commits_that_do_not_compile_are_passed_over(tmp_path: Path) -> None:
    names = repository(tmp_path, 9, planted=6, broken=(3, 4))
    found = bisect(query(tmp_path, names[0], names[-1]))
    assert (found.first.commit.name, found.before.commit.name) == (names[6], names[5])
    assert [counted.excessive for counted in found.looked_at].count(None) >= 1


def test_what_stays_open_is_said(tmp_path: Path) -> None:
    names = repository(tmp_path, 5, planted=3, broken=(2, 3))
    with pytest.raises(NotComparable, match=f"it was one of 3 commits, {names[2][:12]} to {names[4][:12]}"):
        bisect(query(tmp_path, names[0], names[-1]))


@pytest.mark.parametrize(
    ("good", "bad", "kernel", "status", "said"),
    [
        ("nonsense", "HEAD", "turn", 2, "git knows no commit 'nonsense'"),
        ("--output=x", "HEAD", "turn", 2, "--output"),
        ("HEAD", "HEAD~1", "turn", 2, "is not an ancestor of"),
        ("HEAD", "HEAD", "turn", 2, "is not an ancestor of"),
        ("HEAD~1", "HEAD", "missing", 5, "unknown kernel 'missing'"),
    ],
)
def test_mistakes_are_said(good: str, bad: str, kernel: str, status: int, said: str, tmp_path: Path) -> None:
    repository(tmp_path, 2, planted=None)
    done = process.command("bisect", good, bad, kernel, folder=tmp_path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_of_a_repository_nothing_is_bisected(tmp_path: Path) -> None:
    done = process.command("bisect", "a", "b", "turn", folder=tmp_path)
    assert (done.returncode, "is not in a git repository" in done.stderr) == (2, True)


def test_a_checkout_runs_nothing(tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 3, planted=2)
    ran = tmp_path / "ran"
    hook = tmp_path / "r" / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    hook.chmod(0o755)
    git(tmp_path / "r", "config", "filter.evil.smudge", f"touch {ran}; cat")
    git(tmp_path / "r", "config", "core.fsmonitor", f"touch {ran}")
    (tmp_path / "r" / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / "r" / ".git" / "info" / "attributes").write_text("* filter=evil\n", encoding="utf-8")
    assert bisect(query(tmp_path / "r", names[0], names[2])).first.commit.name == names[2]
    assert not ran.exists()
