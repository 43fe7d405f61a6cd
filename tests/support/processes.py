"""Which processes are alive, and which work in a folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path


def alive(pid: int) -> bool:
    """Say whether the process is still there a moment after it was sent its signal."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":  # ended, and not yet reaped by whoever adopted it
            return False
        time.sleep(0.05)
    return True


def processes_in(folder: Path) -> Iterator[str]:
    """Yield the command lines of the processes whose working folder is the folder, or one below."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            # The folder of a run that was given up is gone already; the link then ends with " (deleted)".
            where = (process / "cwd").readlink()
            if where == folder or folder in where.parents:
                yield (process / "cmdline").read_text(encoding="utf-8").replace("\0", " ")
