"""Why ncu failed: from its output, its exit status and the state of the machine to an error. Pure."""

from __future__ import annotations

import re

from ncu_swizzle.bounds.quotation import last_lines, shortened
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, TimeLimit
from ncu_swizzle.ncu.failures import (
    BUSY,
    FAILURES,
    NO_KERNELS,
    NOTES,
    OWN_TMPDIR,
    UNWRITABLE,
    WITHOUT_NCU,
    WRITABLE_HOME,
    Failure,
    Log,
    State,
)


def diagnose(log: str, status: int, state: State | None = None) -> NcuSwizzleError:
    """Return the error that explains why ncu failed; for an unknown failure it quotes the end of the output."""
    state = state or State()
    known = Log.of(log)
    failure = _recognized(known)
    if state.full and (failure is None or failure.number in (NO_KERNELS, UNWRITABLE)):
        return disk_full()
    if failure:
        match = failure.match(known)
        assert match
        return failure.error(_filled_in(failure.message, match), failure.hint)
    if state.lock:
        return EnvironmentLacking(f"ncu failed, and its lock file {state.lock} belongs to another user", OWN_TMPDIR)
    if not state.home_writable:
        return EnvironmentLacking("ncu failed, and the home folder is not writable", WRITABLE_HOME)
    return ProgramFailed(
        f"ncu {_end(status, state)}{quoted_end(log)}", f"{WITHOUT_NCU}; to use another ncu: --ncu PATH"
    )


def nothing_profiled(log: str, state: State) -> NcuSwizzleError:
    """Return the error for an ncu that succeeded but left a report without kernels."""
    return diagnose(f"{log}\n==WARNING== No kernels were profiled.", 0, state)


def recognized_failure(log: str) -> Failure | None:
    """Return the first known failure that matches the log."""
    return _recognized(Log.of(log))


def _recognized(log: Log) -> Failure | None:
    return next((failure for failure in FAILURES if failure.match(log)), None)


def _filled_in(message: str, match: re.Match[str]) -> str:
    return message.format(**{name: shortened(text) for name, text in match.groupdict().items()})


def busy(log: str) -> bool:
    """Return whether ncu failed because another profiler held the counters, which may be temporary."""
    failure = recognized_failure(log)
    return failure is not None and failure.number == BUSY


def disk_full() -> NcuSwizzleError:
    """Return the error for a full disk."""
    return EnvironmentLacking(
        "the disk is full: ncu could not write its report", "free some space, or write to another disk with -o"
    )


def hung(error: TimeLimit) -> TimeLimit:
    """Return the time limit's error with a hint on what makes programs hang under ncu (failure 17)."""
    return TimeLimit(
        str(error),
        "raise the limit with --timeout SECONDS, or profile a smaller --problem; a kernel that waits for another one "
        "hangs because ncu serializes kernels: try --replay-mode application",
    )


def half_written(reason: str, log: str, state: State) -> NcuSwizzleError:
    """Return the error for an ncu that succeeded but left a damaged report."""
    if state.full:
        return disk_full()
    return ProgramFailed(f"ncu left a damaged report: {reason}{quoted_end(log)}", "profile again")


def notes(log: str) -> tuple[str, ...]:
    """Return ncu's non-fatal warnings, each once, in the order of NOTES."""
    known = Log.of(log)
    matches = ((known.find(pattern), meaning) for pattern, meaning in NOTES)
    return tuple(f"{shortened(_filled_in(meaning, match)).rstrip('.')}." for match, meaning in matches if match)


def quoted_end(log: str) -> str:
    """Return the last lines of a program's output, to append to a message; empty if there are none."""
    last = last_lines(log)
    return f"; its last lines:\n{last}" if last else ""


def _end(status: int, state: State) -> str:
    report = "and wrote no report" if state.report_bytes is None else "and left a report that cannot be trusted"
    return f"was killed by signal {-status}" if status < 0 else f"exited with code {status} {report}"
