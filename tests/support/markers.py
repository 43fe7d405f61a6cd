"""Programs and modules that leave a marker if they are run."""

from __future__ import annotations

from pathlib import Path

RUNS = '#!/bin/sh\ntouch "{marker}"\n{then}\n'
PYTHON = "open({marker!r}, 'w').close()\n"


def program(file: Path, marker: Path, then: str = "exit 1") -> Path:
    """Write a program that leaves the marker, then does something else."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(RUNS.format(marker=marker, then=then), encoding="utf-8")
    file.chmod(0o755)
    return file
