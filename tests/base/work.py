"""Work for the pool's tests, which other processes import."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import Hint, TimeLimit, Typed


class Late(TimeLimit):
    """An error with other arguments than a message and a hint."""

    def __init__(self, item: str, limit: int) -> None:
        super().__init__(f"{item} took longer than {limit} s", Hint("raise it: ", Typed("--budget 60")))


def work(common: str, item: str, hear: Callable[[str, Any], None]) -> str:
    """Do what the item says."""
    hear(item, 0.5)
    match item:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "pid":
            return f"{common} {os.getppid()}"
        case "late":
            raise Late(item, 30)
        case "memory":
            raise MemoryError
        case "bug":
            raise ZeroDivisionError("of the work")
        case "long":
            time.sleep(60)
        case path if path.startswith("/"):  # whose file another one makes
            while not Path(path).exists():
                time.sleep(0.01)
    return f"{common} {item}"
