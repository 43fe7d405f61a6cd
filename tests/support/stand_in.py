"""ncu-swizzle with a stand-in for ncu."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support import process
from tests.support.places import ROOT

ALONE = ("--baseline", "none", "--reference", "none")


@dataclass(frozen=True)
class Fake:
    """The stand-in for ncu, and the folder to work in."""

    program: Path
    work: Path

    def command(self, *arguments: str) -> list[str]:
        own = ["--engine", "ncu", "--ncu", str(self.program)]
        return [sys.executable, "-m", "ncu_swizzle", *arguments[:2], *own, *arguments[2:]]

    def environment(self, scenario: str, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "FAKE_NCU": scenario, **more}

    def run(self, scenario: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        _, _, _, *words = self.command(*(arguments or ("profile", "kernel2", *ALONE)))
        return process.run(*words, folder=self.work, env=self.environment(scenario, **more))

    def start(self, scenario: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        _, _, _, *words = self.command(*(arguments or ("profile", "kernel2", *ALONE)))
        return process.opened(*words, folder=self.work, env=self.environment(scenario, **more))
