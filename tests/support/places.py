"""Where the tests' inputs are."""

import csv
import gzip
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PROGRAMS = DATA / "programs"
STRESS = ROOT / "bench" / "recording" / "stress"
RECORDED_STRESS = STRESS / "recorded" / "stress.ncu-rep.xz"
RECORDINGS = ROOT / "recordings" / "h100"


def text(name: str) -> str:
    """Return the text of a file of tests/data."""
    return (DATA / name).read_text(encoding="utf-8")


def table(name: str) -> dict[str, Any]:
    """Return what a TOML file of tests/data holds."""
    return tomllib.loads(text(name))


def measured(name: str) -> list[dict[str, str]]:
    """Return the rows of a table that was measured on an H100."""
    with gzip.open(DATA / f"{name}_h100.csv.gz", "rt", newline="") as lines:
        return list(csv.DictReader(lines))
