"""Recording from a copy of the checkout whose path names nothing of this machine: reports and cubins hold paths."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEUTRAL = Path("/tmp/ncu-swizzle")
HOME = "NCU_SWIZZLE_RECORD_INTO"  # the variable that tells the copy where its recordings go


def home() -> Path | None:
    """Return where recordings go; None outside of the copy."""
    return Path(os.environ[HOME]) if HOME in os.environ else None


def run_copy(program: str, parts: Sequence[str], into: Path, arguments: Sequence[str], path: str = "") -> int:
    """Copy these parts of the checkout, run a program of this folder there, and return its exit code.

    `path` is what its PYTHONPATH has behind the copy.
    """
    shutil.rmtree(NEUTRAL, ignore_errors=True)
    for part in parts:
        shutil.copytree(ROOT / part, NEUTRAL / part, ignore=shutil.ignore_patterns("__pycache__", "recorded"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(NEUTRAL), path))), HOME: str(into)}
    command = [sys.executable, str(NEUTRAL / "bench" / "recording" / Path(program).name), *arguments]
    return subprocess.run(command, cwd=NEUTRAL, env=environment, check=False).returncode
