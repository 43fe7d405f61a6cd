"""What the tests on a GPU share: the command as a process of its own, and optional modules."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.support import process


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ncu-swizzle in a folder."""
    return process.started(*arguments, folder=folder, env=process.environment())


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
