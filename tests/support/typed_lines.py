"""The command lines that the documentation shows without their output, and a folder in which they can be typed."""

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.capture.launches import open_launches
from tests.support import fake_ncu
from tests.support.places import DATA, ROOT, text
from tests.support.repositories import git, repository

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
TYPED = re.compile(r"^(?: {4,}|\$ | {4,}\$ )(?P<line>(?:NCU_\w+=\S+ )?ncu-swizzle (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
# A command that a sentence or a table says to type; what only names one, `fix` or `rules apply`, says no "ncu-swizzle".
SPAN = re.compile(r"`(?P<line>ncu-swizzle [^`]+)`(?P<gpu>\s\(\[?needs a GPU)?")
NAMED = re.compile(r"`(?P<words>[a-z]+ [^`]+)`")
CODE = re.compile(r"^```.*?^```$|^ {4,}[^\n]*", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n.*?^```", re.MULTILINE | re.DOTALL)
PROSE = re.compile(r"\s{2,}(?:[a-z→#]).*$")  # what stands beside a command
NEEDS_GPU = "needs a GPU"
# Typed elsewhere: what needs a cluster in tests/sweep, and a program of CUDA's runtime in tests/capture.
ELSEWHERE = ("--scheduler", "capture --dry", "ncu --section-folder")


@dataclass(frozen=True)
class TypedLine:
    """A command line of a page, and whether the page says that it needs a GPU."""

    text: str
    needs_gpu: bool = False

    @property
    def words(self) -> list[str]:
        """The words of the command: without its comment and what it is piped to; "…" is the reader's own."""
        bare = PROSE.sub("", self.text.partition("  #")[0])
        typed = shlex.split(bare.partition(" | ")[0].partition(" > ")[0], comments=False)
        return typed[typed.index("ncu-swizzle") + 1 :]

    @property
    def elsewhere(self) -> bool:
        """Whether it wants a cluster or another program, which this folder lacks."""
        return any(word in self.text for word in ELSEWHERE)


def lines(page: Path) -> Iterator[TypedLine]:
    """Yield the command lines of a page, each on one line."""
    yield from _found(page.read_text(encoding="utf-8"))


def without_output(page: Path) -> Iterator[TypedLine]:
    """Yield the command lines whose output is not shown: all but the examples, which docs/examples.py runs."""
    yield from _found(CONSOLE.sub("", page.read_text(encoding="utf-8")))


def within_text(page: Path) -> Iterator[TypedLine]:
    """Yield the commands that a page's sentences and tables say to type."""
    for span in SPAN.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        yield from _commands(" ".join(span["line"].split()), bool(span["gpu"]))


def named(page: Path) -> Iterator[TypedLine]:
    """Yield what a page's sentences name without "ncu-swizzle": a command with options, perhaps."""
    for span in NAMED.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        yield TypedLine("ncu-swizzle " + " ".join(span["words"].split()))


def _found(text: str) -> Iterator[TypedLine]:
    for match in TYPED.finditer(text):
        line = re.sub(r"\\\n\s*", " ", match["line"])
        yield from _commands(line, NEEDS_GPU in line)


def _commands(line: str, needs_gpu: bool) -> Iterator[TypedLine]:
    """Yield each command of a line; what is replayed from a capture needs no GPU."""
    first, *others = re.split(r" && (?=ncu-swizzle )", line)
    yield TypedLine(first, needs_gpu)
    yield from map(TypedLine, others)


def filled(words: list[str], folder: Path) -> list[str]:
    """Return the words as the shell passes them on.

    "…", the value of an option, is left out with it: ncu-swizzle.toml describes the kernels.
    """
    kept: list[str] = []
    for word in words:
        if "…" not in word:
            files = sorted(path.relative_to(folder).as_posix() for path in folder.glob(word)) if "*." in word else []
            kept += files or [word]
        elif kept and kept[-1].startswith("--"):
            kept.pop()
    return kept


def desk(folder: Path) -> Path:
    """Make the folder in which a reader types: a checkout with kernels, reports and captured launches."""
    repository(folder, 9, 6)
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "tag", "v1.0", "HEAD~8")
    shutil.copytree(DATA / "desk", folder, dirs_exist_ok=True)
    (folder / "kernels.txt").rename(folder / "kernels.py")
    (folder / "kernels" / "attention").mkdir()
    with (folder / "ncu-swizzle.toml").open("a", encoding="utf-8") as file:
        file.write(text("desk/described.toml"))
    with open_launches(folder / "app.launches") as launches:
        (folder / "app.cubin").write_bytes(launches.cubin(next(iter(launches.manifest.cubins))))
    fake_ncu.install(folder / "bin" / "ncu")
    return folder
