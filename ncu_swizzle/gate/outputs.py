"""Where a verdict goes besides the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.option import option


@dataclass(frozen=True)
class Outputs:
    """A file for each format; `json` is a file, or ``-`` for stdout, which then holds nothing else."""

    junit: Path | None = option(None, "Write JUnit XML.", "FILE")
    sarif: Path | None = option(None, "Write SARIF 2.1.0.", "FILE")
    github: bool = option(False, "Print GitHub annotations; append to the step summary.", flags=("--github",))
    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-")
