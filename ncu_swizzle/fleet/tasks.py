"""What is to be done, and what came of it; the same for this process and for workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncu_swizzle.engines.context import Progress
from ncu_swizzle.errors import NcuSwizzleError


@dataclass(frozen=True)
class FleetTask:
    """One point. Tasks of the same `unit` run on the same worker, in order; empty: a unit of its own.

    `prefers` are GPUs' UUIDs: only a worker with one of them takes it; empty: any does. `weight` estimates the work:
    the heaviest units start first.
    """

    name: str
    given: Any
    unit: str = ""
    weight: float = 0.0
    prefers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Whereabouts:
    """Where something ran and how long it took. Empty: in this process, by itself."""

    worker: str = ""
    host: str = ""
    gpu: str = ""
    uuid: str = ""
    seconds: float = 0.0


HERE = Whereabouts()


@dataclass(frozen=True)
class FleetResult:
    """What a task returned, or the error that it ended with."""

    value: Any = None
    error: NcuSwizzleError | None = None
    where: Whereabouts = HERE


@dataclass(frozen=True)
class FleetJob:
    """What all tasks of a command share.

    `work` is called with `common`, what a task gives, an empty folder and a progress callback; what it leaves in the
    folder comes along with what it returns. `examine` is called with `common` once per worker, and says what is special
    about that machine. `files` are the user's files that work reads, by path; `moved` returns `common` with those below
    another root, for a worker that has no such files. All of it is pickled, so functions are a module's.
    """

    work: Callable[[Any, Any, Path, Progress], Any]
    common: Any
    examine: Callable[[Any], Any]
    measures: bool = False  # with ncu, on a GPU
    files: Sequence[Path] = ()
    moved: Callable[[Any, str], Any] | None = None


@dataclass(frozen=True)
class Member:
    """One worker: its name, its host, the GPU that it uses, and what `FleetJob.examine` said of it."""

    facts: Any
    name: str = ""
    host: str = ""
    gpu: str = ""
    uuid: str = ""
    threads: int = 1
    pid: int = 0
    lacks: Mapping[str, str] = field(default_factory=dict)  # of the job's files, by path: their digests


Place = Callable[[FleetTask], AbstractContextManager[Path]]
# Called with the number of a task, its result, and the folder of what it left. A unit that had to move to another
# worker is done again as a whole, so that this can be called twice for a task: the later result counts.
OnResult = Callable[[int, FleetResult, Path], None]
