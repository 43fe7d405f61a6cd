"""A limit on processor time that interrupts pure Python, and the matching of regular expressions."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

AGAIN_S = 0.5  # an inner limit may catch what an outer one raised: the outer one raises again


class OutOfTime(Exception):
    """The code inside `within` used up its processor time."""


def interruptible() -> bool:
    """Return whether `within` can interrupt here: Python handles signals in the main thread only."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise OutOfTime when the code inside has used this much processor time, even in the middle of a match.

    It may be nested: the limit that ends first counts. In other threads than the main one nothing is limited: see
    `interruptible`.
    """
    left = signal.getitimer(signal.ITIMER_VIRTUAL)[0]
    if not interruptible() or 0 < left <= seconds:
        yield
        return
    armed = True

    def expire(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if armed:
            raise OutOfTime

    outer = signal.signal(signal.SIGVTALRM, expire)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_S)
    try:
        try:
            yield
        finally:
            armed = False
    finally:  # also if the signal came just before the line above
        spent = seconds - signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]
        signal.signal(signal.SIGVTALRM, outer)
        if left:
            signal.setitimer(signal.ITIMER_VIRTUAL, max(left - spent, 0.001), AGAIN_S)
