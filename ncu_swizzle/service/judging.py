"""`lint` and `check`: which lines conflict, and whether profiles keep their limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ncu_swizzle.api import functions
from ncu_swizzle.catalog import kernel_files
from ncu_swizzle.catalog.family import SOURCE
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.gate import lint_inputs, linting
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped, Variant
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Verdict
from ncu_swizzle.model import own_kernels
from ncu_swizzle.service.answer import Answer, Call, Row
from ncu_swizzle.service.caller import Caller, shown, without_empty
from ncu_swizzle.service.launch import LaunchGiven


def lint(
    caller: Caller, files: Sequence[str], launch: LaunchGiven = LaunchGiven(), max_degree: float | None = None
) -> Answer:
    """Answer which lines of sources conflict; every kernel is compiled and emulated, nothing runs on a GPU.

    Raises what `gate.linting.lint_kernels` raises, and Untrusted.
    """
    options = LintOptions(
        tuple(files),
        () if max_degree is None else (f"{max_degree:g}",),
        launch.described(),
        config=caller.entries(files, launch).config,
    )
    found = [variant for variant in lint_inputs.variants(options) if not isinstance(variant, Skipped)]
    for variant in found:
        caller.folders.variant(*variant)
    settings = EmulationSettings.of(caller.request(launch, "emulated"))
    kernels = list(linting.lint_kernels(options, settings, caller.progress))
    verdict = linting.verdict_of(kernels)
    drawn = launch.sample is None and any(kernel.sampling for kernel in kernels)
    following = _fixing(caller, verdict, files, launch, found) or (_sampled(files, launch) if drawn else None)
    return _answer(verdict, following)


def check(caller: Caller, entries: Sequence[str], launch: LaunchGiven = LaunchGiven(), **limits: Any) -> Answer:
    """Answer whether profiles or kernels keep their limits: the gate of CI."""
    config = caller.entries(entries, launch).config
    if limits.get("baseline"):
        caller.folders.path(limits["baseline"])
    given = {name: value for name, value in limits.items() if value is not None}
    verdict = functions.check(
        *entries, raising=False, engine=caller.folders.engine("auto"), config=config, timeout=caller.timeout_s,
        on_progress=caller.progress, **launch.keywords(), **given,
    )  # fmt: skip
    failing = {check.kernel for check in verdict.checks if check.outcome is Outcome.failed}
    worst = next((e for e in entries if not own_kernels.is_saved(e) and (e in failing or len(entries) == 1)), "")
    following = Call("explain", {"kernel": worst, **caller.again(worst, launch)})
    return _answer(verdict, following if worst and failing else None)


def _answer(verdict: Verdict, following: Call | None) -> Answer:
    rows = [_row(each) for each in verdict.checks]
    notes = [{"note": note} for note in verdict.notes]
    return Answer(f"{verdict.outcome}: {verdict.summary}", (*rows, *notes), following, {"outcome": verdict.outcome})


def _row(check: Check) -> Row:
    return without_empty(
        {
            "outcome": check.outcome,
            "kernel": check.kernel,
            "access": check.access,
            "place": str(check.place) if check.place else "",
            "criterion": check.criterion,
            "message": check.message,
            **({"actual": check.actual, "limit": check.limit} if check.actual is not None else {}),
        }
    )


def _fixing(
    caller: Caller, verdict: Verdict, files: Sequence[str], launch: LaunchGiven, variants: Sequence[Variant]
) -> Call | None:
    """Return the call that frees the first kernel that fails, or explains it if it has no source to be fixed."""
    failed = next(
        (each for each in verdict.checks if each.outcome is Outcome.failed and each.criterion == MAX_DEGREE), None
    )
    chosen = next((variant for variant in variants if failed and variant[1].name == failed.kernel), None)
    if chosen is None:  # nothing fails, or a captured launch does
        return None
    family, kernel = chosen
    source = os.path.realpath(family.source(kernel))
    file = next((file for file in files if os.path.realpath(kernel_files.split(file)[0]) == source), "")
    named = file or (kernel.name if kernel.name in files or family.shipped else shown(source))
    if source.endswith(SOURCE) and not family.shipped:
        return Call("fix", {"file": named, **caller.again(named, launch)})
    return Call("explain", {"kernel": named, **caller.again(named, launch, kernel.entry)})


def _sampled(files: Sequence[str], launch: LaunchGiven) -> Call:
    """Return the call that judges what data decide on random data."""
    return Call("lint", {"files": list(files), "launch": {**launch.as_json(), "sample": 1}}, "takes random data")
