"""A limit of address space (``ulimit -v``): NumPy under it, and the errors that mean too little memory.

NumPy's OpenBLAS takes memory for each core as it is loaded. If it gets none, it ends the process with exit code 1,
which here means that a gate failed. So if there is a limit, a child process loads it first.
"""

from __future__ import annotations

import errno
import importlib.abc
import os
import resource
import sys
from pathlib import Path

from ncu_swizzle.base.bounds import OutOfTime, answer_of
from ncu_swizzle.base.errors import OUT_OF_MEMORY, REMEDIES, EnvironmentLacking
from ncu_swizzle.base.files import brief

THREADS = "OPENBLAS_NUM_THREADS"
LOADING_S = 20.0  # of processor time
BARE = 12 << 20  # bytes that a child process takes before it loads anything
MORE = "allow more address space: ulimit -v unlimited"


# Messages of Python, the loader and threads that get no memory, besides MemoryError.
_REFUSED = ("can't start new thread", "failed to map segment", "cannot allocate memory", "C-extensions failed")


def is_limited() -> bool:
    """Return whether this process's address space is limited."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def lacking(error: BaseException) -> EnvironmentLacking | None:
    """Translate an error caused by too little memory; None for any other."""
    said = str(error).lower()
    refused = isinstance(error, ImportError | RuntimeError) and any(text.lower() in said for text in _REFUSED)
    if isinstance(error, MemoryError) or (refused and is_limited()):
        return EnvironmentLacking(f"out of memory: {brief(error)}", MORE if is_limited() else OUT_OF_MEMORY)
    if refused and _REFUSED[0] in said:
        return EnvironmentLacking(f"the system refused: {brief(error)}", REMEDIES[errno.EAGAIN])
    return None


def ask_before_numpy() -> None:
    """Let a child process load NumPy before this one does, if this one's address space is limited."""
    if is_limited():
        os.environ.setdefault(THREADS, "1")  # each thread takes memory
        sys.meta_path.insert(0, _Asking())


class _Asking(importlib.abc.MetaPathFinder):
    """Finds nothing; raises EnvironmentLacking for NumPy if a child process could not load it."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "numpy":
            sys.meta_path.remove(self)
            _ask()


def _ask() -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    try:
        answer_of("import numpy\nanswer = 1", None, LOADING_S, max(limit - taken + BARE, BARE))
    except OutOfTime:
        raise EnvironmentLacking(f"NumPy cannot be loaded in {limit >> 20:,} MiB of address space", MORE) from None
