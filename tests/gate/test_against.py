"""``lint --against``: only what got worse since another commit fails; skipped without CUDA's compiler."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support import process
from tests.support.checkouts import DESCRIBED, TURN, Checkout
from tests.support.composite import Composite, environment_of
from tests.support.marks import NEEDS_ALL, NEEDS_PTXAS
from tests.support.repositories import repository

FREE = TURN.replace("[32][32]", "[32][33]")
BROKEN = TURN.replace("int c", "imt c")
slow = pytest.mark.slow


def lint(checkout: Checkout, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = ("lint", "turn.cu", "--against", "main", *more)
    return process.run(*arguments, folder=checkout.folder, env=environment_of(COLUMNS="300"))


@pytest.mark.parametrize(
    ("before", "now", "status", "said"),
    [
        pytest.param(TURN, TURN, 0, "no worse: degree 32", marks=slow),
        pytest.param(TURN, FREE, 0, "none over its limit", marks=slow),
        (FREE, TURN, 1, "992 excessive wavefronts"),
        (TURN, "// moved down\n\n" + TURN, 0, "no worse: degree 32"),
        (TURN, TURN.replace("tile[c][r] =", "tile[c][r + 0] ="), 0, "no worse: degree 32"),  # the line is another
        (TURN, TURN.replace("tile[r][c]", "tile[c][r]"), 1, "turn, LDS: degree 32"),  # one more
        (BROKEN, TURN, 5, "; unknown in main: "),
        pytest.param(TURN, BROKEN, 2, "could not compile turn.cu", marks=slow),
    ],
)  # fmt: skip
@NEEDS_ALL
def test_what_got_worse_fails(before: str, now: str, status: int, said: str, checkout: Checkout) -> None:
    checkout.commit(before)
    checkout.branch("topic")
    checkout.write(now)
    done = lint(checkout)
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


@NEEDS_ALL
def test_a_new_file_is_judged_as_a_whole(checkout: Checkout) -> None:
    checkout.commit(FREE)
    (checkout.folder / "new.cu").write_text(TURN.replace("turn", "fresh"))
    (checkout.folder / "ncu-swizzle.toml").write_text(
        DESCRIBED + DESCRIBED.replace("turn", "fresh").replace("fresh.cu", "new.cu")
    )
    done = process.run("lint", "new.cu", "--against", "main", folder=checkout.folder, env=environment_of(COLUMNS="300"))
    assert done.returncode == 1, done.stderr
    assert "fresh, STS: degree 32" in done.stdout


@NEEDS_ALL
def test_the_commit_is_the_one_where_the_branch_began(checkout: Checkout) -> None:
    checkout.commit(TURN)
    checkout.branch("topic")
    subprocess.run(["git", "checkout", "-q", "main"], cwd=checkout.folder, check=True)
    checkout.commit(FREE)  # fixed meanwhile
    subprocess.run(["git", "checkout", "-q", "topic"], cwd=checkout.folder, check=True)
    assert lint(checkout).returncode == 0


@NEEDS_ALL
def test_json_and_the_page_have_both(checkout: Checkout) -> None:
    checkout.commit(TURN)
    checkout.write(FREE)
    done = lint(checkout, "--json", "-", "--html", "lint.html")
    assert done.returncode == 0, done.stderr
    changes = {change["access"]: change for change in json.loads(done.stdout)["changes"]}
    assert (changes["STS"]["wavefronts_before"], changes["STS"]["wavefronts"]) == (1024, 32)
    page = (checkout.folder / "lint.html").read_text("utf-8")
    assert "turn (main)" in page


@NEEDS_ALL
def test_nothing_of_the_checkout_runs(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit(TURN)
    marker = tmp_path / "marker"
    hook = checkout.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    for setting in ("core.fsmonitor", "filter.x.smudge", "filter.x.clean"):
        subprocess.run(["git", "config", setting, f"touch {marker}; cat"], cwd=checkout.folder, check=True)
    (checkout.folder / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert lint(checkout).returncode == 0
    assert not marker.exists()


@NEEDS_ALL
def test_links_of_a_commit_lead_nowhere(checkout: Checkout, tmp_path: Path) -> None:
    secret = tmp_path / "secret.cu"
    secret.write_text("#error the secret\n")
    (checkout.folder / "linked.cu").symlink_to(secret)
    checkout.commit(TURN, DESCRIBED + DESCRIBED.replace("turn", "linked"))
    (checkout.folder / "linked.cu").unlink()
    (checkout.folder / "linked.cu").write_text(TURN.replace("turn", "linked"))
    done = process.run("lint", "linked.cu", "--against", "main", folder=checkout.folder, env=environment_of())
    assert done.returncode == 5
    assert "the secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(("commit", "said"), [("gone", "gone is not a commit"), ("--help", "is not a commit")])
@NEEDS_ALL
def test_what_is_no_commit(commit: str, said: str, checkout: Checkout) -> None:
    checkout.commit(TURN)
    done = process.run("lint", "turn.cu", f"--against={commit}", folder=checkout.folder, env=environment_of())
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(("against", "status"), [("HEAD", 0), ("HEAD~1", 1)])
@NEEDS_PTXAS
def test_accesses_without_lines_are_compared_by_kind(against: str, status: int, tmp_path: Path) -> None:
    repository(tmp_path / "checkout", 2, planted=1)
    done = process.run(
        "lint", "ncu-swizzle.toml", "--against", against, folder=tmp_path / "checkout", env=environment_of()
    )
    assert done.returncode == status, done.stderr
    assert done.stdout.count("no worse: " if status == 0 else ", 0 excessive, degree 1 (turn.cubin)\n") == 2, (
        done.stdout
    )


@NEEDS_ALL
def test_outside_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text(TURN)
    (tmp_path / "ncu-swizzle.toml").write_text(DESCRIBED)
    done = process.run("lint", "turn.cu", "--against", "main", folder=tmp_path, env=environment_of())
    assert done.returncode == 2
    assert "is in no git checkout" in done.stderr


# ---------------------------------------------------------------------------------------------- the action


@pytest.mark.long
@pytest.mark.parametrize(
    ("now", "against", "status", "outcome", "row"),
    [
        pytest.param(TURN, "origin/main", 0, "pass", "| turn | STS | 992 | 992 | 32 | 32 |", marks=slow),
        pytest.param(FREE, "origin/main", 0, "pass", "| turn | STS | 992 | 0 | 32 | 1 |", marks=slow),
        (TURN.replace("tile[r][c]", "tile[c][r]"), "origin/main", 1, "fail", "| turn | LDS | 0 | 992 | 1 | 32 |"),
        pytest.param(TURN, "", 1, "fail", "", marks=slow),
        pytest.param(BROKEN, "origin/main", 2, "error", "", marks=slow),
    ],
)  # fmt: skip
@NEEDS_ALL
def test_the_action_lints_a_pull_request(
    now: str, against: str, status: int, outcome: str, row: str, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.commit(TURN)
    pull_request = checkout.cloned(tmp_path / "runner", "topic", now)
    checkout.installed(tmp_path / "temp")
    composite = Composite(
        pull_request, tmp_path / "temp", {"mode": "lint", "against": against}, ["Install ncu-swizzle"]
    )
    assert composite.run(environment_of()) == status, composite.log
    assert composite.outputs["outcome"] == outcome
    assert row in composite.summary
    assert all((pull_request / composite.outputs[name]).is_file() for name in ("junit", "sarif"))
    assert ("page" in composite.outputs) == (outcome != "error")
