"""Which processes are alive, work in a folder, have a mark, or work for another one."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Say whether the process is still there a moment after it was sent its signal."""
    for _ in range(100):
        try:
            state = _status(Path(f"/proc/{pid}"))[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":  # ended, and not yet reaped by whoever adopted it
            return False
        time.sleep(0.05)
    return True


def wait_until(holds: Callable[[], object], within_s: float = 90) -> bool:
    """Wait for something to happen, and return whether it did; the deadline is only against hanging."""
    deadline = time.monotonic() + within_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(holds())


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of the processes whose working folder is the folder, or one below."""

    def works_there(process: Path) -> bool:
        # The folder of a run that was given up is gone already; the link then ends with " (deleted)".
        where = (process / "cwd").readlink()
        return folder in (where, *where.parents)

    return [command_line(pid) for pid in _those(works_there)]


def marked(mark: str) -> list[int]:
    """Return the processes that have this in their environment: all that a command started, however indirectly."""
    return _those(lambda it: mark.encode() in (it / "environ").read_bytes() and _status(it)[0] != "Z")


def workers_of(parent: int) -> list[int]:
    """Return the worker processes of a command, which Python's multiprocessing started."""
    return _those(lambda it: int(_status(it)[1]) == parent and b"spawn_main" in (it / "cmdline").read_bytes())


def command_line(pid: int) -> str:
    """Return a process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _those(holds: Callable[[Path], bool]) -> list[int]:
    """Return the processes of which something holds, asked about their folder in /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if holds(process):
                found.append(int(process.name))
    return sorted(found)


def _status(process: Path) -> list[str]:
    """Return what follows a process's name in its `stat`: state, parent, and so on."""
    return (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
