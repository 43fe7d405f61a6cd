"""What ``ncu-swizzle predict`` answers for a kernel, a layout with accesses, a CSV file, or an expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ncu_swizzle import paths
from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import BadFile, UsageError
from ncu_swizzle.jobs.entries import gather
from ncu_swizzle.model import own_kernels, own_predictions, prediction
from ncu_swizzle.model.own_kernels import KernelQuery
from ncu_swizzle.model.prediction import CheckedPrediction, Prediction
from ncu_swizzle.ncurep import reader
from ncu_swizzle.profiles.engine import RECORDED, Engine
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import code, gf2, lanes, mapping, operations
from ncu_swizzle.smem.expression import evaluate
from ncu_swizzle.smem.lanes import Requests
from ncu_swizzle.smem.operations import LOAD, STORE, WARP
from ncu_swizzle.smem.wavefronts import wavefronts
from ncu_swizzle.texts import in_words

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
    element_bytes: int | None = None  # 4 of a layout, of a kernel's tile its narrowest access
    swizzle: str | None = None
    pad: int = 0
    profile: str | None = None
    kernel: KernelQuery = KernelQuery()


@dataclass(frozen=True)
class PredictAnswer:
    """Predictions, and their comparison with counts or measurements if there are any."""

    title: str
    predictions: tuple[Prediction, ...]
    checks: tuple[CheckedPrediction, ...] = ()
    origin: str = ""
    unknown: int = 0  # requests that no rule covers
    off: int | None = None  # requests that differ from their measurement; None if none was measured
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every prediction equals its count."""
        return all(check.equal for check in self.checks) and not self.off


def answers(query: PredictQuery) -> tuple[PredictAnswer, ...]:
    """Return the predictions for a query, one answer per kernel; raise UsageError if it is invalid."""
    if kernel_files.is_kernel_file(query.what) or own_kernels.is_saved(query.what) or query.what in _names(query):
        return tuple(_kernels(query))
    own_kernels.refuse_description(query.what, query.kernel)
    return (_answer(query),)


def _names(query: PredictQuery) -> list[str]:
    sources = query.kernel.sources
    catalog = user_kernels.everything(sources.catalog, sources.config, trust=sources.trust)
    return [kernel.name for _, kernel in catalog]


def _answer(query: PredictQuery) -> PredictAnswer:
    if query.what.endswith((".csv", ".csv.gz")):
        return _requests(query.what, lanes.read(Path(query.what), query.op))
    if ":" in query.what or (query.what.startswith("(") and not query.op):
        return _layout(query)
    if query.op:
        addresses = evaluate(query.what, query.threads).reshape(-1, WARP)
        active = evaluate(query.active or "1", query.threads).reshape(-1, WARP) != 0
        group = Requests(operations.find(query.op).name, addresses, active)
        linear = _linear(group)
        return replace(_requests(query.what, (group,)), notes=(linear,) if linear else ())
    if query.what.replace("-", "_").isidentifier() and "tid" not in query.what:
        own_kernels.targets(query.what, query.kernel)  # raises with the closest name
    raise UsageError(f"{query.what!r} cannot be predicted", f"{WHAT}, such as: predict 'tid * 8' --op ld.shared.b32")


def _kernels(query: PredictQuery) -> Iterator[PredictAnswer]:
    """Yield the answer for each kernel: from its declared accesses, else from its emulated ones."""
    if own_kernels.is_saved(query.what):
        for profile in own_kernels.observed(query.what, query.kernel, "predict"):
            yield _observed(query, profile)
        return
    for target in own_kernels.targets(query.what, query.kernel):
        if own_kernels.is_declared(target):
            if query.swizzle or query.pad:
                raise UsageError(
                    f"the mapping of {target.name} is declared", "omit --swizzle and --pad, or name a layout"
                )
            yield _declared(query, target)
        else:
            yield _observed(query, own_kernels.emulated(target, query.kernel))


def _observed(query: PredictQuery, profile: Profile) -> PredictAnswer:
    """Return what the emulator counted or, with another mapping, what its requests would take."""
    result = PredictAnswer(
        own_predictions.title(profile),
        own_predictions.predictions(profile),
        notes=(own_predictions.ORIGIN, *own_kernels.unknown(profile), *own_predictions.misfits(profile)),
    )
    if query.swizzle or query.pad:
        tried = own_predictions.tried(profile, query.swizzle, query.pad, query.element_bytes)
        return replace(result, predictions=tried.predictions, notes=tried.notes)
    if not query.profile:
        return result
    counted = _matching(query.profile, profile.kernel.name, query.kernel)
    return replace(result, checks=prediction.checked_against(result.predictions, counted), origin=query.profile)


def _declared(query: PredictQuery, target: Target) -> PredictAnswer:
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
        return _matching(query.profile, target.name, query.kernel), query.profile
    report = paths.recording(target.family.name, target.name)
    if report is None:
        return None, "there is no recording"
    (profile,) = reader.read(report)
    return profile, f"recorded on {profile.machine.gpu or report.parent.parent.name}, {profile.when[:10]}"


def _matching(file: str, name: str, kernel: KernelQuery) -> Profile:
    """Return the one profile in a file that is of this kernel; raise BadFile."""
    sources = kernel.sources
    catalog = user_kernels.everything(sources.catalog, sources.config, trust=sources.trust)
    profiles = gather(catalog, [file], Request(RECORDED), Engine(RECORDED))
    matching = [profile for profile in profiles if profile.kernel.name in ("", name)] or profiles
    if len(matching) != 1:
        raise BadFile(f"{file} has {len(matching)} kernels", f"name a file that has only {name}")
    return matching[0]


def _layout(query: PredictQuery) -> PredictAnswer:
    tile = mapping.parse(query.what, query.element_bytes or 4, query.swizzle, query.pad)
    requested = [
        accesses.parse(text, tile.layout, tile.element_bytes, write, query.threads)
        for write, texts in ((True, query.writes), (False, query.reads))
        for text in texts
    ]
    if not requested:
        raise UsageError("a layout alone has no wavefronts", "name accesses: --write rows:16 --read column")
    unknown = sum(int((~access.wavefronts(tile).known).sum()) for access in requested)
    return PredictAnswer(
        code.titled(tile), tuple(prediction.prediction_of(access, tile) for access in requested), unknown=unknown
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
