"""Where a run is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.option import option


@dataclass(frozen=True)
class Destination:
    """Where a run goes: a folder, or by default one in swizzle-out."""

    export: Path | None = option(
        None, "Where to write; default: a folder of that name in swizzle-out.", "FOLDER", ("--export", "-o")
    )
    force_overwrite: bool = option(
        False, "Replace what an earlier run wrote to FOLDER.", flags=("--force-overwrite", "-f")
    )
