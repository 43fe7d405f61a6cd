"""ncu's progress, from what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable


class Progress:
    """Follow ncu's line ``==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes``, a dot per 10 %.

    Each of `launches` launches counts as an equal part of the whole.
    """

    def __init__(self, on_progress: Callable[[float], None], launches: int = 1) -> None:
        self._report = on_progress
        self._launches = launches
        self._line = ""

    def feed(self, text: str) -> None:
        seen = self._line + text
        self._line = seen.rsplit("\n", 1)[-1]
        bars = re.findall(r"==PROF== Profiling .*?(?: - (\d+))?: ([\d%.]+)", seen)
        marks = re.search(r"(\d+)%(\.*)$", bars[-1][1]) if bars else None
        if marks:
            done = 100.0 * int(bars[-1][0] or 0)
            self._report(min(100.0, (done + int(marks[1]) + 10.0 * len(marks[2])) / self._launches))
