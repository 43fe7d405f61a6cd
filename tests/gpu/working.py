"""Which processes work in a folder: tests that run beside each other start the same programs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def processes_in(folder: Path) -> Iterator[str]:
    """Yield the command lines of the processes whose working folder is the folder, or one below."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            # The folder of a run that was given up is gone already; the link then ends with " (deleted)".
            where = (process / "cwd").readlink()
            if where == folder or folder in where.parents:
                yield (process / "cmdline").read_text(encoding="utf-8").replace("\0", " ")
