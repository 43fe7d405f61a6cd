"""Where a run is saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.option import option


@dataclass(frozen=True)
class Destination:
    """The folder of a run, by default one in swizzle-out."""

    export: Path | None = option(
        None, "Where to write; default: a folder in swizzle-out.", "FOLDER", ("--export", "-o")
    )
    force_overwrite: bool = option(
        False, "Replace the run in FOLDER; without -o, the last one of this name.", flags=("--force-overwrite", "-f")
    )
