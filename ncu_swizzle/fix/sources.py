"""Fix the kernels of a source, one after the other: one patch for all of them, which is written as a whole or not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base import pool
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NotWritable, UsageError
from ncu_swizzle.base.files import note_finished, read_bytes, replacing
from ncu_swizzle.base.pool import ItemOutcome, Work
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.settings import Done, Progress, Request, silent
from ncu_swizzle.fix import edits
from ncu_swizzle.fix.candidates import FixOptions
from ncu_swizzle.fix.edits import parted
from ncu_swizzle.fix.fixing import fix_kernel
from ncu_swizzle.fix.result import KernelFix, unmeasured
from ncu_swizzle.fix.trial import FixJob
from ncu_swizzle.kernels import device, limits, naming
from ncu_swizzle.kernels.family import BINARIES, PYTHON, Target
from ncu_swizzle.kernels.options import KernelDescription, is_launches
from ncu_swizzle.kernels.toolchain import INSTALL

if TYPE_CHECKING:
    from ncu_swizzle.gate.verdict import Verdict

SEED = 1  # of random inputs


def anywhere(folder: Path) -> bool:  # noqa: ARG001
    """Allow the headers of any folder."""
    return True


@dataclass(frozen=True, kw_only=True)
class FixQuery:
    """How kernels are fixed and reported: the options of ``ncu-swizzle fix``."""

    request: Request = Request()
    description: KernelDescription = KernelDescription()
    options: FixOptions = FixOptions()
    progress: Progress = silent
    on_gpu: bool | None = None  # measure what is proved, if there is a GPU; None: not even say that it was not
    within: Callable[[Path], bool] = anywhere  # whether headers of a folder may be read


@dataclass(frozen=True)
class ChangedFile:
    """A file of a fix, before and after."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True, kw_only=True)
class SourceFix:
    """A source with the fixes of its kernels; the text before and after all of them, with its headers spliced in."""

    source: Path
    before: bytes
    after: bytes
    kernels: tuple[KernelFix, ...]
    read: frozenset[Path] = frozenset()  # what the kernels are compiled from

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def outcome(self) -> str:
        """``proved`` if a fix was, ``clean`` if nothing conflicts, else ``unknown`` or ``refused``."""
        if any(kernel.proved for kernel in self.kernels):
            return "proved"
        if all(kernel.clean for kernel in self.kernels):
            return "clean"
        return "unknown" if any(kernel.unknown for kernel in self.kernels) else "refused"

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """The files that change by what is proved."""
        return self._changed(self.before, self.after)

    @property
    def unproved_files(self) -> tuple[ChangedFile, ...]:
        """The files that what is not proved would change, kernel by kernel, on top of what is proved of each."""
        patches = ((kernel.after, kernel.candidate) for kernel in self.kernels if kernel.candidate)
        return tuple(file for patch in patches for file in self._changed(*patch))

    def _changed(self, before: bytes, after: bytes) -> tuple[ChangedFile, ...]:
        source = limits.plain(self.source)
        old, new = (parted(source, text) for text in (before, after))
        own = {source: self.source}  # as it was named
        return tuple(
            ChangedFile(own.get(file, file), old[file], text) for file, text in new.items() if old[file] != text
        )


def fix_all(what: str, query: FixQuery = FixQuery()) -> SourceFix:
    """Return the fix of the kernels that a word stands for: a file, or a name.

    Raises UsageError for what has no source to patch, and whatever emulating the kernels raises.
    """
    if missing := EmulationSettings.of(query.request).toolchain.lacking():
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    targets = _targets(what, query)
    fixed = fix_targets(targets, query)
    kernels = zip(fixed.kernels, targets, strict=True)
    suggested = (replace(kernel, suggest=_suggesting(what, query, target)) for kernel, target in kernels)
    return replace(fixed, kernels=tuple(suggested))


def fix_each(words: Sequence[str], query: FixQuery) -> Iterator[ItemOutcome]:
    """Yield the fix of each word, or why there is none, in order: on several cores, unless a GPU measures."""
    measures = bool(query.on_gpu) and not device.absent()
    yield from _on_cores(_fixed_word, words, query, 1 if measures else pool.jobs_for(query.request.jobs))


