"""The gate's settings, options, and examples for CI; a checkout that nobody trusts tries to run a program."""

import contextlib
import os
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bench.attacks.corpus import bytewise, originals, trees
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.gate import baseline, checking
from ncu_swizzle.gate.baseline import Policy, Rule
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from ncu_swizzle.reports.options import Judging
from tests.support import process
from tests.support.composite import Composite, environment_of
from tests.support.marks import NEEDS_ALL, program
from tests.support.own_kernel import KERNEL
from tests.support.places import ROOT, table
from tests.support.properties import chances, examples, holds
from tests.support.recordings import Recorded
from tests.support.refusals import refused, unlike
from tests.support.repositories import TURN, install, pull_request
from tests.support.schemas import complaints

WHOLE = """
[tool.ncu-swizzle.check]
max-excessive = 10
max-degree = 1.5
max-regression = 3
baseline = "ci/base.json"
allow-recorded = true

[[tool.ncu-swizzle.check.rule]]
kernel = "transpose-.*"
access = "LDS"
max-excessive = 7
"""


def test_pyproject_says_it_all(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    found = checking.settings("", tmp_path / "deep" / "er")
    origin = "pyproject.toml [tool.ncu-swizzle.check]"
    assert found.rules == (
        Rule(criterion="max-excessive", limit=10, origin=origin),
        Rule(criterion="max-degree", limit=1.5, origin=origin),
        Rule(criterion="max-regression", limit=3, origin=origin),
        Rule(criterion="max-excessive", limit=7, kernel="transpose-.*", access="LDS", origin=f"{origin} rule 1"),
    )
    assert found.baseline == tmp_path / "ci" / "base.json"
    assert found.allow_recorded
    assert found.file == tmp_path / "pyproject.toml"


def test_our_own_file_goes_first_and_strangers_are_passed_by(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(WHOLE, encoding="utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert checking.settings("", inner).file == tmp_path / "pyproject.toml"
    (tmp_path / "ncu-swizzle.toml").write_text("[check]\nmax-degree = 2\n", encoding="utf-8")
    assert checking.settings("", inner).rules == (
        Rule(criterion="max-degree", limit=2, origin="ncu-swizzle.toml [check]"),
    )


def test_the_command_line_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncu-swizzle.toml").write_text("[check]\nmax-degree = 2\nallow-recorded = true\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = checking.policy(Judging(max_degree=("1",)), CatalogOptions(), tmp_path)
    assert [rule.limit for rule in found.rules] == [2, 1]
    assert found.limits(("k",), ())["max-degree", ""].limit == 1
    assert found.allow_recorded
    assert not checking.policy(Judging(allow_recorded=False), CatalogOptions(), tmp_path).allow_recorded
    assert checking.policy(Judging(), CatalogOptions("none"), tmp_path).rules == ()
    (tmp_path / "ncu-swizzle-baseline.json").touch()
    assert checking.policy(Judging(), CatalogOptions(), tmp_path).baseline == Path("ncu-swizzle-baseline.json")
    assert checking.policy(Judging(baseline="none"), CatalogOptions(), tmp_path).baseline is None


def test_mistakes_in_the_settings_are_told(tmp_path: Path) -> None:
    def told(text: str) -> str:
        (tmp_path / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        return refused(checking.settings, "", tmp_path)

    mistakes = table("facts/check_settings.toml")["mistakes"]
    assert not unlike(mistakes, told)
    assert not unlike(dict.fromkeys(mistakes, r"^(UsageError|BadFile): (?s:.*)  try: ."), told)


def test_settings_that_were_asked_for_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    lacking = {"pyproject.toml": r"^BadFile: .*has no \[tool\.ncu-swizzle\]", "gone.toml": "^BadFile: .*does not exist"}
    assert not unlike(lacking, lambda name: refused(checking.settings, str(tmp_path / name), tmp_path))


def test_an_option_names_kernels_and_accesses() -> None:
    expected = {
        "0": (0, "", ""),
        "LDSM=12": (12, "", "LDSM"),
        "*=0": (0, "", "*"),
        "gemm.*:4": (4, "gemm.*", ""),
        "a::b<(?=c)>.*:STS=9007199254740993": (9007199254740993, "a::b<(?=c)>.*", "STS"),
    }
    rules = {text: baseline.parse_rule("max-excessive", text) for text in expected}
    assert {text: (rule.limit, rule.kernel, rule.access) for text, rule in rules.items()} == expected


def test_mistakes_in_an_option_are_told() -> None:
    wrong = ("", "x", "LDS=", "nan", "-1", "1.5", "1e400", "(:0", "LDS=0:")
    expected = dict.fromkeys(wrong, "--max-excessive(?s:.*)  try: .")
    assert not unlike(expected, lambda text: refused(baseline.parse_rule, "max-excessive", text))


def test_an_access_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="unknown access kind 'LDSMM', did you mean 'LDSM'"):
        baseline.check_accesses([baseline.parse_rule("max-degree", "LDSMM=1")], ["LDS"])
    baseline.check_accesses([baseline.parse_rule("max-degree", "RED=1")], ["RED"])
    with pytest.raises(UsageError, match="unknown access kind"):  # which global memory does not have
        baseline.check_accesses([baseline.parse_rule("max-sectors", "LDS=1")], ["LDS"])


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.lists(st.integers(), max_size=2)
)


@examples
def test_any_setting_is_a_rule_or_refused(examples: int) -> None:
    def check(criterion: str, limit: Any, kernel: Any, access: Any) -> None:
        with contextlib.suppress(NcuSwizzleError):
            rule = baseline.rule(criterion, limit, kernel, access, "here")
            limits = Policy(rules=(rule,)).limits(("kernel2", "void kernel2(int)"), ("LDS", "STS"))
            assert all(chosen is rule for chosen in limits.values())

    holds(examples, check, st.sampled_from(baseline.LIMITS), VALUES, VALUES, VALUES)


@examples
def test_a_baseline_with_a_hostile_value_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = originals.baseline_content("transpose/transpose-xor"), tmp_path / "baseline.json"
    whole = trees.written(content)
    now = baseline.entry_of([originals.profile("transpose/transpose-xor")])

    def check(damage: str, chance: Random) -> None:
        if damage in bytewise.TEXT:
            file.write_bytes(bytewise.TEXT[damage](whole, whole, chance))
        else:
            file.write_bytes(trees.written(trees.with_hostile_value(content, chance), trees.sealed_baseline))
        with contextlib.suppress(NcuSwizzleError):
            found = baseline.load(file)
            for entry in found.entries:
                assert entry.duration_ns is None or entry.duration_ns >= 0
                assert isinstance(entry.spread, float)
                assert all(count.excessive is None or count.excessive >= 0 for count in entry.accesses.values())
            if nearest := found.nearest(now):
                baseline.differences(nearest, now)
            found.with_([now]).to_json()

    holds(examples, check, st.sampled_from(["sealed", "sealed", "sealed", *bytewise.TEXT]), chances)


def lint(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return process.run("lint", *arguments, folder=folder, env=process.environment(COLUMNS="300", **more))


@pytest.mark.long
@NEEDS_ALL
def test_a_fake_compiler_gets_the_options_in_one_word_each(hostile: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    nvcc = program(tmp_path / "bin" / "nvcc", tmp_path / "ran", f'printf "%s\\n" "$@" >> {log}')
    text = f'{KERNEL}nvcc = ["-maxrregcount 64", "-Xptxas", "-v", "-I inc"]\n'
    (hostile / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
    (hostile / "inc").mkdir(exist_ok=True)
    lint(hostile, "my.cu", "--nvcc", str(nvcc))
    words = log.read_text(encoding="utf-8").splitlines()
    assert {"-maxrregcount=64", "-Xptxas=-v", f"-I{hostile}/inc"} <= set(words)


@NEEDS_ALL
@pytest.mark.long
def test_tools_are_not_taken_from_the_current_folder(
    hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    for folder in (hostile, hostile / "bin"):
        for tool in ("nvcc", "ptxas", "nvdisasm", "cicc", "gcc", "g++", "git", "ncu", "nvidia-smi"):
            program(folder / tool, marker)
    path = f".:bin::{os.environ['PATH']}"
    for variables in (
        {"PATH": path}, {"CUDA_HOME": "."}, {"CUDA_PATH": "."}, {"CUDA_HOME": "", "CUDA_ROOT": "."},
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert Toolchain().find(NVCC).is_absolute(), variables
            assert all(found.path.is_absolute() for found in machine.candidates(System())), variables
    done = lint(hostile, "my.cu", PATH=path, CUDA_HOME=".", CUDA_PATH=".")
    assert done.returncode == 0, done.stdout + done.stderr
    process.run("doctor", folder=hostile, env=process.environment(PATH=path, CUDA_HOME="."))
    assert not marker.exists()


@NEEDS_ALL
def test_a_compiler_in_the_current_folder_must_be_named(
    hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    program(hostile / "nvcc", marker)
    assert Toolchain(Path("nvcc")).find(NVCC) == Path("nvcc")
    with pytest.raises(EnvironmentLacking):
        Toolchain(Path("my.cu")).find(NVCC)


@pytest.mark.long
@NEEDS_ALL
def test_a_line_table_s_names_are_not_opened(recorded: Recorded, tmp_path: Path) -> None:
    """A report, like a saved profile, can name any file as a source."""
    private = tmp_path / "private.txt"
    private.write_text("the secret of private.txt\n" * 50, encoding="utf-8")
    profile = recorded("kernel1")
    named = [replace(counts, stack=((str(private), 1), (str(private), 2))) for counts in profile.instructions]
    replace(profile, instructions=tuple(named)).save(tmp_path / "hostile.json")
    outputs = ("--out", "page.html", "--markdown", "page.md", "--json", "page.json", "--csv", "page.csv")
    done = process.run("report", "hostile.json", *outputs, folder=tmp_path, env=process.environment())
    assert done.returncode == 0, done.stderr
    written = [file.read_bytes() for file in tmp_path.glob("page.*")]
    assert len(written) == 4
    assert not any(b"the secret" in content for content in written)


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


@pytest.mark.long
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
