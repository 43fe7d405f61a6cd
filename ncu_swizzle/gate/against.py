"""Fail only what got worse: each line that conflicts, compared with another commit."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath

from ncu_swizzle.base.errors import NcuSwizzleError, UnknownKernel, UsageError
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cycles.simulated import saved_by
from ncu_swizzle.engines.settings import Progress, Request
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.judge import LineAccesses
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.verdict import BOUNDS, MAX_DEGREE, Change, Check, Outcome, Verdict
from ncu_swizzle.kernels import git, nvcc_options
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.reports.options import LintOptions
from ncu_swizzle.reports.remarks import fewer_cycles

# The sources of another commit, linted as they were, for ``lint --against``.


@dataclass(frozen=True, kw_only=True)
class Base:
    """The kernels of a commit by name, why others are unknown, and the texts of its files by path from here."""

    name: str
    kernels: tuple[KernelLint, ...]
    unknown: tuple[str, ...] = ()
    texts: dict[str, Sequence[str]] = field(default_factory=dict)


def lint_base(
    files: Sequence[str],
    description: KernelDescription,
    request: Request,
    options: LintOptions,
    on_progress: Progress,
) -> Base:
    """Lint the files as they were at the merge base of the current branch and the commit in the options.

    Raises UsageError outside of a checkout, and if it is not a commit.
    """
    here = Path(os.path.realpath(Path.cwd()))
    top = git.top(here)
    if top is None:
        raise UsageError(f"{here} is in no git checkout", "run lint --against in the checkout of your sources")
    commit = git.branched_from(here, options.against)
    with scratch() as folder:
        (folder / ".git").mkdir()  # limits what project files may read, as in the checkout
        left_out = {Path(os.path.realpath(folder)) / path for path in git.unpack(here, commit, folder)}
        there = folder / here.relative_to(os.path.realpath(top))
        there.mkdir(parents=True, exist_ok=True)

        def moved(text: str) -> str:
            """Translate an absolute path in the checkout to one in the folder."""
            path = Path(text)
            inside = path.is_absolute() and path.is_relative_to(top)
            return str(folder / path.relative_to(top)) if inside else text

        sources = replace(description.sources, config=moved(description.sources.config))

        def lint(file: str) -> Sequence[KernelLint]:
            there_described = replace(description, sources=sources)
            return list(linting.lint_kernels((file,), there_described, request, options, on_progress))

        with contextlib.chdir(there):
            return _linted(options.against, list(map(moved, files)), left_out, lint)


def _linted(
    name: str, files: Sequence[str], left_out: Collection[Path], lint: Callable[[str], Sequence[KernelLint]]
) -> Base:
    """Return the lint of those files that the commit has; `left_out` are paths that git did not unpack."""
    kernels: list[KernelLint] = []
    unknown: list[str] = []
    for file in files:
        source = file.partition("::")[0]
        # A file is new if it is missing here; a bare word is the name of a kernel.
        if (Path(source).suffix or len(PurePosixPath(file).parts) > 1) and not Path(source).exists():
            path = Path(os.path.abspath(source))  # noqa: PTH100 - resolve() follows links
            if not {path, *path.parents}.isdisjoint(left_out):
                unknown.append(
                    f"{file} of {name} was not judged: it leads out of the checkout, or is not in this clone"
                )
            continue
        try:
            kernels += lint(file)
        except UnknownKernel:
            continue
        except NcuSwizzleError as error:
            unknown.append(f"{file} of {name} was not judged: {error}")
    places = {line.place.file for kernel in kernels for line in kernel.lines if line.place}
    return Base(
        name=name,
        kernels=tuple(kernels),
        unknown=tuple(unknown),
        texts={file: text for file in places if (text := lines_of(file))},
    )


def lines_of(file: str) -> Sequence[str]:
    """Return the lines of a source in the checkout; none if it cannot be read."""
    return nvcc_options.source_bytes(file, nvcc_options.readable()).decode("utf-8", "replace").splitlines()


Key = tuple[str, str, int]  # an access kind, a file and a line
NOWHERE = ("", 0)  # the file and line of accesses that have none, as in PTX and in cubins without -lineinfo


def verdict(kernels: Sequence[KernelLint], base: Base) -> Verdict:
    """Return the verdict on what got worse. Anything unknown, then or now, stays unknown."""
    pairs = list(with_earlier_kernels(kernels, base))
    checks = [check for now, before in pairs for check in _checks(now, before, base)]
    notes = [note for now in kernels for note in now.notes]
    notes += [note for now, before in pairs if before and (note := _pace(now, before, base))]
    changes = [change for now, before in pairs for change in _changes(now, before)]
    return Verdict(
        checks=tuple(dict.fromkeys(checks)),
        notes=tuple(dict.fromkeys((*notes, *base.unknown))),
        unknowns=tuple(dict.fromkeys(unknown for now in kernels for unknown in linting.unknown_notes(now))),
        changes=tuple(changes),
    )


def _pace(now: KernelLint, before: KernelLint, base: Base) -> str:
    """Describe how many more or fewer cycles the same launch would take; empty if none, or unknown."""
    if now.profile is None or before.profile is None or now.launch != before.launch:
        return ""
    saved = saved_by(before.profile.simulated, now.profile.simulated)
    if not saved or not saved.point:
        return ""
    return f"{now.name} would take {fewer_cycles(saved)} than in {base.name}: both simulated, see docs/cycles.md."


def with_earlier_kernels(kernels: Sequence[KernelLint], base: Base) -> Iterator[tuple[KernelLint, KernelLint | None]]:
    """Yield each kernel with its earlier version: the same launch if a kernel has several, in their order."""
    left: dict[str, list[KernelLint]] = defaultdict(list)
    for before in base.kernels:
        left[before.name].append(before)
    for now in kernels:
        candidates = left[now.name]
        chosen = next(
            (candidate for candidate in candidates if candidate.launch == now.launch), next(iter(candidates), None)
        )
        if chosen:
            candidates.remove(chosen)
        if now.checks:
            yield now, chosen


def _checks(now: KernelLint, before: KernelLint | None, base: Base) -> Iterator[Check]:
    if before is None and not base.unknown:
        yield from now.checks  # a new kernel
        return
    if before is None or not before.launch:
        reasons = (*(check.message for check in before.checks), *before.notes) if before else base.unknown
        why = next(iter(reasons), "it was not run")
        yield from (_unsure(check, base, why) for check in now.checks)
        return
    comparison = Earlier(now, before, base)
    for check in now.checks:
        yield comparison.judged(check)


def _unsure(check: Check, base: Base, why: str) -> Check:
    if check.outcome is not Outcome.failed:
        return check
    return replace(check, outcome=Outcome.inconclusive, message=f"{check.message}; unknown in {base.name}: {why}")


@dataclass(frozen=True)
class Was:
    """What a line, or the changed lines together, had before."""

    excess: int = 0
    degree: float = 1.0
    unknown: bool = False

    @classmethod
    def of(cls, lines: Sequence[LineAccesses]) -> Was:
        """Return the sum of lines; their worst degree."""
        return cls(
            sum(line.excessive for line in lines),
            max((line.degree for line in lines), default=1.0),
            any(line.unknown for line in lines),
        )


class Earlier:
    """An earlier version of a kernel. Lines are matched by a diff; those that changed are compared together."""

    def __init__(self, now: KernelLint, before: KernelLint, base: Base) -> None:
        self._base = base
        self._same_launch = now.launch == before.launch
        self._now = {_key(line): line for line in now.lines}
        self._before = {_key(line): line for line in before.lines}
        self._bounds = [check.place for check in before.checks if check.criterion == BOUNDS]
        kept = {self._earlier(key) for key in self._now}
        self._gone = [line for key, line in self._before.items() if key not in kept]
        self._new = [line for key, line in self._now.items() if self._earlier(key) is None]

    def _earlier(self, key: Key) -> Key | None:
        access, file, line = key
        earlier = self._line(file, line)
        return (access, file, earlier) if earlier else None

    def _line(self, file: str, line: int) -> int | None:
        """Return the number that an unchanged line had; 0 means no line, as in PTX."""
        if not line:
            return None
        return _same_lines(tuple(self._base.texts.get(file, ())), tuple(lines_of(file))).get(line)

    def judged(self, check: Check) -> Check:
        """Turn a failed check into a passed one if it was no better before, inconclusive if that is unknown."""
        if check.outcome is not Outcome.failed or check.place is None:
            return check
        if check.criterion == BOUNDS:
            earlier = self._line(check.place.file, check.place.line)
            known = any(was and (was.file, was.line) == (check.place.file, earlier) for was in self._bounds)
            passed = replace(check, outcome=Outcome.passed, message=f"as in {self._base.name}: {check.message}")
            return passed if known else check
        if check.criterion != MAX_DEGREE:
            return check
        place = (check.place.file, check.place.line) if check.place.line else NOWHERE
        line = self._now[check.access, *place]
        key = self._earlier(_key(line))
        lines_before = [self._before[key]] if key in self._before else []
        then = Was.of(lines_before if key else [gone for gone in self._gone if gone.access == line.access])
        now = Was.of([line] if key else [new for new in self._new if new.access == line.access])
        if then.unknown:
            return _unsure(check, self._base, "its wavefronts are")
        # With another grid or problem the counts change by themselves: then only degrees can be compared.
        worse = now.excess > then.excess if self._same_launch else now.degree > then.degree
        was = f"in {self._base.name}, {then.excess:,} excessive, degree {then.degree:.4g}"
        if worse:
            return replace(check, message=f"{check.message}; {was}")
        return replace(check, outcome=Outcome.passed, message=f"no worse: {check.message}; {was}")


def _key(line: LineAccesses) -> Key:
    return line.access, *((line.place.file, line.place.line) if line.place else NOWHERE)


@cache
def _same_lines(before: tuple[str, ...], now: tuple[str, ...]) -> dict[int, int]:
    """Return the earlier number of each line that did not change, counted from 1."""
    blocks = difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return {block.b + step + 1: block.a + step + 1 for block in blocks for step in range(block.size)}


def _changes(now: KernelLint, before: KernelLint | None) -> Iterator[Change]:
    """Yield a kernel's accesses by kind, then and now."""
    for access in sorted({line.access for kernel in (now, before) if kernel for line in kernel.lines}):
        yield Change(now.name, access, *_sums(before, access), *_sums(now, access))


def _sums(kernel: KernelLint | None, access: str) -> tuple[int | None, int | None]:
    """Return the wavefronts of an access kind and the ideal; None if unknown, or there is no such kernel."""
    lines = [line for line in kernel.lines if line.access == access] if kernel and kernel.launch else None
    if lines is None or any(line.unknown for line in lines):
        return None, None
    return sum(line.wavefronts for line in lines), sum(line.ideal for line in lines)
