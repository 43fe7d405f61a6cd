"""Predictions: the wavefronts that a kernel's declared accesses have to take, beside the ones that ncu counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.profiles.counts import Wavefronts
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LOAD, STMATRIX, STORE
from ncu_swizzle.tiles import lookup

SASS = {LOAD: "LDS", STORE: "STS", LDMATRIX: "LDSM", STMATRIX: "STSM", ATOMIC: "ATOMS", COPY: "LDGSTS"}


@dataclass(frozen=True)
class Prediction(Wavefronts):
    """One access, or all of one kind: warp instructions, wavefronts, ideal ones. None: no rule is known."""

    access: str  # SASS's name for it: LDS, STSM …
    name: str
    op: str
    executed: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True)
class CheckedPrediction:
    """A prediction of one kind of access beside what was counted, and what the difference is, in words."""

    predicted: Prediction
    counted: Wavefronts | None
    verdict: str

    @property
    def equal(self) -> bool:
        """Whether wavefronts and ideal ones are as predicted."""
        return self.counted is not None and _pair(self.predicted) == _pair(self.counted)


def target_predictions(target: Target) -> tuple[Prediction, ...]:
    """Return a prediction for each declared access of a launch. Raises UsageError where none are declared."""
    return tuple(
        prediction_of(access, tile.mapping, access.name) for tile in lookup.tiles_of(target) for access in tile.accesses
    )


def prediction_of(access: Access, mapping: Mapping, name: str = "") -> Prediction:
    """Return what an access takes under a mapping, as often as it is executed."""
    counted = access.wavefronts(mapping)
    known = bool(counted.known.all())
    return Prediction(
        access=SASS[access.operation.kind],
        name=name or access.name,
        op=access.op,
        executed=access.requests * access.times,
        wavefronts=int(counted.actual.sum()) * access.times if known else None,
        ideal=int(counted.ideal.sum()) * access.times if known else None,
    )


def by_kind(predictions: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Return the sums over each kind of access."""
    kinds: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        kinds.setdefault(prediction.access, []).append(prediction)
    return tuple(
        Prediction(
            access,
            "",
            ", ".join(dict.fromkeys(part.op for part in parts)),
            _sum(part.executed for part in parts),
            _sum(part.wavefronts for part in parts),
            _sum(part.ideal for part in parts),
        )
        for access, parts in kinds.items()
    )


def checked_against(predictions: Sequence[Prediction], profile: Profile) -> tuple[CheckedPrediction, ...]:
    """Return each kind of access beside the profile's counts, kinds that were not predicted included."""
    counted = profile.accesses
    checks = [
        CheckedPrediction(prediction, counted.get(prediction.access), _verdict(prediction, profile))
        for prediction in by_kind(predictions)
    ]
    for access in counted.keys() - {prediction.access for prediction in predictions}:
        nothing = Prediction(access, "", "", 0, 0, 0)
        checks.append(CheckedPrediction(nothing, counted[access], _verdict(nothing, profile)))
    return tuple(checks)


def _verdict(predicted: Prediction, profile: Profile) -> str:
    counted = profile.accesses.get(predicted.access)
    if counted is None:
        return "not executed"
    if predicted.wavefronts is None:
        return "unknown: no rule for this pattern was found by measuring"
    if _pair(predicted) != _pair(counted):
        return "differs: the compiler may have fused, split or dropped accesses; see the instructions in the report"
    same = predicted.executed == counted.executed
    return "equal" if same else "equal wavefronts, but another number of instructions"


def _pair(counts: Wavefronts) -> tuple[int | None, int | None]:
    return counts.wavefronts, counts.ideal


def _sum(counts: Iterable[int | None]) -> int | None:
    values = list(counts)
    return None if None in values else sum(count for count in values if count is not None)
