"""Which small mistakes in the code do the tests notice?

``python3 bench/attacks/mutants.py [ROOM …] [--count N] [--seed N]``.

A mutant is the package with one operator, number or condition changed. Places are drawn with the seed from the lines
that a room's tests run; every mutant is tested with the tests that run its line, the fastest first, until one fails.
``--json FILE`` keeps the outcomes; ``--again FILE`` tests the same mutants on the tests as they are now, and lists
those that were killed and survive; a line that has moved is found by its text, and lines that are gone are counted.
Tests marked slow, and processes that tests start, do not count. Prints a line per room and every survivor; ends with 1
if a mutant is no longer killed.

"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
# What is mutated, and the folders whose tests should notice; of any other room of the package, its own.
ROOMS = {
    "operations": ("ncu_swizzle/emulate/operations", ("tests/emulate", "tests/smem")),
    "emulate": ("ncu_swizzle/emulate", ("tests/emulate", "tests/engines")),
    "smem": ("ncu_swizzle/smem", ("tests/smem", "tests/explain")),
    "fix": ("ncu_swizzle/fix", ("tests/fix",)),
    "judge": ("ncu_swizzle/gate/judge.py", ("tests/gate",)),
}
ROOMS |= {
    folder.name: (f"ncu_swizzle/{folder.name}", (f"tests/{folder.name}",))
    for folder in sorted((ROOT / "ncu_swizzle").iterdir())
    if (ROOT / "tests" / folder.name).is_dir() and folder.name not in ROOMS
}
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in"}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "//": "*", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}
BUDGET_S = 90.0  # of tests for one mutant, by the times that they take without it
MOST_TESTS = 500  # of one mutant: their names are words of one command line
PATIENCE = 5  # a mutant whose tests take so many times as long, and a minute, loops for ever: killed


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of the source: `old` at `start` to `end` of a line becomes `new`."""

    room: str
    file: str
    line: int
    start: int
    end: int
    old: str
    new: str
    text: str  # of the line
    outcome: str = ""  # killed, or survived

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"


