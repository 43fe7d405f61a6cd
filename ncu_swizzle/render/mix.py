"""The instruction mix: what stayed the same, and what address computation costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ncu_swizzle.render import text
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import TRANSFERS
from ncu_swizzle.reports.frames import Mix

RESOURCES = frozenset({
    "Registers per thread",
    "Static shared memory per block",
    "Dynamic shared memory per block",
    "Theoretical occupancy",
    "Achieved occupancy",
})  # fmt: skip
FIXED = (frames.TENSOR, frames.SHARED, frames.TMA)  # what a layout change leaves unchanged
NAMED = 2  # classes named in the sentence: those that changed most

Class = tuple[str, str]  # as `frames.key` returns it


class Executions(NamedTuple):
    """A number of executions: what is known of it, and the number itself if nothing of it is unknown."""

    least: int | None
    exact: int | None

    def __str__(self) -> str:
        return text.counted(self.exact, self.least)


class MixRow(NamedTuple):
    """An instruction class or an opcode: the warp instructions of each profile."""

    name: str
    meaning: str
    counts: tuple[Executions, ...]

    @property
    def moved(self) -> int | None:
        """The second count less the first; None if there is none, or one is unknown."""
        before, after = [count.exact for count in self.counts[:2]] if len(self.counts) > 1 else (None, None)
        return None if before is None or after is None else after - before

    @property
    def change(self) -> str:
        """The signed difference of the first two counts; empty if it is unknown, as the count says so itself."""
        return "" if self.moved is None else text.difference(0, self.moved)


@dataclass(frozen=True, kw_only=True)
class MixSection:
    """The mix by class and by opcode; `gaps` says which counts are lower bounds.

    Bars are relative to the `longest` row, and those of changes to the `widest`.
    """

    sentence: str
    gaps: tuple[str, ...]
    rows: tuple[MixRow, ...]
    total: MixRow
    opcodes: tuple[MixRow, ...]

    @property
    def longest(self) -> int:
        return max((count.least or 0 for row in self.rows for count in row.counts), default=0)

    @property
    def widest(self) -> int:
        return max((abs(row.moved or 0) for row in self.rows), default=0)


def section(comparison: Comparison) -> MixSection | None:
    """Return the instruction mix; None if no report has execution counts."""
    mixes = [frames.count(profile) for profile in comparison.profiles]
    if not any(mix.known for mix in mixes):
        return None
    classes = [mix.classes for mix in mixes]
    keys = sorted(
        set().union(*classes), key=lambda key: (frames.NAMES.index(key[0]), -max(c[key] for c in classes), key)
    )
    names = set().union(*(mix.opcodes for mix in mixes))
    before, after = mixes[0].opcodes, mixes[min(1, len(mixes) - 1)].opcodes
    return MixSection(
        sentence=_sentence(comparison.labels, mixes[:2]),
        gaps=tuple(
            f"{mix.uncounted.total():,} of {len(profile.instructions):,} instructions of {label}"
            for (label, profile), mix in zip(comparison.named, mixes, strict=True)
            if mix.uncounted
        ),
        rows=tuple(_class_row(key, mixes) for key in keys if any(counts[key] for counts in classes)),
        total=MixRow(
            "All",
            "warp instructions",
            tuple(_executions(mix, mix.total(), mix.uncounted.total()) for mix in mixes),
        ),
        opcodes=tuple(
            MixRow(
                name,
                frames.classify(name),
                tuple(_executions(mix, mix.opcodes[name], mix.uncounted[name]) for mix in mixes),
            )
            for name in sorted(names, key=lambda name: (-abs(after[name] - before[name]), -before[name], name))
        ),
    )


def _executions(mix: Mix, number: int, uncounted: int) -> Executions:
    least = number if mix.known else None
    return Executions(least, None if uncounted else least)


def _class_row(key: Class, mixes: Sequence[Mix]) -> MixRow:
    kind, word = key
    counts = tuple(_executions(mix, mix.classes[key], mix.uncounted_classes[key]) for mix in mixes)
    if word:  # an opcode that is counted on its own
        return MixRow(word, " ".join(filter(None, (kind, TRANSFERS.get(word, "")))), counts)
    most: Counter[str] = Counter()  # executions of each opcode of the class, in the profile that has most
    for mix in mixes:
        for opcode, executed in mix.opcodes.items():
            if executed and frames.key(opcode) == key:
                most[opcode] = max(most[opcode], executed)
    words = list(dict.fromkeys(".".join(opcode.split(".")[:2]) for opcode, _ in most.most_common()))
    return MixRow(kind, ", ".join(words[:4]) + (" …" if len(words) > 4 else ""), counts)


def _sentence(labels: Sequence[str], mixes: Sequence[Mix]) -> str:
    """Say which work stayed the same, and by how much the rest changed."""
    if len(mixes) < 2 or not all(mix.known for mix in mixes):
        return ""
    before, after = labels[:2]
    old, new = (mix.classes for mix in mixes)
    unsure = mixes[0].uncounted_classes | mixes[1].uncounted_classes
    moves = {key: new[key] - old[key] for key in {**old, **new} if (old[key] or new[key]) and not unsure[key]}
    fixed = sorted(word for (kind, word), moved in moves.items() if kind in FIXED and not moved)
    changed = sorted((key for key, moved in moves.items() if moved), key=lambda key: -abs(moves[key]))
    parts = [f"{before} and {after} execute the same number of {text.listed(fixed)}"] if fixed else []
    if unsure:
        return f"{parts[0]}." if parts else ""
    was, now = (mix.total() for mix in mixes)
    if was == now and not changed:
        parts.append("and of everything else" if fixed else f"{before} and {after} execute the same instructions")
        return " ".join(parts) + "."
    # Address arithmetic is what a swizzle costs: it is named even if other classes changed more.
    named = changed[:NAMED] + [key for key in changed[NAMED:] if key == (frames.INTEGER, "")]
    changes = [
        f"{word or kind.lower()}{' (address arithmetic)' * (kind == frames.INTEGER)} "
        f"{text.difference(old[kind, word], new[kind, word])}"
        for kind, word in named
    ]
    totals = f"In total, {after} executes {text.count(now)} warp instructions, {before} {text.count(was)}"
    parts.append(f"{totals} ({text.change(was, now)}): {', '.join(changes)}")
    return ". ".join(parts) + "."
