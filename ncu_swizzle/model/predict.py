"""What ``ncu-swizzle predict`` answers for a kernel, a layout with accesses, a CSV file, or an expression."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from ncu_swizzle import paths
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import BadFile, UsageError
from ncu_swizzle.jobs.entries import gather
from ncu_swizzle.model import prediction
from ncu_swizzle.model.prediction import CheckedPrediction, Prediction
from ncu_swizzle.ncurep import reader
from ncu_swizzle.profiles.engine import RECORDED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.terminal_tables import PlainTable, line
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import gf2, lanes, mapping, operations
from ncu_swizzle.smem.expression import evaluate
from ncu_swizzle.smem.lanes import Requests
from ncu_swizzle.smem.operations import LOAD, STORE, WARP
from ncu_swizzle.smem.wavefronts import wavefronts
from ncu_swizzle.texts import in_json, in_words

WHAT = 'a kernel of ncu-swizzle list, a layout such as "(8,8):(1,8)", a .csv file, or an expression in tid with --op'


@dataclass(frozen=True)
class PredictQuery:
    """The command line of ``ncu-swizzle predict``."""

    what: str
    op: str | None = None
    active: str | None = None
    threads: int = WARP
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    element_bytes: int = 4
    swizzle: str | None = None
    pad: int = 0
    problem: Mapping[str, int] | None = None
    profile: str | None = None
    known: Catalog = field(default_factory=collection.shipped)


@dataclass(frozen=True)
class PredictAnswer:
    """Predictions, and their comparison with counts or measurements if there are any."""

    title: str
    predictions: tuple[Prediction, ...]
    checks: tuple[CheckedPrediction, ...] = ()
    origin: str = ""
    unknown: int = 0  # requests that no rule covers
    off: int | None = None  # requests that differ from their measurement; None if none was measured
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every prediction equals its count."""
        return all(check.equal for check in self.checks) and not self.off


def answer(query: PredictQuery) -> PredictAnswer:
    """Return the predictions for a query; raise UsageError if it is invalid."""
    names = [kernel.name for _, kernel in query.known]
    if query.what in names:
        return _kernel(query)
    if query.what.endswith((".csv", ".csv.gz")):
        return _requests(query.what, lanes.read(Path(query.what), query.op))
    if ":" in query.what or (query.what.startswith("(") and not query.op):
        return _layout(query)
    if query.op:
        addresses = evaluate(query.what, query.threads).reshape(-1, WARP)
        active = evaluate(query.active or "1", query.threads).reshape(-1, WARP) != 0
        group = Requests(operations.find(query.op).name, addresses, active)
        return replace(_requests(query.what, (group,)), note=_linear(group))
    if query.what.replace("-", "_").isidentifier() and "tid" not in query.what:
        query.known.find(query.what)  # raises with the closest name
    raise UsageError(f"{query.what!r} cannot be predicted", f"{WHAT}, such as: predict 'tid * 8' --op ld.shared.b32")


def _kernel(query: PredictQuery) -> PredictAnswer:
    target = query.known.target(query.what, query.problem)
    predictions = prediction.target_predictions(target)
    title = f"{target.name}, {in_words(target.problem)}"
    profile, origin = _counted(query, target)
    if profile is None:
        return PredictAnswer(title, predictions, origin=origin)
    if profile.problem and dict(profile.problem) != target.problem:
        return PredictAnswer(title, predictions, origin=f"{origin}, but with {in_words(profile.problem)}: not compared")
    return PredictAnswer(title, predictions, prediction.checked_against(predictions, profile), origin)


def _counted(query: PredictQuery, target: Target) -> tuple[Profile | None, str]:
    """Return the profile to compare with and its origin: a named file, else the recording."""
    if query.profile:
        profiles = gather(query.known, [query.profile], Request(RECORDED), Engine(RECORDED))
        matching = [profile for profile in profiles if profile.kernel.name in ("", target.name)] or profiles
        if len(matching) != 1:
            raise BadFile(f"{query.profile} has {len(matching)} kernels", f"name a file that has only {target.name}")
        return matching[0], query.profile
    report = paths.recording(target.family.name, target.name)
    if report is None:
        return None, "there is no recording"
    (profile,) = reader.read(report)
    return profile, f"recorded on {profile.machine.gpu or report.parent.parent.name}, {profile.when[:10]}"


def _layout(query: PredictQuery) -> PredictAnswer:
    tile = mapping.parse(query.what, query.element_bytes, query.swizzle, query.pad)
    requested = [
        accesses.parse(text, tile.layout, tile.element_bytes, write, query.threads)
        for write, texts in ((True, query.writes), (False, query.reads))
        for text in texts
    ]
    if not requested:
        raise UsageError("a layout alone has no wavefronts", "name accesses: --write rows:16 --read column")
    unknown = sum(int((~access.wavefronts(tile).known).sum()) for access in requested)
    return PredictAnswer(
        str(tile), tuple(prediction.prediction_of(access, tile) for access in requested), unknown=unknown
    )


def _linear(group: Requests) -> str:
    """Return why a single full-warp request conflicts as it does, if its addresses are linear over GF(2)."""
    operation = operations.find(group.op)
    vectors = gf2.basis(group.addresses[0])
    if len(group.addresses) > 1 or not group.active.all() or vectors is None or operation.kind not in (LOAD, STORE):
        return ""
    units, banks = gf2.ranks(vectors[: operation.lanes.bit_length() - 1], operation.width_bytes)
    size = max(operation.width_bytes, 4)
    shared = f"{1 << (units - banks)} units share each bank" if units > banks else "no two share a bank"
    return (
        f"Linear over GF(2): in a phase of {operation.lanes} lanes the addresses span 2^{units} units of {size} bytes "
        f"(rank {units}) and 2^{banks} of their banks (rank {banks}), so {shared}."
    )


def _requests(title: str, groups: Sequence[Requests]) -> PredictAnswer:
    predictions, unknown, off = [], 0, None
    for group in groups:
        counted = wavefronts(group.op, group.addresses, group.active, group.source)
        unknown += int((~counted.known).sum())
        if group.measured is not None:
            pair = np.stack([counted.actual, counted.ideal], axis=1)
            off = (off or 0) + int(((pair != group.measured).any(axis=1) & counted.known).sum())
        known = counted.known.all()
        predictions.append(
            Prediction(
                prediction.SASS[operations.find(group.op).kind],
                "",
                group.op,
                len(group.addresses),
                int(counted.actual.sum()) if known else None,
                int(counted.ideal.sum()) if known else None,
            )
        )
    return PredictAnswer(title, tuple(predictions), unknown=unknown, off=off)


# ------------------------------------------------------------------------------------------------ printing


def show(query: PredictQuery, console: Console, data: bool = False) -> None:
    """Print the answer as tables or as JSON."""
    result = answer(query)
    if data:
        sys.stdout.write(in_json(to_data(result), indent=1))
        return
    console.print(line(result.title, style="bold"))
    console.print(_table(result.predictions))
    if result.note:
        console.print(line(result.note))
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
        "note": result.note,
    }


def _counts(predicted: Prediction) -> dict[str, object]:
    return {
        "access": predicted.access,
        "executed": predicted.executed,
        "wavefronts": predicted.wavefronts,
        "ideal": predicted.ideal,
        "excessive": predicted.excessive,
    }
