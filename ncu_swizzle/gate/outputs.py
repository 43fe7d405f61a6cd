"""Where a verdict goes beside the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.option import option


@dataclass(frozen=True)
class Outputs:
    """A file for each format; `json` is a file, or ``-`` for stdout and nothing else there."""

    junit: Path | None = option(None, "Write JUnit XML.", "FILE")
    sarif: Path | None = option(None, "Write SARIF 2.1.0.", "FILE")
    github: bool = option(False, "Annotate, and add to the step's summary.", flags=("--github",))
    json: str = option("", "Write everything as data; - prints that alone.", "FILE|-")
