"""The last few cubins, opened once: a sweep emulates each at many sizes."""

from __future__ import annotations

import threading
from functools import lru_cache

from ncu_swizzle.cubin.elf import Cubin

MOST = 8  # variants of one family


def opened(data: bytes, name: str) -> Cubin:
    """Return the cubin; raises what Cubin raises. Threads do not share one: it is read through a stream."""
    return _opened(data, name, threading.get_ident())


@lru_cache(maxsize=MOST)
def _opened(data: bytes, name: str, thread: int) -> Cubin:  # noqa: ARG001 - the thread is part of the key
    return Cubin(data, name)
