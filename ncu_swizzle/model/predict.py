"""What ``ncu-swizzle predict`` answers: for a kernel, a layout and its accesses, a CSV file, or an expression."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncu_swizzle import paths
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import BadFile, UsageError
from ncu_swizzle.jobs.entries import gather
from ncu_swizzle.model import prediction
from ncu_swizzle.model.prediction import Check, Prediction
from ncu_swizzle.ncurep import reader
from ncu_swizzle.profiles.engine import RECORDED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import gf2, lanes, mapping, operations
from ncu_swizzle.smem.expression import evaluate
from ncu_swizzle.smem.lanes import Requests
from ncu_swizzle.smem.operations import LOAD, STORE, WARP
from ncu_swizzle.smem.wavefronts import wavefronts
from ncu_swizzle.texts import in_words

WHAT = 'a kernel of ncu-swizzle list, a layout such as "(8,8):(1,8)", a .csv file, or an expression in tid with --op'


@dataclass(frozen=True)
class Asked:
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
class Answer:
    """Predictions, and where something was counted or measured, what became of the comparison."""

    title: str
    predictions: tuple[Prediction, ...]
    checks: tuple[Check, ...] = ()
    origin: str = ""
    unknown: int = 0  # requests that no rule covers
    off: int | None = None  # requests that were measured otherwise; None where none was measured
    note: str = ""

    @property
    def agrees(self) -> bool:
        """Whether nothing that was counted differs."""
        return all(check.equal for check in self.checks) and not self.off


def answer(asked: Asked) -> Answer:
    """Return the predictions for what was asked; raise UsageError where it makes no sense."""
    names = [kernel.name for _, kernel in asked.known]
    if asked.what in names:
        return _kernel(asked)
    if asked.what.endswith((".csv", ".csv.gz")):
        return _requests(asked.what, lanes.read(Path(asked.what), asked.op))
    if ":" in asked.what or (asked.what.startswith("(") and not asked.op):
        return _layout(asked)
    if asked.op:
        addresses = evaluate(asked.what, asked.threads).reshape(-1, WARP)
        active = evaluate(asked.active or "1", asked.threads).reshape(-1, WARP) != 0
        group = Requests(operations.find(asked.op).name, addresses, active)
        return replace(_requests(asked.what, (group,)), note=_linear(group))
    if asked.what.replace("-", "_").isidentifier() and "tid" not in asked.what:
        asked.known.find(asked.what)  # says which kernel may have been meant
    raise UsageError(f"{asked.what!r} cannot be predicted", f"{WHAT}, such as: predict 'tid * 8' --op ld.shared.b32")


def _kernel(asked: Asked) -> Answer:
    target = asked.known.target(asked.what, asked.problem)
    predictions = prediction.of_target(target)
    title = f"{target.name}, {in_words(target.problem)}"
    profile, origin = _counted(asked, target)
    if profile is None:
        return Answer(title, predictions, origin=origin)
    if profile.problem and dict(profile.problem) != target.problem:
        return Answer(title, predictions, origin=f"{origin}, but with {in_words(profile.problem)}: not compared")
    return Answer(title, predictions, prediction.against(predictions, profile), origin)


def _counted(asked: Asked, target: Target) -> tuple[Profile | None, str]:
    """Return the profile to hold a prediction against, and where it is from: a named file, else the recording."""
    if asked.profile:
        found = gather(asked.known, [asked.profile], Request(RECORDED), Engine(RECORDED))
        matching = [profile for profile in found if profile.kernel.name in ("", target.name)] or found
        if len(matching) != 1:
            raise BadFile(f"{asked.profile} has {len(matching)} kernels", f"name a file with {target.name} alone")
        return matching[0], asked.profile
    report = paths.recording(target.family.name, target.name)
    if report is None:
        return None, "nothing is recorded"
    (profile,) = reader.read(report)
    return profile, f"recorded on {profile.machine.gpu or report.parent.parent.name}, {profile.when[:10]}"


def _layout(asked: Asked) -> Answer:
    tile = mapping.parse(asked.what, asked.element_bytes, asked.swizzle, asked.pad)
    found = [
        accesses.parse(text, tile.layout, tile.element_bytes, write, asked.threads)
        for write, texts in ((True, asked.writes), (False, asked.reads))
        for text in texts
    ]
    if not found:
        raise UsageError("a layout alone makes no wavefronts", "name accesses: --write rows:16 --read column")
    unknown = sum(int((~access.wavefronts(tile).known).sum()) for access in found)
    return Answer(str(tile), tuple(prediction.one(access, tile) for access in found), unknown=unknown)


def _linear(group: Requests) -> str:
    """Return why a single request of all lanes conflicts as it does, where its addresses are linear over GF(2)."""
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


def _requests(title: str, groups: Sequence[Requests]) -> Answer:
    predictions, unknown, off = [], 0, None
    for group in groups:
        found = wavefronts(group.op, group.addresses, group.active, group.source)
        unknown += int((~found.known).sum())
        if group.measured is not None:
            pair = np.stack([found.actual, found.ideal], axis=1)
            off = (off or 0) + int(((pair != group.measured).any(axis=1) & found.known).sum())
        known = found.known.all()
        predictions.append(
            Prediction(
                prediction.SASS[operations.find(group.op).kind],
                "",
                group.op,
                len(group.addresses),
                int(found.actual.sum()) if known else None,
                int(found.ideal.sum()) if known else None,
            )
        )
    return Answer(title, tuple(predictions), unknown=unknown, off=off)


# ------------------------------------------------------------------------------------------------ printing


def show(asked: Asked, console: Console, data: bool = False) -> None:
    """Print an answer as tables or as data."""
    found = answer(asked)
    if data:
        sys.stdout.write(json.dumps(to_data(found), indent=1) + "\n")
        return
    console.print(Text(found.title, style="bold"))
    console.print(_table(found.predictions))
    if found.note:
        console.print(found.note, highlight=False)
    if found.unknown:
        console.print(f"{found.unknown:,} requests are unknown: no rule for them was found by measuring.")
    if found.off is not None:
        console.print(f"{found.off:,} requests were measured otherwise." if found.off else "As measured.")
    if found.checks:
        console.print(Text(f"\nBeside what was counted ({found.origin})", style="bold"))
        console.print(_checks(found.checks))
    elif found.origin:
        console.print(f"Not compared: {found.origin}.", highlight=False)


def _table(predictions: Iterable[Prediction]) -> Table:
    table = _columns("access", "instruction", right=("executed", "wavefronts", "ideal", "degree"))
    for one in predictions:
        degree = f"{one.degree:.2f}" if one.degree is not None else "-"
        conflicts = "*" if one.excessive else " "
        table.add_row(one.name or one.access, one.op, *map(_count, (one.executed, one.wavefronts, one.ideal)),
                      degree + conflicts)  # fmt: skip
    return table


def _checks(checks: Iterable[Check]) -> Table:
    table = _columns("access", right=("predicted", "counted"))
    table.add_column("", overflow="fold")
    for check in checks:
        counted = check.counted.wavefronts if check.counted else None
        table.add_row(check.predicted.access, _count(check.predicted.wavefronts), _count(counted), Text(check.verdict))
    return table


def _columns(*left: str, right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def to_data(found: Answer) -> dict[str, object]:
    """Return an answer as JSON takes it."""
    return {
        "title": found.title,
        "accesses": [{"name": one.name, "op": one.op, **_counts(one)} for one in found.predictions],
        "counted": [
            {
                **_counts(check.predicted),
                "counted": check.counted.wavefronts if check.counted else None,
                "equal": check.equal,
                "verdict": check.verdict,
            }
            for check in found.checks
        ],
        "origin": found.origin,
        "unknown": found.unknown,
        "off": found.off,
        "agrees": found.agrees,
        "note": found.note,
    }


def _counts(one: Prediction) -> dict[str, object]:
    return {
        "access": one.access,
        "executed": one.executed,
        "wavefronts": one.wavefronts,
        "ideal": one.ideal,
        "excessive": one.excessive,
    }
