"""Bring the examples of docs/model.md up to date: ``python docs/examples.py``; ``--check`` only says what differs.

An example is a fenced block of kind ``console`` whose lines after ``$ `` are run; what they print follows them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "model.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<printed>.*?)```", re.DOTALL)


def run(command: str) -> str:
    """Return what an ``ncu-swizzle`` command prints on 80 columns; "…" after a pipe to head."""
    command, _, head = command.partition(" | head -")
    program, *arguments = shlex.split(command)
    assert program == "ncu-swizzle", command
    done = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)},
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "\n".join(lines[: int(head)] if head else lines) + "\n"


def refreshed(text: str) -> str:
    """Return the text with every example's output as it is now."""
    return BLOCK.sub(lambda found: f"```console\n$ {found['command']}\n{run(found['command'])}```", text)


def main() -> int:
    text = FILE.read_text(encoding="utf-8")
    new = refreshed(text)
    if "--check" in sys.argv:
        return int(new != text)
    FILE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
