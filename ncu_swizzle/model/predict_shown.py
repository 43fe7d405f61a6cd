"""How ``ncu-swizzle predict`` prints its answers: as tables, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console

from ncu_swizzle.model.predict import PredictAnswer, PredictQuery, answers
from ncu_swizzle.model.prediction import CheckedPrediction, Prediction
from ncu_swizzle.render.terminal_tables import PlainTable, line
from ncu_swizzle.texts import in_json


def show(query: PredictQuery, console: Console, data: bool = False) -> None:
    """Print the answers as tables, or as JSON: one object, or a list of several kernels'."""
    results = answers(query)
    if data:
        content = [to_data(result) for result in results]
        sys.stdout.write(in_json(content if len(content) > 1 else content[0], indent=1))
        return
    for number, result in enumerate(results):
        if number:
            console.print()
        _show(result, console)


def _show(result: PredictAnswer, console: Console) -> None:
    console.print(line(result.title, style="bold"))
    console.print(_table(result.predictions))
    for note in result.notes:
        console.print(line(note))
    if result.unknown:
        console.print(line(f"{result.unknown:,} requests are unknown: no measured rule covers them."))
    if result.off is not None:
        verdict = f"{result.off:,} requests differ from" if result.off else "All requests match"
        console.print(line(f"{verdict} the measurement."))
    if result.checks:
        console.print()
        console.print(line(f"Compared with the counts ({result.origin})", style="bold"))
        console.print(_checks(result.checks))
    elif result.origin:
        console.print(line(f"Not compared: {result.origin}."))


def _table(predictions: Iterable[Prediction]) -> PlainTable:
    table = _columns("access", "instruction", right=("executed", "wavefronts", "ideal", "degree"))
    for predicted in predictions:
        degree = f"{predicted.degree:.2f}" if predicted.degree is not None else "-"
        conflicts = "*" if predicted.excessive else " "
        counts = map(_count, (predicted.executed, predicted.wavefronts, predicted.ideal))
        table.add_row(predicted.name or predicted.access, predicted.op, *counts, degree + conflicts)
    return table


def _checks(checks: Iterable[CheckedPrediction]) -> PlainTable:
    table = _columns("access", right=("predicted", "counted"))
    table.add_column("", overflow="fold")
    for check in checks:
        counted = check.counted.wavefronts if check.counted else None
        table.add_row(check.predicted.access, _count(check.predicted.wavefronts), _count(counted), check.verdict)
    return table


def _columns(*left: str, right: Sequence[str]) -> PlainTable:
    table = PlainTable(gap=2, header_style="dim")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def to_data(result: PredictAnswer) -> dict[str, object]:
    """Return an answer as JSON-serializable data."""
    return {
        "title": result.title,
        "accesses": [
            {"name": predicted.name, "op": predicted.op, **_counts(predicted)} for predicted in result.predictions
        ],
        "counted": [
            {
                **_counts(check.predicted),
                "counted": check.counted.wavefronts if check.counted else None,
                "equal": check.equal,
                "verdict": check.verdict,
            }
            for check in result.checks
        ],
        "origin": result.origin,
        "unknown": result.unknown,
        "off": result.off,
        "agrees": result.agrees,
        "notes": list(result.notes),
    }


def _counts(predicted: Prediction) -> dict[str, object]:
    return {
        "access": predicted.access,
        "executed": predicted.executed,
        "wavefronts": predicted.wavefronts,
        "ideal": predicted.ideal,
        "excessive": predicted.excessive,
    }
