"""``fix`` on folders of kernels, as it is typed: ``python3 bench/figures/fix_folders.py FOLDER [NAME …] [--jobs 2]``.

Each folder has k.cu and args.json, the words that follow ``fix k.cu``. If there is a was.txt, it says what an earlier
``fix`` did: ``rc=0`` for a patch that was called proved, ``wrong`` if it was not right.

Every patch, proved or not, goes to the oracle of bench/attacks/prove.py: both versions are emulated in several launches
with random data, sizes and flags. The exit code is 1 if a proved patch does something else, or `fix` fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.attacks.prove import EQUIVALENT, WRONG, change_of, described, oracle
from ncu_swizzle.base.errors import NcuSwizzleError

PROVED, CLEAN, LEFT, OFFERED, REFUSED, BAD, FAILED = (
    "fixed and proved", "nothing conflicts", "fixed in part", "not proved, offered", "no patch", "PROVED, AND WRONG",
    "FIX FAILS",
)  # fmt: skip
WHOLE = (PROVED, CLEAN)
DIFFERS = "does something else"  # a patch
SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What became of a folder, and what the oracle says of its patch."""

    name: str
    word: str
    was: str
    patch: str = ""
    why: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        why = " ".join(self.why.split()).replace("|", "\\|")[:220]
        return f"| {self.name} | {self.was} | {self.word} | {self.patch} | {why} | {self.seconds:.0f} |"


def fixed(source: Path, folder: Path) -> Fixed:
    """Fix the kernel of a folder, and judge the patch."""
    before, after = folder / source.name / "before", folder / source.name / "after"
    for copy in (before, after):
        shutil.copytree(source, copy)
    words = json.loads((source / "args.json").read_text(encoding="utf-8"))
    was = _was(source / "was.txt")
    command = [
        sys.executable,
        "-m",
        "ncu_swizzle",
        "fix",
        "k.cu",
        *words,
        "--no-gpu",
        "-o",
        "out",
        "--json",
        "fix.json",
    ]
    start = time.monotonic()
    done = subprocess.run(command, cwd=before, capture_output=True, text=True, timeout=SECONDS, check=False)
    seconds = time.monotonic() - start
    if done.returncode not in (0, 1, 5) or not (before / "fix.json").exists():
        refused = done.returncode in (2, 3)
        why = (done.stderr or done.stdout).strip()[-200:]
        return Fixed(name=source.name, word=REFUSED if refused else FAILED, was=was, why=why, seconds=seconds)
    made = json.loads((before / "fix.json").read_text(encoding="utf-8"))
    tiles = [tile for kernel in made["kernels"] for tile in kernel["tiles"]]
    why = "; ".join(f"{tile['name']}: {tile['reason']}" for tile in tiles if not tile["proved"])
    why = why or "; ".join(note for kernel in made["kernels"] for note in kernel["notes"])
    patch = next((before / "out").glob("k.cu.patch"), None) or next((before / "out").glob("*not-proved.patch"), None)
    judged, said = ("", "") if patch is None else _oracle(before, after, patch, words)
    proved = made["outcome"] == "proved"
    whole = proved and all(tile["proved"] for tile in tiles)
    word = (
        PROVED if whole else LEFT if proved else CLEAN if made["outcome"] == "clean" else OFFERED if patch else REFUSED
    )
    if proved and judged == DIFFERS:
        word, why = BAD, said
    return Fixed(name=source.name, word=word, was=was, patch=judged, why=why, seconds=seconds)


def _was(file: Path) -> str:
    """Return what an earlier fix did: proved, proved and wrong, or nothing."""
    said = file.read_text(encoding="utf-8") if file.exists() else ""
    return "wrong" if said.startswith("wrong") else "proved" if "rc=0" in said else ""


def _oracle(before: Path, after: Path, patch: Path, words: Sequence[str]) -> tuple[str, str]:
    """Return whether a patched kernel does the same in all launches that were tried, and why not."""
    subprocess.run(["patch", "-p1", "-s", "-i", patch], cwd=after, check=True)
    try:
        change = change_of(after.parent.name, described(before, words), described(after, words))
        word, said = oracle(change, change.after)
    except NcuSwizzleError as error:
        return "not emulated", str(error).splitlines()[0]
    return {EQUIVALENT: "right", WRONG: DIFFERS}.get(word, word), said


def tables(made: Sequence[Fixed]) -> Iterator[str]:
    """Yield what became of all folders, and of those whose patch was right and proved before."""
    met = Counter(one.word for one in made)
    yield f"{len(made)} kernels: {', '.join(f'{count} {word}' for word, count in met.most_common())}"
    for what, some in (
        ("proved before, and right", [one for one in made if one.was == "proved"]),
        ("with a patch that did the same in all launches", [one for one in made if one.patch == "right"]),
    ):
        if some:
            yield f"{what}: {len(some)}, of which fixed and proved: {sum(one.word in WHOLE for one in some)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="those whose names begin so")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    sources = sorted(path.parent for path in given.folder.glob("*/args.json"))
    sources = [each for each in sources if not given.names or each.name.startswith(tuple(given.names))]
    made: list[Fixed] = []
    print("| kernel | was | now | the patch | why | seconds |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="fix-") as scratch, ThreadPoolExecutor(given.jobs) as pool:
        for one in pool.map(fixed, sources, [Path(scratch)] * len(sources)):
            made.append(one)
            print(one, flush=True)
    print("", *tables(made), sep="\n")
    sys.exit(1 if any(one.word in (BAD, FAILED) for one in made) else 0)


if __name__ == "__main__":
    main()
