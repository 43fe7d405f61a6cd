"""Bounded time and memory: code, other programs, users' patterns, command lines, quotations, NumPy's address space."""

from __future__ import annotations

import contextlib
import errno
import importlib.abc
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from ncu_swizzle.base.errors import OUT_OF_MEMORY, REMEDIES, EnvironmentLacking, UsageError
from ncu_swizzle.base.files import brief

# A limit on processor time that interrupts pure Python, and the matching of regular expressions.

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


# Work in a separate process with limited time, memory and output, for code that cannot be interrupted here.

MEMORY_BYTES = 1 << 30
LONGEST_ANSWER = 64 << 20
AT_ONCE = 1 << 20  # bytes

# Limits itself: it ends even if this process is killed meanwhile.
_PROLOGUE = """
import json, math, resource, sys
question, seconds, memory, sys.path[:] = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
_EPILOGUE = """
json.dump(answer, sys.stdout)
"""


def output_of(
    command: Sequence[str], given: bytes, timeout_s: float, most: int, environment: Mapping[str, str] | None = None
) -> bytes | None:
    """Return what a program that reads `given` prints to stdout; None if it fails, hangs or prints more than `most`.

    No more than that is read, and a program that prints more is killed.
    """
    with tempfile.TemporaryFile() as question:  # a pipe could fill up while the answer is read
        question.write(given)
        question.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except (OSError, ValueError):
            return None
        alarm = threading.Timer(timeout_s, process.kill)
        with process:
            try:
                alarm.start()
                assert process.stdout is not None
                answer = bytearray()
                while piece := process.stdout.read(AT_ONCE):  # a single read would allocate the maximum
                    answer += piece
                    if len(answer) > most:
                        return None
                process.wait()
            finally:  # an interrupt ends it, too
                alarm.cancel()
                process.kill()
    return bytes(answer) if process.returncode == 0 else None


def answer_of(program: str, question: Any, seconds: float, memory_bytes: int = MEMORY_BYTES) -> Any:
    """Return the `answer` that a program computes from the `question`; both are JSON.

    Raises OutOfTime if it needs more processor time or memory, fails, does not end in a few times as many seconds, or
    answers more than LONGEST_ANSWER.
    """
    order = json.dumps([question, seconds, memory_bytes, sys.path]).encode()
    command = [sys.executable, "-I", "-S", "-c", f"{_PROLOGUE}{program}{_EPILOGUE}"]
    # If the program loads NumPy: threads of OpenBLAS, one for each core, would spend the time and memory of the answer.
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    answer = output_of(command, order, 4 * seconds + 2, LONGEST_ANSWER, environment)
    try:
        if answer is not None:
            return json.loads(answer)
    except (ValueError, RecursionError):
        pass
    raise OutOfTime


# Quotations of what other programs printed: a few lines of bounded length, whatever the program printed.

LINES = 5
CHARACTERS = 300  # of a line
CUT = "…"


def shortened(line: str, most: int = CHARACTERS) -> str:
    """Return a line of at most `most` characters; "…" replaces the rest."""
    return line if len(line) <= most else line[: most - len(CUT)] + CUT


def quoted(lines: Iterable[str]) -> str:
    """Return the first few of these lines, each shortened."""
    return "\n".join(shortened(line) for line, _ in zip(lines, range(LINES), strict=False))


def last_lines(text: str) -> str:
    """Return the last few lines of a program's output, each shortened: enough to see why it failed."""
    return quoted(text.strip().splitlines()[-LINES:])


def some(names: Iterable[str], most: int = 8) -> str:
    """Return names in a sentence, the first few of many."""
    every = list(names)
    more = [f"{len(every) - most} more"] if len(every) > most else []
    return ", ".join([*(shortened(name) for name in every[:most]), *more])


# Regular expressions that users type, or that a project's file holds: matching them takes a few seconds at most.
#
# An expression such as ``(.*)*X`` takes longer than the age of the universe to not match a name of 100 letters. All
# expressions of a process share one allowance of processor time; it refills slowly, so that a long session keeps it.

ALLOWANCE_S = 3.0  # of processor time
REFILL = 0.1  # of the time that passes
LONGEST_NAME = 4_000  # characters of a name that are matched
LONGEST_PATTERN = 1_000
How = Literal["search", "fullmatch"]


