"""Programs with a known race or hang, and right ones, next to what lint says.

``python3 bench/attacks/faults.py FOLDER …``.

A FOLDER has a manifest.tsv with a row for each NAME.cu: what follows ``lint FILE``, the codes and the lines expected
("-": none), and what is wrong. A case is *named* if a finding has one of the codes and a party on one of the lines,
*not judged* if lint says that something was not followed, *missed* otherwise; of a right one every error is a *false
alarm*.
If there is an h100.json, a column has what racecheck showed. ``--json FILE`` keeps what was found; ``--only NAME``
does this case alone, and prints all of it.

"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTHING = "-"
CODE = re.compile(r"RACE\d\d\d|SW015")
UNJUDGED = "UN013"


@dataclass
class Case:
    """A row of a manifest, and what lint said."""

    path: Path
    options: list[str]
    codes: set[str]
    lines: set[int]
    found: dict[str, list[list[int]]] = field(default_factory=dict)  # by code: the lines of each finding
    errors: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    failed: str = ""

    @property
    def verdict(self) -> str:
        if self.failed:
            return "failed"
        if not self.codes or self.codes <= {"RACE006", "RACE008"}:
            return "false alarm" if set(self.errors) - self.codes else "silent"
        hits = [lines for code in self.codes for lines in self.found.get(code, ())]
        if any(not self.lines or self.lines.intersection(lines) for lines in hits):
            return "named"
        return "named elsewhere" if hits or self.errors else "not judged" if self.unjudged else "missed"


def cases(folder: Path) -> list[Case]:
    """Return the rows of a folder's manifest."""
    with (folder / "manifest.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Case(
            path=folder / f"{row['name']}.cu",
            options=shlex.split(row["lint args"]),
            codes=set(CODE.findall(row["expected codes"] or "")),
            lines={int(line) for line in re.findall(r"\d+", row["expected lines"] or "")},
        )
        for row in rows
    ]


def linted(case: Case) -> Case:
    """Run lint in its own process, as it may crash."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "lint.json"
        command = [sys.executable, "-m", "ncu_swizzle", "lint", str(case.path), *case.options, "--json", str(output)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if not output.exists():
            case.failed = (ended.stderr.strip().splitlines() or ["nothing"])[0]
            return case
        told: dict[str, Any] = json.loads(output.read_text())
    for check in told["checks"]:
        code = check["code"]
        if not CODE.fullmatch(code):
            continue
        places = [check["place"], *check["related"]]
        named = [place["line"] for place in places if place and Path(place["file"]).name == case.path.name]
        told_lines = [int(line) for line in re.findall(rf"{re.escape(case.path.name)}:(\d+)", check["message"])]
        case.found.setdefault(code, []).append([*named, *told_lines])
        if check["outcome"] == "fail":
            case.errors.append(code)
    case.unjudged = [note["reason"] for note in told["unknowns"] if UNJUDGED in str(note)]
    return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    kept: dict[str, Any] = {}
    for folder in given.folders:
        verdicts: Counter[str] = Counter()
        chosen = [case for case in cases(folder) if not given.only or case.path.stem in given.only]
        shown = json.loads(path.read_text()) if (path := folder / "h100.json").exists() else {}
        with ThreadPoolExecutor(given.workers) as pool:
            for case in pool.map(linted, chosen):
                verdicts[case.verdict] += 1
                told = " ".join(f"{code}:{lines}" for code, every in sorted(case.found.items()) for lines in every)
                racecheck = str(shown.get(case.path.stem, {}).get("racecheck", "")).removeprefix("RACECHECK SUMMARY: ")
                columns = [case.path.stem, case.verdict, told or "none", "; ".join(case.unjudged), case.failed]
                print(f"| {' | '.join([*columns, racecheck])} |", flush=True)
                kept[case.path.stem] = {"verdict": case.verdict, "found": case.found, "unjudged": case.unjudged}
        print(f"{folder.name}: {', '.join(f'{number} {verdict}' for verdict, number in verdicts.items())}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