def mutants(room: str, file: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    name = str(file.relative_to(ROOT))
    lines = file.read_bytes().splitlines()  # ast counts columns in bytes

    def changed(line: int, start: int, end: int, table: dict[str, str]) -> Iterator[Mutant]:
        """Yield the mutant of the operator between two columns of a line."""
        text = lines[line - 1][start:end].decode()
        found = re.fullmatch(r"([\s()]*)(.+?)([\s()]*)", text)
        if found and found[2] in table:
            first = start + len(found[1])
            yield Mutant(
                room=room,
                file=name,
                line=line,
                start=first,
                end=first + len(found[2]),
                old=found[2],
                new=table[found[2]],
                text=lines[line - 1].decode(),
            )

    tree = ast.parse(b"\n".join(lines))
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for outer in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if outer is not None
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and node.left.end_lineno == node.comparators[0].lineno:
            yield from changed(
                node.comparators[0].lineno, node.left.end_col_offset or 0, node.comparators[0].col_offset, COMPARISONS
            )
        elif isinstance(node, ast.BinOp) and node.left.end_lineno == node.right.lineno:
            yield from changed(node.right.lineno, node.left.end_col_offset or 0, node.right.col_offset, ARITHMETIC)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                if left.end_lineno == right.lineno:
                    swapped = {"and": "or", "or": "and"}
                    yield from changed(right.lineno, left.end_col_offset or 0, right.col_offset, swapped)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and node.lineno == node.operand.lineno:
            yield from changed(node.lineno, node.col_offset, node.operand.col_offset, {"not": ""})
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            new = {lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode(): str(node.value + 1)}
            yield from changed(node.lineno, node.col_offset, node.end_col_offset or 0, new)


def moved(mutant: Mutant) -> Mutant | None:
    """Return the mutant at the nearest line that has its text now; None if the file has no such line."""
    file = ROOT / mutant.file
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    places = [number for number, text in enumerate(lines, 1) if text == mutant.text]
    if not places:
        return None
    return replace(mutant, line=min(places, key=lambda number: abs(number - mutant.line)))


def checkout(folder: Path) -> Path:
    """Copy the files that git knows, as they are now, into a folder, and return it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of tests in a copy: its package, a cache that all copies share."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def tests_by_line(folder: Path, tests: list[str], workers: int) -> dict[tuple[str, int], list[tuple[float, str]]]:
    """Run the tests once; return, for each line of the package, the time and name of those that run it."""
    import coverage

    settings = folder / "coverage.ini"
    settings.write_text("[run]\nsource = ncu_swizzle\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *tests,
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    command += ["-n", str(workers), "--dist", "loadgroup", "--junitxml", "times.xml", "-o", "junit_family=xunit1"]
    command += ["--cov=ncu_swizzle", "--cov-context=test", f"--cov-config={settings}", "--cov-report="]
    subprocess.run(command, cwd=folder, env=environment(folder), stdout=sys.stderr, check=False)
    times: dict[str, float] = {}
    for case in ElementTree.parse(folder / "times.xml").iter("testcase"):
        if not list(case):  # neither failed nor skipped; its file may be where an imported test was written
            times[f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"] = float(case.get("time", 0))
    data = coverage.CoverageData(str(folder / ".coverage"))
    data.read()
    running: dict[tuple[str, int], list[tuple[float, str]]] = defaultdict(list)
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            named = {context.partition("|")[0] for context in contexts}
            # Without the group that pytest-xdist writes after a name.
            running[str(Path(file).relative_to(folder)), line] = sorted(
                (times[name], re.sub(r"@\w+$", "", name)) for name in named if name in times
            )
    return running


def outcome_of(mutant: Mutant, folder: Path, tests: list[tuple[float, str]]) -> Mutant:
    """Return the mutant with what its tests say, tried in a copy of its own."""
    file = folder / mutant.file
    before = file.read_bytes()
    lines = before.splitlines(keepends=True)
    line = lines[mutant.line - 1]
    lines[mutant.line - 1] = line[: mutant.start] + mutant.new.encode() + line[mutant.end :]
    chosen, total_s = [], 0.0
    for time_s, name in tests:
        total_s += time_s
        if (total_s > BUDGET_S and chosen) or len(chosen) == MOST_TESTS:
            break
        chosen.append(name)
    if not chosen:
        return replace(mutant, outcome="survived")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen]
    try:
        file.write_bytes(b"".join(lines))
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            timeout=60 + PATIENCE * total_s,
            check=False,
        )
        killed = done.returncode != 0
    except subprocess.TimeoutExpired:
        killed = True
    finally:
        file.write_bytes(before)
    return replace(mutant, outcome="killed" if killed else "survived")


def drawn(
    rooms: list[str], running: dict[tuple[str, int], list[tuple[float, str]]], count: int, seed: int
) -> list[Mutant]:
    """Return `count` mutants of each room, of lines that a test runs."""
    sample = []
    for room in rooms:
        place = ROOT / ROOMS[room][0]
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        every = [each for file in files for each in mutants(room, file) if running.get((each.file, each.line))]
        sample += Random(f"{seed}-{room}").sample(every, min(count, len(every)))
    return sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--count", type=int, default=40, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="keep the outcomes")
    parser.add_argument("--again", type=Path, help="outcomes to compare with: the same mutants")
    given = parser.parse_args()
    earlier = [Mutant(**row) for row in json.loads(given.again.read_text(encoding="utf-8"))] if given.again else []
    there = [mutant for mutant in map(moved, earlier) if mutant is not None]
    if earlier:
        print(f"{len(earlier) - len(there)} of {len(earlier)} mutants are of lines that are gone", file=sys.stderr)
    rooms = given.rooms or sorted({mutant.room for mutant in earlier}) or list(ROOMS)
    if unknown := [room for room in rooms if room not in ROOMS]:
        parser.error(f"no room {unknown[0]}: {', '.join(ROOMS)}")
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            copies.put(checkout(Path(scratch) / f"copy{number}"))
        first = Path(scratch) / "copy0"
        tests = sorted({folder for room in rooms for folder in ROOMS[room][1]})
        running = tests_by_line(first, tests, given.workers)
        sample = there or drawn(rooms, running, given.count, given.seed)

        def tried(mutant: Mutant) -> Mutant:
            copy = copies.get()
            try:
                result = outcome_of(mutant, copy, running.get((mutant.file, mutant.line), []))
                print(f"{result.outcome}: {result}", file=sys.stderr, flush=True)
                return result
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(given.workers) as pool:
            results = list(pool.map(tried, sample))
    if given.json:
        given.json.write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    for room in rooms:
        mine = [result for result in results if result.room == room]
        killed = sum(result.outcome == "killed" for result in mine)
        print(f"{room}: {killed} of {len(mine)} killed")
    for result in results:
        if result.outcome == "survived":
            print(f"survived: {result}")
    was = {str(mutant) for mutant in there if mutant.outcome == "killed"}
    lost = [result for result in results if result.outcome == "survived" and str(result) in was]
    for result in lost:
        print(f"no longer killed: {result}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
