"""Which commit files are of."""

from __future__ import annotations

import subprocess
from pathlib import Path

TIMEOUT_S = 10.0


def commit_of(folder: Path) -> str:
    """Return the commit that the folder is checked out from, with ``-dirty`` where files differ; "" elsewhere."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
