"""A verdict for GitHub Actions: workflow commands, which become annotations, and the step summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ncu_swizzle.gate.verdict import WORST_FIRST, Change, Check, Outcome, Place, Verdict
from ncu_swizzle.texts import in_markdown, one_line

LEVELS = {Outcome.error: "error", Outcome.failed: "error", Outcome.inconclusive: "warning"}


def commands(verdict: Verdict) -> list[str]:
    """Return one workflow command per check that did not pass, the worst first."""
    return [
        _command(level, _properties(check), _message(check))
        for outcome, level in LEVELS.items()
        for check in verdict.checks
        if check.outcome is outcome
    ]


def _message(check: Check) -> str:
    """Return the message, with the header that the line's access comes from."""
    through = check.place.through if check.place else ()
    return f"{check} ({check.place.in_full})." if check.place and through else f"{check}."


def _properties(check: Check) -> dict[str, str]:
    place = check.place or Place("")
    return {"file": place.file, "line": str(place.line or ""), "title": check.title}


def _command(level: str, properties: Mapping[str, str], message: str) -> str:
    attributes = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{level} {attributes}::{_data(message)}"


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(verdict: Verdict) -> str:
    """Return the verdict as Markdown: a heading, a table (what did not pass comes first), notes."""
    lines = [f"### ncu-swizzle check: {verdict.outcome}", "", f"{in_markdown(verdict.summary)}.", ""]
    if verdict.checks:
        lines += ["| outcome | kernel | criterion | finding | location |", "|---|---|---|---|---|"]
    for check in sorted(verdict.checks, key=lambda check: WORST_FIRST.index(check.outcome)):
        criterion = f"{check.criterion}, {check.access}" if check.access else check.criterion
        cells = (check.outcome, check.kernel, criterion, check.message, check.place.in_full if check.place else "")
        lines.append(f"| {' | '.join(in_markdown(cell) for cell in cells)} |")
    lines += [*_before_and_after(verdict.changes), "", *(f"{in_markdown(note)}\n" for note in verdict.notes)]
    return "\n".join(lines).rstrip() + "\n\n"


def _before_and_after(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a table of what was compared with another commit."""
    if not changes:
        return
    yield from ("", "| kernel | access | excessive before | excessive now | degree before | degree now |")
    yield "|---|---|---:|---:|---:|---:|"
    for change in changes:
        before, now = (change.wavefronts_before, change.ideal_before), (change.wavefronts, change.ideal)
        cells = (change.kernel, change.access, _excess(*before), _excess(*now), _degree(*before), _degree(*now))
        yield f"| {' | '.join(in_markdown(cell) for cell in cells)} |"


def _excess(wavefronts: int | None, ideal: int | None) -> str:
    return "unknown" if wavefronts is None or ideal is None else f"{wavefronts - ideal:,}"


def _degree(wavefronts: int | None, ideal: int | None) -> str:
    if wavefronts is None or ideal is None:
        return "unknown"
    return f"{wavefronts / ideal:.4g}" if ideal else "-"
