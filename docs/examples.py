"""Bring the examples of the documentation up to date: ``python docs/examples.py``; ``--check`` only says what differs.

An example is a fenced block of kind ``console`` whose first line, after ``$ ``, is run; what it prints follows, and
then its exit code if it fails. A line "…" stands for lines that are left out, also at the end. The examples of a page
are run one after another in copies of the folders beside its name, without a GPU; those of Python kernels need their
compilers. A command that ends with ``# needs a GPU`` shows what was recorded on one: a stand-in for ncu hands over the
report that the program left there. tests/docs/test_commands.py runs all of them, and the command lines without output.
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
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import fake_ncu  # noqa: E402

PAGES = {  # and the folders whose files its commands have; "" is the checkout
    "README.md": "examples/extension examples/fix",
    "docs/model.md": "",
    "docs/your-kernels.md": "examples/first-hour",
    "docs/fix.md": "examples/fix",
    "docs/learn/kernel2.md": "",
    "docs/learn/cute.md": "",
    "docs/learn/jonah.md": "",
    "docs/learn/gemm.md": "",
    "docs/cases/index.md": "",
    "docs/hopper.md": "",
    "docs/python-kernels.md": "examples/python",
    "docs/programs.md": "tests/data/programs tests/data/launches",
    "docs/launches.md": "tests/data/programs tests/data/launches",
}
NEEDS_GPU = "# needs a GPU"
RECORDED = {"./several --size 512": "several.ncu-rep", "./several --size 512 --pad": "several-pad.ncu-rep"}
COMPILER = "Compiled by "  # which version there is: it differs from machine to machine, and is left out
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
BLOCK = re.compile(r"```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]+)\n(?P<printed>.*?)```", re.DOTALL)


def run(command: str, folder: Path) -> list[str]:
    """Return what an ``ncu-swizzle`` command prints on 80 columns; of a pipe to head or tail, those lines."""
    command, _, remark = command.replace("\\\n", " ").partition("  #")
    command, _, part = command.partition(" | ")
    program, *arguments = shlex.split(command)
    assert program == "ncu-swizzle", command
    environment = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT)}
    if f"#{remark}" == NEEDS_GPU:
        environment |= recorded(arguments, folder)
        arguments[1:1] = ["--engine", "ncu"]  # as with a GPU: here nobody looks for one
    words = [sys.executable, "-m", "ncu_swizzle", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    lines = [line.rstrip().replace(f"{folder}/", "") for line in (done.stdout + done.stderr).splitlines()]
    lines = [line for line in lines if not line.startswith(COMPILER)]
    which, _, number = part.partition(" -")
    shown = lines[: int(number)] if which == "head" else lines[-int(number) :] if which == "tail" else lines
    return [*shown, *([f"exit code {done.returncode}"] if done.returncode else [])]


def recorded(arguments: list[str], folder: Path) -> dict[str, str]:
    """Return an environment in which ncu hands over the report that was recorded of a program."""
    program = arguments[arguments.index("--") + 1 :]
    stand_in = fake_ncu.install(folder / "stand-in" / "ncu")
    executable = folder / program[0]
    executable.write_text("#!/bin/sh\n", encoding="utf-8")
    executable.chmod(0o755)
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "FAKE_NCU": "program", "FAKE_NCU_REPORT": str(folder / RECORDED[" ".join(program)])}


def refreshed(text: str, folder: Path) -> str:
    """Return the text with every example's output as it is now."""
    return BLOCK.sub(lambda found: example(found["command"], found["printed"].splitlines(), folder), text)


def example(command: str, shown: list[str], folder: Path) -> str:
    """Return a block with what its command prints now; what it left out, or the day of a run, stays as it is."""
    printed = excerpt(run(command, folder), shown)
    today = date.today().isoformat()
    if len(printed) == len(shown):
        pairs = zip(printed, shown, strict=True)
        printed = [old if today in new and DATE.sub("", old) == DATE.sub("", new) else new for new, old in pairs]
    return "\n".join(["```console", f"$ {command}", *printed, "```"])


def excerpt(printed: list[str], shown: list[str]) -> list[str]:
    """Return the lines that stand where the shown ones do: what follows a "…" begins where its first line is."""
    gaps = [number for number, line in enumerate(shown) if line == "…"]
    if not gaps:
        return printed
    kept = printed[: gaps[0]]
    for gap, end in zip(gaps, [*gaps[1:], len(shown)], strict=True):
        wanted = shown[gap + 1 : end]
        at = printed.index(wanted[0]) if wanted and wanted[0] in printed else len(printed) - len(wanted)
        kept += ["…", *printed[at : at + len(wanted)]]
    return kept


@contextmanager
def working_folder(examples: str) -> Iterator[Path]:
    """Yield a folder with copies of what is in the examples' folders; without examples, with links to the checkout.

    What a command writes must not stay in the checkout.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if not examples:
            folder = Path(scratch).resolve() / "checkout"
            folder.mkdir()
            for entry in ROOT.iterdir():
                if not entry.name.startswith(".") and entry.name != "swizzle-out":
                    (folder / entry.name).symlink_to(entry)
            yield folder
            return
        folder = Path(scratch).resolve() / Path(examples).name
        for each in examples.split():
            shutil.copytree(ROOT / each, folder, ignore=shutil.ignore_patterns("swizzle-out"), dirs_exist_ok=True)
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
