"""What conflicts in a kernel, but not in an array that its source declares: a header has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ncu_swizzle.fix.excess import of_launch
from ncu_swizzle.fix.result import TileFix
from ncu_swizzle.fix.subject import FixSubject
from ncu_swizzle.profiles.counts import Instruction

UNKNOWN = "the wavefronts of some accesses are unknown"


def left_out(subject: FixSubject, mapped: bool) -> Iterator[TileFix]:
    """Yield the arrays with excess that the source does not declare, or whatever else of it is in no tile.

    With `mapped`, the source has mappings by now, and what they leave is not asked for again.
    """
    spans = {array.name: array.span for array in (*subject.unplaced, *subject.placed.values())}
    launch = of_launch(subject.emulated, spans)
    outside = [array.name for array in subject.unplaced if launch.moved[array.name] != 0]
    for name in outside:
        yield _refused(subject, name, launch.moved[name], f"{name} is not declared in {subject.file.name}")
    if not (outside or mapped or subject.conflicting) and launch.total != 0:
        name = next((name for name, excess in launch.moved.items() if excess != 0), "shared memory")
        why = f"no index in {subject.file.name} accounts for it"
        yield _refused(subject, name, launch.total, UNKNOWN if launch.total is None else why)


def _refused(subject: FixSubject, name: str, excess: int | None, why: str) -> TileFix:
    """Return the worst access through which the source reaches an array: its own line, and where it leads."""
    accesses = [access for access in subject.emulated.profile.shared() if access.excessive != 0 and access.stack]
    worst = max(accesses, key=lambda access: access.excessive or 0, default=None)
    line, there = _lines(subject, worst) if worst else (0, "")
    reason = f"{why}{f'; the access is at {there}' if there else ''}"
    return TileFix(name, line, excess or 0, unknown=excess is None, reason=reason, reason_line=line)


def _lines(subject: FixSubject, access: Instruction) -> tuple[int, str]:
    """Return the line of the source that an access is in or inlined into, and its place if that is elsewhere."""
    file, line = access.stack[0]
    own = next((number for path, number in access.stack if PurePath(path).name == subject.file.name), 0)
    return own, "" if PurePath(file).name == subject.file.name else f"{PurePath(file).name}:{line}"
