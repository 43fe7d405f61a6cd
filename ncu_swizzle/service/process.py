"""Make a call in a process of its own, which can be ended, and hear how far it is."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ncu_swizzle import child, errors, paths
from ncu_swizzle.bounds import quotation
from ncu_swizzle.bounds.elsewhere import LONGEST_ANSWER
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.files import parse_json, read_bytes, write_json
from ncu_swizzle.service.answer import Answer
from ncu_swizzle.service.folders import Folders
from ncu_swizzle.texts import in_json
from ncu_swizzle.unfinished.folders import scratch

REQUEST, ANSWER = "request.json", "answer.json"
MARK = "ncu-swizzle-progress "  # starts a line that tells how far a call is
LONGEST_S = 3600.0
LONGEST_LINE = 1 << 12

OnProgress = Callable[[float, str], None]  # percent, and what is being done


@dataclass(frozen=True)
class Service:
    """Where calls may read and run, and how long each tool may take, in seconds."""

    folders: Folders
    timeout_s: float = 600

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: OnProgress = lambda percent, words: None,
        stop: threading.Event | None = None,
    ) -> Answer:
        """Return the answer to a call; raise what the call raises, and Interrupted once `stop` is set.

        Nothing that the call started is left running.
        """
        with scratch() as folder:
            request = {
                "call": name,
                "arguments": dict(arguments),
                "folders": self.folders.as_json(),
                "timeout_s": self.timeout_s,
            }
            write_json(folder / REQUEST, request)
            ended = child.run(
                [sys.executable, "-m", "ncu_swizzle.service", str(folder)],
                LONGEST_S,
                environment=paths.child_environment(),
                on_output=_Lines(on_progress).hear,
                stop=stop,
            )
            try:
                content = parse_json(read_bytes(folder / ANSWER, largest=LONGEST_ANSWER), ANSWER)
            except NcuSwizzleError:
                last = quotation.last_lines(ended.log)
                raise ProgramFailed(
                    f"{name} ended with status {ended.status}; its last lines:\n{last}", "call it again"
                ) from None
        if problem := content.get("error"):
            raise errors.by_name(problem["type"])(problem["message"], problem["hint"])
        return Answer.of_json(content["answer"])


def told(name: str, percent: float) -> str:
    """Return the line that tells how far a call is."""
    words = getattr(percent, "words", "")
    return MARK + in_json([float(percent), f"{name}: {words}" if words else name])


@dataclass
class _Lines:
    """Output in pieces, heard line by line."""

    on_progress: OnProgress
    rest: str = field(default="")

    def hear(self, text: str) -> None:
        *lines, rest = (self.rest + text).split("\n")
        self.rest = rest[:LONGEST_LINE]
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # what the call runs may print anything
                if line.startswith(MARK):
                    percent, words = json.loads(line.removeprefix(MARK))
                    self.on_progress(float(percent), str(words))
