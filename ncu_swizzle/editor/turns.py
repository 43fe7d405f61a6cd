"""One call at a time: emulations must not compete with each other, or with what the user is compiling."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from ncu_swizzle.errors import Interrupted
from ncu_swizzle.service.answer import Answer

Call = Callable[[threading.Event], Answer]  # makes a call, and ends it once the event is set


class Turns:
    """Calls that wait for each other. A newer one about the same subject ends an older one, or takes its place."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._stops: dict[str, threading.Event] = {}

    async def take(self, subject: str, call: Call) -> Answer:
        """Return a call's answer; raise Interrupted if a newer call about the subject came, or `end` was called."""
        self.end(subject)
        stop = self._stops[subject] = threading.Event()
        try:
            async with self._turn:
                if stop.is_set():
                    raise Interrupted("a newer call took its place")
                return await _to_its_end(call, stop)
        finally:
            if self._stops.get(subject) is stop:
                del self._stops[subject]

    def end(self, subject: str) -> None:
        """End the call about a subject, if there is one."""
        if stop := self._stops.get(subject):
            stop.set()

    def end_all(self) -> None:
        """End every call."""
        for stop in self._stops.values():
            stop.set()


async def _to_its_end(call: Call, stop: threading.Event) -> Answer:
    """Make a call in a thread. If this task is cancelled, the turn is over only when the call's processes are gone."""
    made = asyncio.get_running_loop().run_in_executor(None, call, stop)
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([made])
        made.exception()  # it was stopped: nobody asks for its answer
        raise
