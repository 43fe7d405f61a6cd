"""``ncu-swizzle check`` and ``baseline`` as processes, and the GitHub action's script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.support import process
from tests.support.checkouts import Checkout
from tests.support.composite import Composite, environment_of
from tests.support.gate_profiles import HOSTILE, lasting, measured, named
from tests.support.places import ROOT
from tests.support.recordings import Recorded
from tests.support.schemas import complaints


def command(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, folder=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **more})


# Of `check`: its exit code, and what it prints.
VERDICTS = {
    "after.json": (0, "The gate: pass (1 pass)"),
    "before.json": (1, "at most 0 allowed"),
    "before.json after.json --max-degree *=8": (0, "The gate: pass (8 pass)"),
    "before.json --max-degree LDSM=7 --max-degree gone:1": (1, "1 fail, 1 inconclusive"),
    "kernel2 --engine recorded": (5, "recorded, not measured"),
    "kernel1 --engine recorded --allow-recorded": (1, "The gate: fail"),
    "after.json -k regex:other": (5, "no profile of a kernel of that name was given"),
}


@pytest.mark.parametrize("arguments", VERDICTS)
def test_the_exit_code_is_the_verdict(arguments: str, work: Path) -> None:
    status, said = VERDICTS[arguments]
    done = command("check", *arguments.split(), folder=work)
    assert done.returncode == status, done.stderr
    assert said in done.stdout
    assert bool(done.stderr) == bool(status)
    assert not status or "  try: " in done.stderr


# What is said on stderr, then the hint.
MISTAKES = {
    "after.json --max-degree LDMSS=1": ("unknown access kind", "[KERNEL:][ACCESS=]NUMBER"),
    "after.json --max-regression 5": ("needs a baseline", "ncu-swizzle check --save-baseline"),
    "after.json --baseline gone.json": ("gone.json does not exist", "ncu-swizzle check --save-baseline"),
    "after.json -k regex:(": ("is not a valid regular expression", ""),
    "gone.json": ("gone.json does not exist", "ls swizzle-out"),
    "after.json --junit /proc/x.xml": ("cannot write /proc/x.xml", ""),
    "": ("nothing to check: name a profile", "ncu-swizzle check swizzle-out/kernel2"),
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes_are_no_verdict(arguments: str, work: Path) -> None:
    said, hint = MISTAKES[arguments]
    done = command("check", *arguments.split(), folder=work)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_baseline_from_saving_to_failing(work: Path, recorded: Recorded) -> None:
    saved = command("check", "fixed.json", "--save-baseline", folder=work)
    assert saved.returncode == 0, saved.stderr
    assert command("check", "--show-baseline", folder=work).stdout == saved.stdout
    assert "H100" in saved.stdout
    assert max(map(len, saved.stdout.splitlines())) <= 80
    done = command("check", "fixed.json", "--max-regression", "5", folder=work)
    assert done.returncode == 0, done.stdout
    assert "0 in the baseline" in done.stdout
    assert command("check", "before.json", folder=work).returncode == 1
    slow = lasting(named(measured(recorded("kernel2")), "kernel1"), 2e6)
    slow.save(work / "slow.json")
    done = command("check", "slow.json", "--max-regression", "5", folder=work)
    assert done.returncode == 1
    percent = 100 * (2e6 / recorded("kernel2").duration_ns - 1)
    assert f"{percent:+.1f} %, at most +5 % allowed" in done.stdout
    assert command("check", "slow.json", folder=work).returncode == 0, "times count where a limit says so"
    missing = command("check", "--show-baseline", "--baseline", "gone.json", folder=work)
    assert missing.returncode == 2
    assert "gone.json does not exist" in missing.stderr


def test_the_settings_of_the_project_count(work: Path) -> None:
    (work / "pyproject.toml").write_text("[tool.ncu-swizzle.check]\nmax-degree = 9\n", encoding="utf-8")
    assert command("check", "before.json", folder=work).returncode == 0
    assert command("check", "before.json", "--max-degree", "6", folder=work).returncode == 1
    assert command("check", "before.json", "--config", "none", folder=work).returncode == 1
    (work / "pyproject.toml").write_text("[tool.ncu-swizzle.check]\nmax-degre = 9\n", encoding="utf-8")
    done = command("check", "before.json", folder=work)
    assert done.returncode == 2
    assert "did you mean 'max-degree'?" in done.stderr


def test_every_output_is_written_whatever_the_verdict(work: Path) -> None:
    outputs = ("--junit", "out/j.xml", "--sarif", "out/s.sarif", "--json", "out/v.json", "--github")
    summary = work / "summary.md"
    summary.write_text("earlier\n", encoding="utf-8")
    done = command("check", "before.json", *outputs, folder=work, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert ElementTree.parse(work / "out" / "j.xml").getroot().attrib["failures"] == "1"
    assert json.loads((work / "out" / "s.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert json.loads((work / "out" / "v.json").read_text(encoding="utf-8"))["outcome"] == "fail"
    assert "\n::error file=kernels/attention/attention.cuh,line=89," in done.stdout
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("earlier\n### ncu-swizzle check: fail")
    again = command("check", "before.json", "--json", "-", "--github", folder=work)
    assert json.loads(again.stdout)["outcome"] == "fail"
    assert "::error file=" in again.stderr


def test_a_hostile_name_starts_no_command_of_its_own(work: Path, recorded: Recorded) -> None:
    named(measured(recorded("kernel1")), HOSTILE).save(work / "hostile.json")
    done = command("check", "hostile.json", "--github", folder=work)
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert sum(line.strip().startswith("::") for line in lines) == 1
    assert not any("##[" in line for line in lines)


# ---------------------------------------------------------------------------------------------- the action


def test_what_github_reads_is_valid(tmp_path: Path) -> None:
    for kind, file in {"github-actions": "action.yml", "github-workflows": "docs/ci-example.yml"}.items():
        assert complaints("--builtin-schema", f"vendor.{kind}", str(ROOT / file)) == "", file
    wrong = (ROOT / "action.yml").read_text(encoding="utf-8").replace("steps:", "stebs:")
    (tmp_path / "wrong.yml").write_text(wrong, encoding="utf-8")
    assert "stebs" in complaints("--builtin-schema", "vendor.github-actions", str(tmp_path / "wrong.yml"))


def read_yaml(file: str) -> Any:
    return YAML(typ="safe").load((ROOT / file).read_text(encoding="utf-8"))


def test_the_example_uses_what_the_action_has() -> None:
    action = read_yaml("action.yml")
    steps = read_yaml("docs/ci-example.yml")["jobs"]["gate"]["steps"]
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
    Checkout.installed(work)
    inputs = dict(zip(("profiles", "arguments", "inconclusive"), step, strict=True))
    composite = Composite(work, work, {**inputs, "results": "results"}, ["Install ncu-swizzle"])
    done = composite.run(environment_of())
    outputs = composite.outputs
    assert (done, outputs["outcome"]) == (status, outcome), composite.log
    assert ("sarif" in outputs) == (outcome != "error")
    assert all((work / outputs[name]).is_file() for name in ("sarif", "junit") if name in outputs)
    assert not (work / "pwned").exists()
