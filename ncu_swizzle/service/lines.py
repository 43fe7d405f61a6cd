"""`lines`: what an editor shows beside a source: each line's wavefronts, and each kernel's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.build.build_option import LAUNCHES
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.gate import lint_inputs, linting
from ncu_swizzle.gate.lines import KernelLint
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.gate.verdict import WORST_FIRST, Check, Outcome
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller, without_empty
from ncu_swizzle.service.launch import LaunchGiven

NOT_DESCRIBED = "ncu-swizzle init describes launches"


def lines(caller: Caller, file: str) -> Answer:
    """Answer the counts of a source's lines and kernels: those described, and those of launches captured beside it.

    A row has a `line` (from 1), or is about a whole `kernel`. Raises what `gate.linting.lint` raises, and Untrusted.
    """
    source = Path(file).absolute()
    captured = sorted(map(str, source.parent.glob(f"*{LAUNCHES}")))
    for path in captured:
        caller.folders.path(path)
    options = LintOptions((file, *captured), config=caller.entries([file], LaunchGiven()).config)
    for variant in lint_inputs.variants(options):
        if not isinstance(variant, Skipped):
            caller.folders.variant(*variant)
    settings = EmulationSettings.of(caller.request(LaunchGiven(), "emulated"))
    kernels = list(linting.lint_kernels(options, settings, caller.progress))
    rows = [row for kernel in kernels for row in _rows(kernel, source)]
    notes = [{"note": note} for kernel in kernels for note in kernel.notes]
    return Answer(f"{file}: {_summary(rows)}", (*rows, *notes), f"explain with kernel={file!r}")


def _rows(kernel: KernelLint, source: Path) -> Iterator[Row]:
    """Yield a row per line of the source and access kind, and one for the kernel if any of it is in the source."""
    mine = [line for line in kernel.lines if line.place and _same(line.place.file, source)]
    checks = {(check.access, check.place.line): check for check in kernel.checks if check.place and check.access}
    for line in mine:
        assert line.place is not None
        counts = {"wavefronts": None, "ideal": None} if line.unknown else _counts(line.wavefronts, line.ideal)
        yield _row(kernel, checks.get((line.access, line.place.line)), line.place.line, line.access, counts)
    others = [check for check in kernel.checks if check.place and not check.access and _same(check.place.file, source)]
    for check in others:
        yield _row(kernel, check, check.place.line if check.place else 0, "", {})
    if mine:
        yield {"kernel": kernel.name, "function": kernel.function, **_total(kernel), "outcome": _outcome(kernel.checks)}


def _row(kernel: KernelLint, check: Check | None, line: int, access: str, counts: dict[str, Any]) -> Row:
    judged = {"outcome": check.outcome, "message": check.message, "hint": check.hint} if check else {}
    return without_empty({"kernel": kernel.name, "line": line, "access": access, **counts, **judged})


def _total(kernel: KernelLint) -> dict[str, Any]:
    if any(line.unknown for line in kernel.lines):
        return {"wavefronts": None, "ideal": None}
    return _counts(sum(line.wavefronts for line in kernel.lines), sum(line.ideal for line in kernel.lines))


def _counts(wavefronts: int, ideal: int) -> dict[str, Any]:
    return {"wavefronts": wavefronts, "ideal": ideal}


def _outcome(checks: Sequence[Check]) -> Outcome:
    outcomes = {check.outcome for check in checks}
    return next(outcome for outcome in (*WORST_FIRST, Outcome.passed) if outcome in outcomes or not outcomes)


def _same(file: str, source: Path) -> bool:
    return os.path.realpath(file) == os.path.realpath(source)


def _summary(rows: Sequence[Row]) -> str:
    kernels = [row for row in rows if "line" not in row]
    failing = {row["line"] for row in rows if row.get("outcome") == Outcome.failed and "line" in row}
    return f"{len(kernels)} kernels, {len(failing)} lines with conflicts"
