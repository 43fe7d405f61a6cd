"""What a profiled program prints: saved as it comes, without ncu's lines in it, and quoted if ncu fails."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

from ncu_swizzle.bounds import quotation
from ncu_swizzle.files import not_writable

_NCU_SAYS = re.compile(r"==(PROF|WARNING|ERROR|INFO)==")
_LISTED = re.compile(r"\s*\d+\. (.*)")
_AVAILABLE = "Available Kernels:"
LONGEST_LINE = 1 << 14  # characters; a longer line is written in pieces
KEPT_LINES = 50  # at the end, to quote the last of them
MOST_KERNELS = 1000


class ProgramOutput:
    """Write a program's output to a file, whatever its size; remember its end and the kernels that ncu lists.

    `kernels` are the names under ncu's line ``Available Kernels:``, which it prints if no kernel passed the filters.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            raise not_writable(path, error) from error
        self.kernels: list[str] = []
        self._line = ""  # not yet ended
        self._continues = self._skips = False  # of a long line that was begun: it belongs to ncu
        self._listing = False
        self._end: deque[str] = deque(maxlen=KEPT_LINES)

    def feed(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._take(f"{line}\n")
            self._continues = False
        if len(self._line) > LONGEST_LINE:
            self._take(self._line)
            self._line, self._continues = "", True

    def close(self) -> None:
        """Write what is left; the end of the output can be quoted afterwards too."""
        if not self._file.closed:
            self._take(self._line)
            self._line = ""
            try:
                self._file.close()
            except OSError as error:
                raise not_writable(self._file.name, error) from error

    @property
    def last_lines(self) -> str:
        """The program's last lines, shortened; empty if it printed nothing."""
        return quotation.last_lines("\n".join(self._end))

    def _take(self, line: str) -> None:
        if not self._continues:
            self._skips = bool(_NCU_SAYS.match(line))
            self._list(line)
        if self._skips:
            return
        if not self._continues:
            self._end.append(quotation.shortened(line.rstrip("\n")))
        try:
            self._file.write(line)
        except OSError as error:
            raise not_writable(self._file.name, error) from error

    def _list(self, line: str) -> None:
        listed = _LISTED.match(line) if self._listing else None
        if listed and len(self.kernels) < MOST_KERNELS:
            self.kernels.append(listed[1].strip())
        self._listing = listed is not None or line.startswith(_AVAILABLE)
