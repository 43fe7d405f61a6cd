"""Predictions: the wavefronts of a kernel's declared accesses, and how they compare with ncu's counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.profiles.counts import Ratios
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LOAD, STMATRIX, STORE
from ncu_swizzle.tiles import lookup
from ncu_swizzle.tiles.declaration import Product

SASS = {LOAD: "LDS", STORE: "STS", LDMATRIX: "LDSM", STMATRIX: "STSM", ATOMIC: "ATOMS", COPY: "LDGSTS"}


@dataclass(frozen=True)
class Prediction(Ratios):
    """One access, or all of one kind: warp instructions, actual and ideal wavefronts. None: no rule gives them."""

    access: str  # the SASS opcode: LDS, STSM …
    name: str
    op: str
    executed: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True)
class CheckedPrediction:
    """The prediction for one kind of access, its count, and a verdict in words."""

    predicted: Prediction
    counted: Ratios | None
    verdict: str

    @property
    def equal(self) -> bool:
        """Whether actual and ideal wavefronts are as predicted."""
        return self.counted is not None and _pair(self.predicted) == _pair(self.counted)


def target_predictions(target: Target) -> tuple[Prediction, ...]:
    """Return a prediction for each declared access of a launch. Raises UsageError if none are declared."""
    tiles = lookup.tiles_of(target)
    return (
        *(prediction_of(access, tile.mapping, access.name) for tile in tiles for access in tile.accesses),
        *(_product(product) for tile in tiles for product in tile.products),
    )


def _product(product: Product) -> Prediction:
    """Return the totals of all wgmma of one shape: their wavefronts are ideal, whatever the tile's swizzle."""
    op, wavefronts = f"wgmma.m64n{product.columns}k16", product.wavefronts
    return Prediction("HGMMA", product.name, op, product.executed, wavefronts, wavefronts)


def prediction_of(access: Access, mapping: Mapping, name: str = "") -> Prediction:
    """Return the totals over all executions of an access under a mapping."""
    counted = access.wavefronts(mapping)
    known = bool(counted.known.all())
    return Prediction(
        access=SASS[access.operation.kind],
        name=name or access.name,
        op=access.op,
        executed=access.executed,
        wavefronts=access.total(counted.actual) if known else None,
        ideal=access.total(counted.ideal) if known else None,
    )


def by_kind(predictions: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Return the totals for each kind of access."""
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
    """Return each kind of access with the profile's counts, including kinds that were not predicted."""
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
        return "unknown: no measured rule covers this pattern"
    if _pair(predicted) != _pair(counted):
        return "differs: the compiler may have fused, split or dropped accesses; see the instructions in the report"
    same = predicted.executed == counted.executed
    return "equal" if same else "equal wavefronts, but a different number of instructions"


def _pair(counts: Ratios) -> tuple[int | None, int | None]:
    return counts.wavefronts, counts.ideal


def _sum(counts: Iterable[int | None]) -> int | None:
    values = list(counts)
    return None if None in values else sum(count for count in values if count is not None)
