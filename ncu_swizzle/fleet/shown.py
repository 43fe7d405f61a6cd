"""The progress of all workers in one display: a line for everything, and one per worker with what runs there."""

from __future__ import annotations

from typing import Any

from ncu_swizzle.engines.context import Done, Progress
from ncu_swizzle.fleet.tasks import Member

TOGETHER = "all points"
MOST_LINES = 16  # of workers
LOST = "lost"


class CrewProgress:
    """Passes what workers say on to a progress callback; `link`, to Dask's dashboard, is said first."""

    def __init__(self, progress: Progress, total: int, link: str = "") -> None:
        self._progress, self._total = progress, total
        self._lines: dict[str, str] = {}
        self.running: dict[str, int] = {}  # which task each worker said to have begun last
        self._failed = 0
        self._say_total(total, f"Dask's dashboard: {link}" if link else "")

    def joined(self, address: str, member: Member) -> None:
        """Give a worker its line: one that was started again, or took another's place, has the line of its name."""
        if address not in self._lines and len({*self._lines.values(), label(member)}) <= MOST_LINES:
            self._lines[address] = label(member)

    def hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take what a worker said."""
        _, said = event
        address = str(said["worker"])
        self.running[address] = int(said["task"])
        self._say(address, said["percent"], str(said["name"]))

    def finished(self, address: str, still_open: int, failed: bool) -> None:
        """Count a finished task."""
        self._failed += failed
        if address in self.running:
            self._say(address, 100, "")
        self._say_total(still_open)

    def lost(self, address: str) -> None:
        """Say that a worker is gone."""
        self._say(address, 0, LOST)
        self._lines.pop(address, None)

    def _say(self, address: str, percent: float, words: str) -> None:
        if line := self._lines.get(address):
            done = Done(percent)
            done.words = words
            self._progress(line, done)

    def _say_total(self, still_open: int, aside: str = "") -> None:
        done = Done(100 * (self._total - still_open) / max(self._total, 1))
        wrong = f", {self._failed:,} failed" if self._failed else ""
        done.words = f"{self._total - still_open:,} of {self._total:,}{wrong}"
        done.aside = aside
        self._progress(TOGETHER, done)


def label(member: Member) -> str:
    """Return a worker's name and what it runs on: gpu-0, NVIDIA H200 on host1."""
    return f"{', '.join(filter(None, (member.name, member.gpu)))}{f' on {member.host}' if member.host else ''}"
