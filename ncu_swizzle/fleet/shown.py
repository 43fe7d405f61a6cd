"""The progress of all workers in one display: a line for everything, and one per worker with what runs there."""

from __future__ import annotations

from typing import Any

from ncu_swizzle.engines.context import Done, Progress

TOGETHER = "all points"
MOST_LINES = 16  # of workers


class CrewProgress:
    """Passes what workers say on to a progress callback."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total = progress, total
        self._lines: dict[str, str] = {}
        self.running: dict[str, int] = {}  # which task each worker said to have begun last
        self._failed = 0
        self._say_total(total)

    def hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take what a worker said."""
        _, said = event
        self.running[str(said["worker"])] = int(said["task"])
        line = self._line(str(said["worker"]))
        if line:
            done = Done(said["percent"])
            done.words = str(said["name"])
            self._progress(line, done)

    def finished(self, address: str, still_open: int, failed: bool) -> None:
        """Count a finished task."""
        self._line(address)
        self._failed += failed
        self._say_total(still_open)

    def _say_total(self, still_open: int) -> None:
        done = Done(100 * (self._total - still_open) / max(self._total, 1))
        wrong = f", {self._failed:,} failed" if self._failed else ""
        done.words = f"{self._total - still_open:,} of {self._total:,}{wrong}"
        self._progress(TOGETHER, done)

    def _line(self, address: str) -> str:
        if address not in self._lines and len(self._lines) < MOST_LINES:
            self._lines[address] = f"worker {len(self._lines)}"
        return self._lines.get(address, "")
