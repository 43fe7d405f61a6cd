"""`lint` and `check`: which lines conflict, and whether profiles keep their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ncu_swizzle.api import functions
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.gate import lint_inputs, linting
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.gate.verdict import Check, Outcome, Verdict
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller, without_empty
from ncu_swizzle.service.launch import LaunchGiven


def lint(
    caller: Caller, files: Sequence[str], launch: LaunchGiven = LaunchGiven(), max_degree: float | None = None
) -> Answer:
    """Answer which lines of sources conflict; every kernel is compiled and emulated, nothing runs on a GPU.

    Raises what `gate.linting.lint` raises, and Untrusted.
    """
    options = LintOptions(
        tuple(files),
        () if max_degree is None else (f"{max_degree:g}",),
        launch.described(),
        config=caller.entries(files, launch).config,
    )
    for variant in lint_inputs.variants(options):
        if not isinstance(variant, Skipped):
            caller.folders.variant(*variant)
    verdict = linting.lint(options, EmulationSettings.of(caller.request(launch, "emulated")), caller.progress)
    return _answer(verdict, _after_lint(verdict, files))


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
    failing = verdict.outcome is Outcome.failed
    return _answer(verdict, f"explain with kernel={entries[0]!r}: why its worst access conflicts" if failing else "")


def _answer(verdict: Verdict, following: str) -> Answer:
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


def _after_lint(verdict: Verdict, files: Sequence[str]) -> str:
    failed = next((check for check in verdict.checks if check.outcome is Outcome.failed and check.place), None)
    if failed and failed.place:
        file = failed.place.file if failed.place.file in files else files[0]
        return f"fix with file={file!r}, kernel={failed.kernel!r}; explain shows the banks of one access"
    if any(check.outcome is Outcome.inconclusive for check in verdict.checks):
        return "give the data that addresses depend on in launch.args, or launch.sample=1 for random data"
    return ""
