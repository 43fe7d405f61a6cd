"""What is there for GitHub, GitLab, Jenkins and pre-commit."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support import process
from tests.support.composite import Composite, environment_of
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT
from tests.support.repositories import TURN, install, pull_request
from tests.support.schemas import complaints

GITLAB = ROOT / "examples" / "ci" / "gitlab-ci.yml"


def read_yaml(file: Path) -> Any:
    return YAML(typ="safe").load(file.read_text(encoding="utf-8"))


WORSE = TURN.replace("tile[r][c]", "tile[c][r]")


@pytest.mark.long
@NEEDS_ALL
def test_the_script_for_gitlab_lints_against_the_target(tmp_path: Path) -> None:
    clone, program = pull_request(tmp_path, TURN, WORSE), install(tmp_path)
    lines = read_yaml(GITLAB)["bank conflicts"]["script"]
    script = "\n".join(line for line in lines if not line.startswith("pip install"))
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    env = environment_of(PATH=path, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main", COLUMNS="300")
    command = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=clone, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fail         SW001 turn, LDS" in done.stdout
    assert "no worse: degree 32" in done.stdout
    assert all((clone / f"lint.{suffix}").is_file() for suffix in ("xml", "sarif", "html"))


@pytest.mark.long
@NEEDS_ALL
def test_the_action_lints_a_pull_request(tmp_path: Path) -> None:
    clone = pull_request(tmp_path, TURN, WORSE)
    install(tmp_path)
    composite = Composite(clone, tmp_path, {"mode": "lint", "against": "origin/main"}, ["Install ncu-swizzle"])
    assert composite.run(environment_of()) == 1, composite.log
    assert composite.outputs["outcome"] == "fail"
    assert "| turn | LDS | 0 | 992 | 1 | 32 |" in composite.summary
    assert all((clone / composite.outputs[name]).is_file() for name in ("junit", "sarif", "page"))


def test_the_pipeline_for_jenkins_runs_the_same() -> None:
    jenkins = (ROOT / "examples" / "ci" / "Jenkinsfile").read_text(encoding="utf-8")
    (command,) = (line for line in read_yaml(GITLAB)["bank conflicts"]["script"] if line.startswith("ncu-swizzle"))
    assert command in " ".join(jenkins.replace("\\\n", " ").split())


def test_the_hook_for_pre_commit_is_a_command_with_an_extra() -> None:
    (hook,) = read_yaml(ROOT / ".pre-commit-hooks.yaml")
    program, name = hook["entry"].split()
    assert program == "ncu-swizzle"
    assert process.run(name, "--help").returncode == 0
    (extra,) = hook["additional_dependencies"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert extra.removeprefix(".[").removesuffix("]") in extras


BISECT = ROOT / "examples" / "ci" / "bisect.sh"


def test_exit_codes_are_those_that_git_bisect_wants(tmp_path: Path) -> None:
    """Of 128 and more git stops, of 125 it skips a commit, and all others below mean that it is bad."""
    program = tmp_path / "ncu-swizzle"
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    meanings = {0: 0, 1: 1, 2: 125, 3: 125, 4: 125, 5: 125, 70: 125, 129: 128, 130: 128, 143: 128}
    for status, means in meanings.items():
        program.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n', encoding="utf-8")
        program.chmod(0o755)
        command = ["sh", BISECT, "lint", "a b.cu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stdout) == (means, "lint a b.cu\n"), status


def test_what_gitlab_and_github_read_is_valid() -> None:
    files = {
        "gitlab-ci": GITLAB,
        "github-actions": ROOT / "action.yml",
        "github-workflows": ROOT / "docs/ci-example.yml",
    }
    for kind, file in files.items():
        assert complaints("--builtin-schema", f"vendor.{kind}", str(file)) == "", file


def test_the_example_uses_what_the_action_has() -> None:
    action = read_yaml(ROOT / "action.yml")
    steps = read_yaml(ROOT / "docs" / "ci-example.yml")["jobs"]["gate"]["steps"]
    (use,) = (step for step in steps if step.get("uses", "") == "./.ncu-swizzle")
    assert set(use["with"]) <= set(action["inputs"])


# What a step of a workflow gives: `profiles`, `arguments`, `inconclusive`; its exit code, and the output `outcome`.
STEPS = {
    "profiles": (("  after.json\n\n  before.json  \n", "--max-degree=*=8\n", "fail"), 0, "pass"),
    "a limit": (("before.json", "--max-degree=LDSM=1", "warn"), 1, "fail"),
    "inconclusive": (("after.json", "--max-degree=gone:1", "fail"), 5, "inconclusive"),
    "a warning": (("after.json", "--max-degree=gone:1", "warn"), 0, "inconclusive"),
    "a command": (("$(touch pwned).json", "", "warn"), 2, "error"),
    "an option": (("--help", "", "warn"), 2, "error"),
}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="the action is a bash script")
@pytest.mark.parametrize("name", STEPS)
def test_the_action_s_script(name: str, work: Path) -> None:
    step, status, outcome = STEPS[name]
    install(work)
    inputs = dict(zip(("profiles", "arguments", "inconclusive"), step, strict=True))
    composite = Composite(work, work, {**inputs, "results": "results"}, ["Install ncu-swizzle"])
    done = composite.run(environment_of())
    outputs = composite.outputs
    assert (done, outputs["outcome"]) == (status, outcome), composite.log
    assert ("sarif" in outputs) == (outcome != "error")
    assert all((work / outputs[name]).is_file() for name in ("sarif", "junit") if name in outputs)
    assert not (work / "pwned").exists()
