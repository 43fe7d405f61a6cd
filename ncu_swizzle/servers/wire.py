"""An editor's messages before pygls reads them, limited in length; and pygls's log of damaged ones."""

from __future__ import annotations

import io
import logging
import re
import sys
import traceback
from typing import BinaryIO

from ncu_swizzle.base import paths
from ncu_swizzle.base.files import brief
from ncu_swizzle.base.texts import one_line

LONGEST_MESSAGE = 64 << 20  # bytes
LONGEST_HEADER = 1 << 16
_LENGTH = re.compile(rb"Content-Length: (\d{1,30})\r\n\Z")

log = logging.getLogger("pygls.ncu-swizzle")


class Messages(io.RawIOBase):
    """The messages on a stream, without implausibly long ones.

    The body of a message whose length is too large or not a number is skipped up to the next header.
    """

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def readline(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002 - as pygls calls it
        """Return the next header's line, without what is before it: a body that was skipped has no line's end."""
        line = self._stream.readline(LONGEST_HEADER)
        length = _LENGTH.search(line)
        if length is None:
            return line
        if int(length[1]) > LONGEST_MESSAGE:
            log.error("a message of %s bytes is ignored", int(length[1]))
            return b"\n"
        return length[0]

    def read(self, size: int | None = -1, /) -> bytes:
        """Return a body."""
        return self._stream.read(-1 if size is None else size)


class _OneLine(logging.Formatter):
    """One line per record, except for our own bugs, which keep their traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        ours = str(paths.package())
        if error and any(frame.filename.startswith(ours) for frame in traceback.extract_tb(error.__traceback__)):
            return super().format(record)
        said, *_, last = [*record.getMessage().strip().splitlines(), ""]
        why = brief(error) if error else last
        return one_line(f"note: {said}: {why}" if why else f"note: {said}")


def prepare_log() -> None:
    """Make pygls, which logs a traceback for each damaged message, log one line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    pygls = logging.getLogger("pygls")
    pygls.handlers[:], pygls.propagate = [handler], False