@dataclass(frozen=True)
class NamePattern:
    """A user's regular expression; `origin` is where it comes from, such as ``--kernel-name``."""

    text: str
    origin: str
    example: str = "regex:softmax"  # a valid one to type instead

    def found_in(self, names: Iterable[str]) -> bool:
        """Return whether it matches a part of any of these names; raise UsageError if that takes too long."""
        return self._matches("search", names)

    def is_one_of(self, names: Iterable[str]) -> bool:
        """Return whether it matches any of these names whole; raise UsageError if that takes too long."""
        return self._matches("fullmatch", names)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The compiled expression; raises UsageError if it is not valid."""
        if len(self.text) > LONGEST_PATTERN:
            raise UsageError(
                f"{self.origin}: the regular expression {shortened(self.text, 60)!r} has {len(self.text):,} characters",
                f"the maximum is {LONGEST_PATTERN:,}: {self.example}",
            )
        try:
            with within(_allowance.left()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about syntax that a later Python may read differently
                return re.compile(self.text)
        except OutOfTime:
            raise self._slow() from None
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            raise UsageError(
                f"{self.origin}: {self.text!r} is not a valid regular expression: {error}",
                f"escape *, ? and ( with \\: {self.example}",
            ) from error

    def _matches(self, how: How, names: Iterable[str]) -> bool:
        shown = tuple(name[:LONGEST_NAME] for name in names)
        expression = self.compiled
        try:
            return _here(expression, how, shown) if interruptible() else _elsewhere(expression.pattern, how, shown)
        except OutOfTime:
            raise self._slow() from None

    def _slow(self) -> UsageError:
        _allowance.refill()  # another command follows the error
        return UsageError(
            f"{self.origin}: matching the regular expression {shortened(self.text, 60)!r} takes longer than "
            f"{ALLOWANCE_S:g} s",
            f"do not repeat what is repeated itself, such as (.*)*: {self.example}",
        )


class _Allowance:
    """Processor time for matching; spent time is refilled at REFILL of the time that passes."""

    def __init__(self) -> None:
        self._spent, self._since = 0.0, time.monotonic()

    def left(self) -> float:
        now = time.monotonic()
        self._spent = max(0.0, self._spent - REFILL * (now - self._since))
        self._since = now
        if self._spent >= ALLOWANCE_S:
            raise OutOfTime
        return max(0.01, ALLOWANCE_S - self._spent)

    def spend(self, seconds: float) -> None:
        self._spent += seconds

    def refill(self) -> None:
        self._spent = 0.0


_allowance = _Allowance()


def _here(expression: re.Pattern[str], how: How, names: tuple[str, ...]) -> bool:
    match = getattr(expression, how)
    limit, start = _allowance.left(), time.process_time()
    try:
        with within(limit):
            return any(match(name) for name in names)
    finally:
        _allowance.spend(time.process_time() - start)


_PROGRAM = """
import re, time
pattern, how, names = question
start, match = time.process_time(), getattr(re.compile(pattern), how)
answer = [any(match(name) for name in names), time.process_time() - start]
"""


@lru_cache(maxsize=4096)
def _elsewhere(pattern: str, how: How, names: tuple[str, ...]) -> bool:
    """Match in a separate process: a match in a thread cannot be interrupted."""
    limit = _allowance.left()
    try:
        matches, spent = answer_of(_PROGRAM, [pattern, how, names], limit)
    except OutOfTime:
        _allowance.spend(limit)
        raise
    _allowance.spend(spent)
    return bool(matches)


# Characters, as many as Linux takes in one argument. shlex's time grows with the square of a word's length.
MOST = 1 << 17


def split(text: str, what: str, example: str) -> tuple[str, ...]:
    """Return the words of shell-quoted text; raise UsageError, whose hint is the `example`, if it cannot be split."""
    if len(text) > MOST:
        raise UsageError(f"{what} has {len(text):,} characters, and at most {MOST:,} are split into words", example)
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{what} cannot be split: {error}", example) from error


def split_all(texts: Iterable[str], what: str, example: str) -> tuple[str, ...]:
    """Return the words of several texts, one after another; see `split`."""
    return tuple(word for text in texts for word in split(text, what, example))


# A limit of address space (``ulimit -v``): NumPy under it, and the errors that mean too little memory.
#
# NumPy's OpenBLAS takes memory for each core as it is loaded. If it gets none, it ends the process with exit code 1,
# which here means that a gate failed. So if there is a limit, a child process loads it first.

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
