"""Regular expressions that users type, or that a project's file holds: matching them takes a few seconds at most.

An expression such as ``(.*)*X`` takes longer than the age of the universe to not match a name of 100 letters. All
expressions of a process share one allowance of processor time; it refills slowly, so that a long session keeps it.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from ncu_swizzle.bounds.deadline import OutOfTime, interruptible, within
from ncu_swizzle.bounds.elsewhere import answered
from ncu_swizzle.bounds.quotation import shortened
from ncu_swizzle.errors import UsageError

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
    example: str = "regex:softmax"  # what to type instead

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
                warnings.simplefilter("ignore")  # of what a later Python may read differently
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
        _allowance.refill()  # what follows the error is another command
        return UsageError(
            f"{self.origin}: matching the regular expression {shortened(self.text, 60)!r} takes longer than "
            f"{ALLOWANCE_S:g} s",
            f"do not repeat what is repeated itself, such as (.*)*: {self.example}",
        )


class _Allowance:
    """Processor time for matching: what is spent comes back with REFILL of the time that passes."""

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
    """Match in a process of its own: a match in a thread cannot be interrupted."""
    limit = _allowance.left()
    try:
        found, spent = answered(_PROGRAM, [pattern, how, names], limit)
    except OutOfTime:
        _allowance.spend(limit)
        raise
    _allowance.spend(spent)
    return bool(found)
