"""What made ncu fail: what it printed, how it ended and what lay around → an error. Pure."""

from __future__ import annotations

import re

from ncu_swizzle.child import last_lines
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, TimeLimit
from ncu_swizzle.ncu.failures import (
    BUSY,
    FAILURES,
    NO_KERNELS,
    NOTES,
    OWN,
    OWN_TMPDIR,
    UNWRITABLE,
    WITHOUT_NCU,
    WRITABLE_HOME,
    Failure,
    State,
)

LONGEST_NOTE = 300


def diagnose(log: str, status: int, state: State = State()) -> NcuSwizzleError:
    """Return the error that explains how ncu failed, with the end of what it printed where nothing does."""
    found = recognise(log)
    if state.full and (found is None or found.number in (NO_KERNELS, UNWRITABLE)):
        return full()
    if found:
        match = found.found_in(log)
        assert match
        return found.error(found.message.format(**match.groupdict()), found.hint)
    if state.lock:
        return EnvironmentLacking(f"ncu failed, and its lock file {state.lock} belongs to another user", OWN_TMPDIR)
    if not state.home_writable:
        return EnvironmentLacking("ncu failed, and the home folder cannot be written to", WRITABLE_HOME)
    return ProgramFailed(f"ncu {_end(status, state)}{said(log)}", f"{WITHOUT_NCU}; another ncu: --ncu PATH")


def nothing(log: str, state: State) -> NcuSwizzleError:
    """Return the error for an ncu that ended well and left a report without kernels."""
    return diagnose(f"{log}\n==WARNING== No kernels were profiled.", 0, state)


def recognise(log: str) -> Failure | None:
    """Return the first failure whose text is in the log."""
    return next((failure for failure in FAILURES if failure.found_in(log)), None)


def busy(log: str) -> bool:
    """Say whether ncu failed because somebody else held the counters, which may pass."""
    found = recognise(log)
    return found is not None and found.number == BUSY


def full() -> NcuSwizzleError:
    """Return the error of a full disk."""
    return EnvironmentLacking("the disk is full: ncu could not write its report", "free some space, or -o elsewhere")


def hung(error: TimeLimit) -> TimeLimit:
    """Return the time limit's error with what makes programs hang under ncu: failure 17."""
    return TimeLimit(
        str(error),
        "give it more with --timeout SECONDS, or profile a smaller --problem; a kernel that waits for another one "
        "never ends while ncu runs one at a time: --replay-mode application",
    )


def half_written(reason: str, log: str, state: State) -> NcuSwizzleError:
    """Return the error for an ncu that ended well and left a report that is not whole."""
    if state.full:
        return full()
    return ProgramFailed(f"ncu left a report that is not whole: {reason}{said(log)}", "profile again")


def notes(log: str) -> tuple[str, ...]:
    """Return what ncu warned of although it went on, each once, in the order above."""
    told = []
    for pattern, meaning in NOTES:
        found = re.search(f"{OWN}(?:{pattern})", log)
        if found:
            told.append(_shorten(meaning.format(**found.groupdict())).rstrip(".") + ".")
    return tuple(told)


def said(log: str) -> str:
    """Return the end of what a program printed as the end of a message; empty where it printed nothing."""
    last = last_lines(log)
    return f"; its last lines:\n{last}" if last else ""


def _end(status: int, state: State) -> str:
    report = "and wrote no report" if state.report_bytes is None else "and left a report that is not to be trusted"
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status} {report}"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_NOTE else text[: LONGEST_NOTE - 1] + "…"
