"""ncu's progress, from what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable

MARK = "==PROF== Profiling "
BAR = re.compile(MARK + r".*?(?: - (\d{1,9}))?: ([\d%.]+)")
LONGEST_LINE = 4_000  # characters of a line of progress; a longer one is something else


class Progress:
    """Follow ncu's line ``==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes``, a dot per 10 %.

    Each of `launches` launches counts as an equal part of the whole.
    """

    def __init__(self, on_progress: Callable[[float], None], launches: int = 1) -> None:
        self._report = on_progress
        self._launches = launches
        self._line = ""  # what may become a line of ncu's: from its mark on, or what may be a mark's beginning

    def feed(self, text: str) -> None:
        seen = self._line + text
        start, end = seen.rfind(MARK), seen.rfind("\n") + 1
        bar = BAR.match(seen[start : start + LONGEST_LINE]) if start >= 0 else None
        marks = re.search(r"(\d{1,3})%(\.*)$", bar[2]) if bar else None
        if bar and marks:
            done = 100.0 * int(bar[1] or 0)
            self._report(min(100.0, (done + int(marks[1]) + 10.0 * len(marks[2])) / self._launches))
        self._line = seen[start : start + LONGEST_LINE] if start >= end else seen[end:][-len(MARK) :]
