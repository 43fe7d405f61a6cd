"""What conflicts in a kernel, but not in an array that its source declares: the kernel is not clean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from ncu_swizzle.catalog import includes
from ncu_swizzle.fix.result import TileFix
from ncu_swizzle.patch.headers import not_rewritten
from ncu_swizzle.patch.subject import FixSubject
from ncu_swizzle.proof.excess import of_launch
from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import shared_declarations
from ncu_swizzle.source.scopes import Scopes

UNKNOWN = "the wavefronts of some accesses are unknown"


def left_out(subject: FixSubject, mapped: bool) -> Iterator[TileFix]:
    """Yield the arrays with excess that the source does not declare, or whatever else of it is in no tile.

    With `mapped`, the source has mappings by now, and what they leave is not asked for again.
    """
    arrays = (*subject.unplaced, *subject.placed.values())
    launch = of_launch(subject.emulated, {array.name: array.span for array in arrays})
    outside = [array.name for array in subject.unplaced if launch.moved[array.name] != 0]
    for name in outside:
        yield _declared_elsewhere(subject, name, launch.moved[name])
    if not (outside or mapped or subject.conflicting) and launch.total != 0:
        name = next((name for name, excess in launch.moved.items() if excess != 0), "shared memory")
        why = UNKNOWN if launch.total is None else f"no index in {subject.file.name} accounts for it"
        yield _refused(subject, name, launch.total, why)


def _declared_elsewhere(subject: FixSubject, name: str, excess: int | None) -> TileFix:
    source = subject.target.source.name
    for path, text in subject.emulated.profile.sources.items():
        file = PurePath(path).name
        if file != source and (line := _declaration(text, file, name)):
            header = includes.plain(subject.target.family.root / path)
            why = f"it is declared there, and {not_rewritten(subject.target, header)}"
            made = TileFix(name, line, excess or 0, unknown=excess is None, file=subject.named(path))
            return replace(made, reason=why, reason_line=line, reason_file=made.file)
    return _refused(subject, name, excess, f"{name} is not declared in {source}")


def _declaration(text: str, file: str, name: str) -> int:
    """Return the line of a text that declares a shared array; 0 if none does."""
    if "__shared__" not in text or name not in text:
        return 0
    parsed = cuda.parse(text.encode("utf-8", "surrogateescape"), file)
    found = (made for made in shared_declarations(Scopes(parsed)) if made.name == name)
    return next((parsed.line(made.declared) for made in found), 0)


def _refused(subject: FixSubject, name: str, excess: int | None, why: str) -> TileFix:
    """Return the worst access through which the source reaches an array: its own line, and where it leads."""
    accesses = [access for access in subject.emulated.profile.shared() if access.excessive != 0 and access.stack]
    if not accesses:
        return TileFix(name, 1, excess or 0, unknown=excess is None, reason=why, reason_line=1)
    stack = max(accesses, key=lambda access: access.excessive or 0).stack
    source = subject.target.source.name
    line = next((number for path, number in stack if PurePath(path).name == source), 1)
    inner, number = PurePath(stack[0][0]).name, stack[0][1]
    there = "" if inner == source else f"; the access is at {inner}:{number}"
    return TileFix(name, line, excess or 0, unknown=excess is None, reason=f"{why}{there}", reason_line=line)
