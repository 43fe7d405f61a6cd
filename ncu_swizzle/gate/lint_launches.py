"""Lint what a program launched: each launch of a launches file, emulated and judged line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.cubin import demangled
from ncu_swizzle.engines.context import Progress
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.gate.lines import KernelLint
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.gate.marked import marked
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place
from ncu_swizzle.jobs import replays
from ncu_swizzle.jobs.replays import ReplaySettings
from ncu_swizzle.launches.model import CapturedLaunch

MEMORY = "ncu-swizzle capture --memory also keeps what memory holds"


def lint(
    file: str,
    options: LintOptions,
    settings: EmulationSettings,
    judge: Callable[[Emulated], Iterable[Check]],
    on_progress: Progress,
) -> Iterator[KernelLint]:
    """Yield the lint of each of a file's launches; one that cannot be emulated is inconclusive.

    Raises BadFile or DamagedFile, and UsageError if a new build does not fit.
    """
    user_kernels.refuse_description(options.description, file)
    with replays.opened(Path(file), ReplaySettings(settings, build=options.build), on_progress) as launches:
        yield KernelLint(file, (), tuple(launches.manifest.notes))
        for launch in launches.chosen:
            try:
                emulated = launches.emulate(launch)
            except UsageError:
                raise
            except NcuSwizzleError as error:
                check = _unjudged(file, launch, error)
                yield KernelLint(check.kernel, (check,))
                continue
            checks = tuple(
                replace(check, hint=check.hint or MEMORY) if check.outcome is Outcome.inconclusive else check
                for check in marked(judge(emulated), [emulated.profile])
            )
            yield KernelLint.of(emulated, checks)


def _unjudged(file: str, launch: CapturedLaunch, error: NcuSwizzleError) -> Check:
    name = demangled.function(demangled.demangle(launch.kernel))
    return Check(Outcome.inconclusive, name, MAX_DEGREE, str(error), place=Place(file), hint=error.hint)
