"""What was measured on an H100, of tests/data."""

from __future__ import annotations

import csv
import gzip

from tests.support.places import DATA


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with gzip.open(DATA / f"{name}_h100.csv.gz", "rt", newline="") as lines:
        return list(csv.DictReader(lines))
