"""Bring the examples of the documentation up to date: ``python docs/examples.py``; ``--check`` only says what differs.

An example is a fenced block of kind ``console`` whose first line, after ``$ ``, is run; what it prints follows, and
then its exit code if it fails. Those of docs/your-kernels.md and docs/fix.md are run one after another in copies of
examples/first-hour and examples/fix, without a GPU. What the pages under RECORDED show was recorded: it needs a GPU, or
compilers that few machines have. The options and arguments of all other command lines are checked by
tests/docs/test_commands.py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = {  # and the folder that its commands run in
    "docs/model.md": "",
    "docs/your-kernels.md": "examples/first-hour",
    "docs/fix.md": "examples/fix",
    "docs/learn/kernel2.md": "",
    "docs/learn/cute.md": "",
    "docs/learn/jonah.md": "",
    "docs/learn/gemm.md": "",
    "docs/cases/index.md": "",
    "docs/hopper.md": "",
}
RECORDED = ("docs/python-kernels.md",)
BLOCK = re.compile(r"```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]+)\n(?P<printed>.*?)```", re.DOTALL)


def run(command: str, folder: Path) -> str:
    """Return what an ``ncu-swizzle`` command prints on 80 columns; of a pipe to head or tail, those lines."""
    command, _, part = command.replace("\\\n", " ").partition(" | ")
    program, *arguments = shlex.split(command)
    assert program == "ncu-swizzle", command
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "ncu_swizzle", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    lines = [line.rstrip().replace(f"{folder}/", "") for line in (done.stdout + done.stderr).splitlines()]
    which, _, number = part.partition(" -")
    shown = lines[: int(number)] if which == "head" else lines[-int(number) :] if which == "tail" else lines
    return "\n".join([*shown, *([f"exit code {done.returncode}"] if done.returncode else [])]) + "\n"


def refreshed(text: str, folder: Path) -> str:
    """Return the text with every example's output as it is now."""
    return BLOCK.sub(lambda found: f"```console\n$ {found['command']}\n{run(found['command'], folder)}```", text)


@contextmanager
def working_folder(example: str) -> Iterator[Path]:
    """Yield a copy of the example's folder; without an example, the checkout."""
    if not example:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / Path(example).name
        shutil.copytree(ROOT / example, folder, ignore=shutil.ignore_patterns("swizzle-out"))
        yield folder


def main() -> int:
    differs = 0
    for page, example in PAGES.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        with working_folder(example) as folder:
            new = refreshed(text, folder)
        if "--check" not in sys.argv:
            (ROOT / page).write_text(new, encoding="utf-8")
        elif new != text:
            differs = 1
            print(f"{page} is out of date: python docs/examples.py", file=sys.stderr)
    return differs


if __name__ == "__main__":
    sys.exit(main())
