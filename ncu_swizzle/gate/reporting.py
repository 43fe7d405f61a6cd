"""A verdict on its way out: the terminal, files, GitHub's workflow commands, and the error that sets the exit code."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from ncu_swizzle.errors import GateFailed, NcuSwizzleError, NotComparable, UsageError
from ncu_swizzle.files import not_writable, note_finished, write_atomically
from ncu_swizzle.gate import github, junit, sarif
from ncu_swizzle.gate.baseline import Baseline, Entry
from ncu_swizzle.gate.outputs import Outputs
from ncu_swizzle.gate.verdict import Check, Outcome, Verdict
from ncu_swizzle.render.terminal_tables import line, plain_table
from ncu_swizzle.texts import beneath, in_json, in_words, one_line

SCHEMA = 1
SHOW = "ncu-swizzle compare shows the profiles; with --html it writes a page"
NOTHING = "nothing was judged: no rule applies to these profiles"
STYLES = {
    Outcome.passed: "green",
    Outcome.failed: "bold red",
    Outcome.inconclusive: "yellow",
    Outcome.error: "bold red",
}
ERRORS: Mapping[Outcome, type[NcuSwizzleError]] = {
    Outcome.error: UsageError,
    Outcome.failed: GateFailed,
    Outcome.inconclusive: NotComparable,
}


def show(verdict: Verdict, outputs: Outputs, console: Console) -> None:
    """Write the requested files, then print each check once: as a line, as a workflow command, or in JSON."""
    if outputs.junit:
        write_atomically(outputs.junit, junit.render(verdict).encode())
    if outputs.sarif:
        write_atomically(outputs.sarif, sarif.render(verdict).encode())
    if outputs.github and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append(Path(summary), github.summary(verdict))
    if outputs.json == "-":
        console.file.write(to_json(verdict))
    else:
        _print(verdict, console, annotated=outputs.github)
        if outputs.json:
            write_atomically(Path(outputs.json), to_json(verdict).encode())
    if outputs.github:
        log = beneath(sys.stderr) if outputs.json == "-" else console.file
        for command in github.commands(verdict):
            print(command, file=log)


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
        note_finished(file)
    except OSError as error:
        raise not_writable(file, error) from error


def _print(verdict: Verdict, console: Console, annotated: bool) -> None:
    """Print a line per check, except those that an annotation will show."""
    for check in verdict.checks:
        if annotated and check.outcome in github.LEVELS:
            continue
        place = f" ({check.place.in_full})" if check.place else ""
        console.print(line((f"{check.outcome:<13}", STYLES[check.outcome]), f"{check}{place}"), soft_wrap=True)
    for note in verdict.notes:
        console.print(line(note), soft_wrap=True)
    console.print()
    console.print(line("The gate: ", (verdict.outcome, STYLES[verdict.outcome]), f" ({verdict.summary})"))


def to_json(verdict: Verdict) -> str:
    """Return the verdict as one JSON object; ``docs/ci.md`` describes it."""
    checks = [_plain(check) for check in verdict.checks]
    content = {"schema": SCHEMA, "outcome": verdict.outcome, "checks": checks, "notes": list(verdict.notes)}
    if verdict.changes:
        content["changes"] = [dataclasses.asdict(change) for change in verdict.changes]
    return in_json(content, indent=1)


def _plain(check: Check) -> dict[str, Any]:
    """Return a check as plain data, the headers' lines that its place goes through apart from the place."""
    content = dataclasses.asdict(check)
    through = content["place"].pop("through") if check.place else ()
    return {**content, "related": [{"file": place["file"], "line": place["line"]} for place in through]}


def conclude(verdict: Verdict, listed: bool = False) -> None:
    """Raise UsageError, GateFailed or NotComparable unless everything passed.

    `listed`: the checks were printed, so the error only counts those that decided.
    """
    if verdict.outcome is Outcome.passed:
        return
    deciding = verdict.deciding
    hint = next((check.hint for check in deciding if check.hint), SHOW)
    raise ERRORS[verdict.outcome](_counted(verdict) if listed else _first(verdict), hint)


def _first(verdict: Verdict) -> str:
    """Return the first deciding check, and how many more there are."""
    first, *others = verdict.deciding or (None,)
    more = f" (and {len(others)} more)" if others else ""
    return f"{one_line(str(first))}{more}" if first else NOTHING


def _counted(verdict: Verdict) -> str:
    """Return how many checks decided; what they say stands above."""
    count = len(verdict.deciding)
    if not count:
        return NOTHING
    plural = "s" if count > 1 else ""
    return {
        Outcome.error: f"{count} kernel{plural} not judged: wrong source, launch or arguments",
        Outcome.failed: f"{count} check{plural} failed",
        Outcome.inconclusive: f"{count} check{plural} inconclusive",
    }[verdict.outcome]


def show_baseline(baseline: Baseline, console: Console) -> None:
    """Print a baseline: a row per kernel, with the conditions of its values."""
    table = plain_table(str(baseline.file), "kernel", "conditions")
    for name in ("excessive", "degree", "ms", "launches"):
        table.add_column(name, justify="right")
    for entry in baseline.entries:
        wavefronts = sum(counts.wavefronts or 0 for counts in entry.accesses.values())
        ideal = sum(counts.ideal or 0 for counts in entry.accesses.values())
        table.add_row(
            entry.kernel,
            _conditions(entry),
            "unknown" if entry.excessive is None else f"{entry.excessive:,}",
            f"{wavefronts / ideal:.2f}" if ideal else "-",
            "unknown" if entry.duration_ns is None else f"{entry.duration_ns / 1e6:,.3f}",
            str(len(entry.durations_ns)),
        )
    console.print(table)


def _conditions(entry: Entry) -> str:
    engine = "" if entry.engine == "ncu" else f"{entry.engine}, not measured; "
    machine = f"{entry.machine.gpu or 'unknown GPU'}, clocks {entry.machine.clock_control or 'unknown'}"
    size = in_words(entry.problem) or f"grid {entry.grid}"
    return f"{engine}{machine}, ncu {entry.machine.ncu or 'unknown'}, {size}, {entry.when[:10]}"