def _on_cores(work: Work, items: Sequence[Any], query: FixQuery, jobs: int) -> Iterator[ItemOutcome]:
    quiet = replace(query, progress=silent)
    yield from pool.in_order(pool.outcomes(work, quiet, items, jobs, query.progress))


def _fixed_word(query: FixQuery, word: str, progress: Progress) -> SourceFix:
    return fix_all(word, replace(query, progress=progress))


def _fixed_targets(query: FixQuery, targets: Sequence[Target], progress: Progress) -> SourceFix:
    return fix_targets(targets, replace(query, progress=progress))


def fix_targets(targets: Sequence[Target], query: FixQuery) -> SourceFix:
    """Return the fix of kernels of one source."""
    settings = EmulationSettings.of(query.request)
    sources = query.description.sources
    project = edits.project_of(targets[0].source, sources.config, sources.trust, query.within)
    targets = [_sampled(edits.with_headers(target, project)) for target in targets]
    before = text = edits.source_of(targets[0])
    kernels: list[KernelFix] = []
    for number, target in enumerate(targets):
        query.progress(target.name, Done(0))
        beside = [*targets[:number], *targets[number + 1 :]]
        job = FixJob(
            target=target, text=text, settings=settings, options=query.options, beside=beside, sources=sources,
            project=project, cycles=query.request.cycles,
        )  # fmt: skip
        try:
            kernel = fix_kernel(job, [kernel.proof for kernel in kernels if kernel.proof])
        except NcuSwizzleError as error:
            if not beside:
                raise
            kernel = KernelFix(kernel=target.name, source=target.source, before=text, after=text, notes=(str(error),))
        kernels.append(kernel)
        text = kernel.after
        query.progress(target.name, Done(1))
    return _finished(targets, query, before, text, kernels, project=project)


def _sampled(target: Target) -> Target:
    """Return a target whose counts are those of a random sample if data decide: a proof holds for all data."""
    sample = SEED if target.family.sample is None else target.family.sample
    return replace(target, family=replace(target.family, sample=sample))


def _finished(
    targets: Sequence[Target], query: FixQuery, before: bytes, after: bytes, kernels: Sequence[KernelFix], project: Path
) -> SourceFix:
    """Return the fix of a source with the measurements of its kernels, and a note on what was not checked."""
    finished = tuple(kernels)
    if query.on_gpu is not None and any(kernel.proved for kernel in kernels):
        finished = measured(kernels, targets, after, query)
    if not any(kernel.before != kernel.after for kernel in finished):  # the GPU may refute all of it
        after = before
    source = limits.plain(targets[0].source)
    old, new = (parted(source, text) for text in (before, after))
    if headers := sorted(file.name for file in new if file != source and new[file] != old.get(file)):
        note = (
            f"Not looked at: what includes {', '.join(headers)} from outside of {project}, and what reads it as text "
            "or forces its inclusion, such as NVRTC or a build file."
        )
        finished = tuple(
            replace(kernel, notes=(*kernel.notes, note)) if kernel.proved else kernel for kernel in finished
        )
    read = frozenset(Path(file) for target in targets for file in target.family.included())
    return SourceFix(source=targets[0].source, before=before, after=after, kernels=finished, read=read)


def measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, query: FixQuery
) -> tuple[KernelFix, ...]:
    """Return the fixes with what a GPU says of `text`, the source with all of them, or why none was asked."""
    if not query.on_gpu or device.absent():
        return unmeasured(kernels, "no GPU" if query.on_gpu else "--no-gpu")
    from ncu_swizzle.fix import on_gpu  # with the engine that launches kernels

    return on_gpu.measured(kernels, targets, text, EmulationSettings.of(query.request).toolchain)


# Which kernels to fix: those that words name, or that ``ncu-swizzle lint`` found to conflict.


