"""The steps of action.yml that are shell scripts, executed as a runner does: expressions, conditions, outputs."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.places import ROOT

EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")


def action() -> Any:
    """Return the content of action.yml."""
    return YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))


class Composite:
    """The action in a folder, with inputs; `skipped` are names of steps to leave out. Nothing can be evaluated but
    inputs, the action's path, and conditions that compare an input with a text.
    """

    def __init__(self, folder: Path, temporary: Path, inputs: Mapping[str, str], skipped: Sequence[str] = ()) -> None:
        self._folder, self._temporary, self._skipped = folder, temporary, skipped
        given = action()["inputs"]
        assert set(inputs) <= set(given), "inputs that the action has"
        self._inputs = {name: str(each.get("default", "")) for name, each in given.items()} | dict(inputs)
        self.log = ""
        self.summary = ""
        self.outputs: dict[str, str] = {}

    def run(self, environment: Mapping[str, str]) -> int:
        """Run the steps up to the first that fails; return its exit status."""
        for step in action()["runs"]["steps"]:
            if "run" not in step or step["name"] in self._skipped or not self._applies(step.get("if", "")):
                continue
            if status := self._step(step, environment):
                return status
        return 0

    def _step(self, step: Mapping[str, Any], environment: Mapping[str, str]) -> int:
        assert "${{" not in step["run"], "inputs come through the environment"
        files = {name: self._temporary / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        given = {name: EXPRESSION.sub(self._value, str(value)) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
            env={**environment, "RUNNER_TEMP": str(self._temporary), **{k: str(v) for k, v in files.items()}, **given},
        )
        self.log += done.stdout + done.stderr
        said = files["GITHUB_OUTPUT"].read_text("utf-8") if files["GITHUB_OUTPUT"].exists() else ""
        self.outputs |= dict(line.split("=", 1) for line in said.splitlines())
        if files["GITHUB_STEP_SUMMARY"].exists():
            self.summary = files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        return done.returncode

    def _value(self, found: re.Match[str]) -> str:
        name = found[1]
        if name == "github.action_path":
            return str(ROOT)
        given = self._inputs if name.startswith("inputs.") else self.outputs  # of a step; nothing else is known
        return given.get(name.rpartition(".")[2], "")

    def _applies(self, condition: str) -> bool:
        if not condition:
            return True
        name, value = re.fullmatch(r"inputs\.(\w+) == '(\w+)'", condition).groups()  # type: ignore[union-attr]
        return self._inputs[name] == value


def environment_of(**more: str) -> dict[str, str]:
    """Return this process's environment, without what GitHub sets for the job that runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")} | more
