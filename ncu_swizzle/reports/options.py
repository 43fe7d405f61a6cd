"""Records that options of several commands fill, and the engines: nothing here takes time to import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.base.texts import option

NCU, RECORDED, EMULATED = "ncu", "recorded", "emulated"  # measured now, measured earlier and shipped, computed


@dataclass(frozen=True)
class Engine:
    """ncu, emulated or recorded; `reason` says why `auto` did not choose ncu.

    With `beside`, metrics that the emulator cannot compute come from a recording, and so do kernels that it cannot run.
    """

    name: str
    reason: str = ""
    beside: bool = False


@dataclass(frozen=True)
class Destination:
    """The folder of a run, by default one in swizzle-out."""

    export: Path | None = option(
        None, "Where to write; default: a folder in swizzle-out.", "FOLDER", ("--export", "-o")
    )
    force_overwrite: bool = option(
        False, "Replace the run in FOLDER; without -o, the last one of this name.", flags=("--force-overwrite", "-f")
    )


NONE, AUTO = "none", "auto"


@dataclass(frozen=True)
class Companions:
    """A baseline and a reference, each a kernel, a file, a run, "none", or "auto"."""

    baseline: str = option(AUTO, "What to compare with; auto: the catalogue's baseline.", "NAME|FILE|RUN|none")
    reference: str = option(AUTO, "A third column; auto: the library's kernel, if available.", "NAME|FILE|none")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """A file for each format; `json` is a file, or ``-`` for stdout, which then holds nothing else."""

    junit: Path | None = option(None, "Write JUnit XML.", "FILE")
    sarif: Path | None = option(None, "Write SARIF 2.1.0.", "FILE")
    github: bool = option(False, "Print GitHub annotations; append to the step summary.", flags=("--github",))
    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-")