def _targets(what: str, query: FixQuery) -> list[Target]:
    """Return the kernels; raise UsageError if they are not of one CUDA C++ source."""
    if is_launches(what):
        raise UsageError(
            f"{what}: captured launches keep no source that could be patched",
            "describe the kernel's launch and name its .cu file: ncu-swizzle init my.cu",
        )
    (named,) = naming.resolve([what], query.description, every=True)
    for skipped in named.skipped:
        raise UsageError(f"{skipped.name}: {skipped.reason}", naming.describing(what))
    targets = [target.sized(query.request.problem) for target in named.targets]
    if not targets:
        raise UsageError(f"{what} has no kernel whose launch is described", naming.describing(what))
    for target in targets:
        if not _has_source(target):
            raise UsageError(
                f"{target.name} has no CUDA C++ source to patch", "ncu-swizzle explain finds a mapping for it"
            )
    first = targets[0]
    other = next((target for target in targets if target.source.resolve() != first.source.resolve()), None)
    if other is not None:
        raise UsageError(
            f"{what} stands for several sources, such as {first.source.name} and {other.source.name}",
            f"name one kernel: ncu-swizzle fix {first.name}",
        )
    return targets


def _has_source(target: Target) -> bool:
    return not target.kernel.library and target.source.suffix not in (*BINARIES, PYTHON)


def _suggesting(what: str, query: FixQuery, target: Target) -> str:
    """Return the command that shows the mapping for a kernel: the same words, for ``explain``."""
    described = replace(query.description, problem=query.request.problem)
    by_name = not described.typed and (target.family.origin or target.family.shipped)
    return described.command("explain", target.name if by_name else what)


def fixes(
    files: Sequence[str],
    description: KernelDescription,
    request: Request,
    verdict: Verdict,
    progress: Progress = silent,
) -> list[SourceFix]:
    """Return the fix of each of lint's sources with a kernel that a check found to conflict."""
    from ncu_swizzle.gate.linting import kernels_in  # which has run
    from ncu_swizzle.gate.verdict import MAX_DEGREE

    conflicting = {check.kernel for check in verdict.checks if check.criterion == MAX_DEGREE and check.failed}
    by_source: dict[Path, list[Target]] = {}
    for kernel in kernels_in(files, description):
        if isinstance(kernel, Target) and _has_source(target := kernel.sized(description.problem)):
            by_source.setdefault(target.source.resolve(), []).append(target)
    wanted = [
        targets for targets in by_source.values() if not conflicting.isdisjoint(target.name for target in targets)
    ]
    query = FixQuery(request=request, description=description, progress=progress)
    fixed: list[SourceFix] = []
    for outcome in _on_cores(_fixed_targets, wanted, query, pool.jobs_for(request.jobs)):
        if isinstance(outcome.error, EnvironmentLacking):
            raise outcome.error
        # Of one that cannot be fixed, lint has said what is wrong with it.
        if not outcome.error and not any(meet(outcome.value, other) for other in fixed):
            fixed.append(outcome.value)
    return fixed


def meet(one: SourceFix, other: SourceFix) -> bool:
    """Return whether a fix changes a file that the other one was proved with: the next run will fix what is left."""
    changed = [{limits.plain(file.path) for file in fixed.files} for fixed in (one, other)]
    return bool(changed[0] & other.read or changed[1] & one.read)


# Write what was proved: all files, or none.


def _real(path: Path) -> Path:
    """Return the file that a symbolic link points to: it is rewritten, and the link stays a link."""
    return Path(os.path.realpath(path))


def written_together(files: Sequence[ChangedFile], hint: str) -> None:
    """Write files under temporary names, then rename them; what was renamed before one fails is put back.

    Raises UsageError with the hint if one is no longer what was read, NotWritable if one cannot be written.
    """
    for file in files:
        if read_bytes(file.path) != file.before:
            raise UsageError(f"{file.path} has changed since it was read", hint)
    try:
        with contextlib.ExitStack() as renamed:
            for file in files:
                renamed.enter_context(replacing(_real(file.path), like_before=True)).write(file.after)
    except NotWritable:
        for file in files:
            with contextlib.suppress(NotWritable):
                if read_bytes(file.path) == file.after:
                    with replacing(_real(file.path), like_before=True) as before:
                        before.write(file.before)
        raise
    for file in files:
        note_finished(file.path)
