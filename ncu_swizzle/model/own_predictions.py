"""Predictions for an emulated kernel: its counts by source line, and what its requests take under another mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ncu_swizzle.model import own_kernels, prediction
from ncu_swizzle.model.prediction import Prediction
from ncu_swizzle.profiles import attribution, violations
from ncu_swizzle.profiles.counts import Instruction, added
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem.code import spelled
from ncu_swizzle.texts import in_words

ORIGIN = "Computed by the emulator from the kernel's own addresses, for the whole launch."
PARTIAL = "Counts are over the blocks that the emulator ran; every other block behaves like one of them."


@dataclass(frozen=True)
class TriedPredictions:
    """What a launch's requests take under another mapping, and which tiles it was tried on."""

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...]


def title(profile: Profile) -> str:
    """Return the kernel and its problem."""
    problem = in_words(profile.problem)
    return f"{profile.kernel.name}, {problem}" if problem else profile.kernel.name


def predictions(profile: Profile) -> tuple[Prediction, ...]:
    """Return the counts of each access by source line, over the whole launch; None where they are unknown."""
    lines = {id(site.access): site.name for site in attribution.sites(profile)}
    ops = {made.pc: made.op for made in profile.requests}
    groups: dict[tuple[str, str, str], list[Instruction]] = {}
    for access in profile.shared():
        key = access.access, lines.get(id(access), ""), ops.get(access.pc, access.opcode)
        if access.executed != 0:
            groups.setdefault(key, []).append(access)
    return tuple(_prediction(*key, instructions) for key, instructions in groups.items())


def _prediction(access: str, line: str, op: str, instructions: list[Instruction]) -> Prediction:
    total = added(instructions)
    return Prediction(access, f"{access} {line}".rstrip(), op, total.executed, total.wavefronts, total.ideal)


def misfits(profile: Profile) -> Iterator[str]:
    """Yield what wgmma reads otherwise than TMA wrote it."""
    for message, line, rule in violations.violations(profile):
        if rule == violations.TILES_RULE:
            yield f"{f'{line[0]}:{line[1]}: ' if line else ''}{message}."


def tried(profile: Profile, swizzle: str | None, pad: int, element_bytes: int | None) -> TriedPredictions:
    """Return the predictions with a swizzle or padding on every tile that has conflicts. Raises UsageError."""
    rows: list[Prediction] = []
    notes: list[str] = []
    for tile in own_kernels.conflicting(profile):
        transform = own_kernels.transform(tile, swizzle, pad, element_bytes)
        mapping = replace(tile.plain, transform=transform) if transform else tile.plain
        rows += (prediction.prediction_of(access, mapping) for access in tile.accesses)
        lost = mapping.collision()
        notes.append(f"{tile.span}, rows of {tile.plain.shape[1]}: {spelled(mapping)}{f'; {lost}' if lost else ''}.")
    return TriedPredictions(tuple(_labelled(rows)), (*notes, PARTIAL))


def _labelled(rows: list[Prediction]) -> Iterator[Prediction]:
    return (
        replace(row, name=row.name if row.name.startswith(row.access) else f"{row.access} {row.name}") for row in rows
    )
