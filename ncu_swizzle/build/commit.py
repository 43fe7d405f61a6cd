"""The commit that sources come from."""

from __future__ import annotations

import subprocess
from pathlib import Path

TIMEOUT_S = 10.0


def commit_of(folder: Path) -> str:
    """Return the commit checked out in the folder, with ``-dirty`` if files were changed; "" outside of git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
