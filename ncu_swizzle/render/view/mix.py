"""The instruction mix of a report: what stayed the same, and what the addresses cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles import instruction_mix
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import TRANSFERS
from ncu_swizzle.profiles.instruction_mix import Mix
from ncu_swizzle.render.view import text
from ncu_swizzle.render.view.tables import MetricRow, Share
from ncu_swizzle.render.view.tables import metrics as metric_rows

RESOURCES = frozenset({
    "Registers per thread",
    "Static shared memory per block",
    "Dynamic shared memory per block",
    "Theoretical occupancy",
    "Achieved occupancy",
})  # fmt: skip
FIXED = (instruction_mix.TENSOR, instruction_mix.SHARED, instruction_mix.TMA)  # what a change of layout leaves as it is
NAMED = 2  # so many classes with the largest changes are named in words


@dataclass(frozen=True)
class MixRow:
    """One class of instructions: warps that executed any of it, and bars up to the longest of all classes."""

    name: str
    meaning: str
    shares: tuple[Share, ...]
    change: str
    delta: text.Delta


@dataclass(frozen=True)
class OpcodeRow:
    opcode: str
    kind: str
    values: tuple[str, ...]
    change: str


@dataclass(frozen=True)
class Section:
    """The mix by class, every opcode of it, and what a launch takes of an SM."""

    sentence: str
    rows: tuple[MixRow, ...]
    total: MixRow
    opcodes: tuple[OpcodeRow, ...]
    resources: tuple[MetricRow, ...]


def section(comparison: Comparison) -> Section | None:
    """Return the instruction mix; None where no report counted executions."""
    mixes = [instruction_mix.count(profile) for profile in comparison.profiles]
    if not any(one.known for one in mixes):
        return None
    classes = [one.classes for one in mixes]
    keys = sorted(
        set().union(*classes), key=lambda key: (instruction_mix.NAMES.index(key[0]), -max(c[key] for c in classes), key)
    )
    ran = [key for key in keys if any(counts[key] for counts in classes)]
    longest = max((counts[key] for counts in classes for key in ran), default=0)
    widest = max((abs(_delta(classes, key) or 0) for key in ran), default=0)
    totals = [one.total() if one.known else None for one in mixes]
    return Section(
        sentence=_sentence(comparison, classes, mixes),
        rows=tuple(_row(key, classes, mixes, longest, widest) for key in ran),
        total=MixRow(
            "All", "warp instructions", tuple(Share(text.count(total), "0%") for total in totals),
            _change(totals), text.delta(None, 0),
        ),
        opcodes=_opcodes(mixes),
        resources=tuple(row for row in metric_rows(comparison) if row.title in RESOURCES),
    )  # fmt: skip


def _row(
    key: tuple[str, str], classes: Sequence[Counter[tuple[str, str]]], mixes: Sequence[Mix], longest: int, widest: int
) -> MixRow:
    kind, word = key
    counts = [counted[key] if one.known else None for counted, one in zip(classes, mixes, strict=True)]
    return MixRow(
        name=word or kind,
        meaning=" ".join(part for part in (kind, TRANSFERS.get(word, "")) if part) if word else _examples(key, mixes),
        shares=tuple(Share(text.count(count), text.width(count, longest)) for count in counts),
        change=_change(counts),
        delta=text.delta(_delta(classes, key), widest),
    )


def _delta(classes: Sequence[Counter[tuple[str, str]]], key: tuple[str, str]) -> int | None:
    return classes[1][key] - classes[0][key] if len(classes) > 1 else None


def _change(counts: Sequence[int | None]) -> str:
    """Return the difference of the first two as a number with its sign."""
    return text.difference(counts[0], counts[1]) if len(counts) > 1 else ""


def _examples(key: tuple[str, str], mixes: Sequence[Mix]) -> str:
    """Return the most executed opcodes of a class, in any profile."""
    most: Counter[str] = Counter()
    for one in mixes:
        for opcode, executed in one.opcodes.items():
            if executed and instruction_mix.key(opcode) == key:
                most[opcode] = max(most[opcode], executed)
    words = list(dict.fromkeys(".".join(opcode.split(".")[:2]) for opcode, _ in most.most_common()))
    return ", ".join(words[:4]) + (" …" if len(words) > 4 else "")


def _opcodes(mixes: Sequence[Mix]) -> tuple[OpcodeRow, ...]:
    """Return every opcode, what changed most first."""
    names = set().union(*(one.opcodes for one in mixes))
    pair = (mixes[0], mixes[min(1, len(mixes) - 1)])

    def order(name: str) -> tuple[int, int, str]:
        before, after = (one.opcodes[name] for one in pair)
        return -abs(after - before), -before, name

    rows = []
    for name in sorted(names, key=order):
        counts = [one.opcodes[name] if one.known else None for one in mixes]
        rows.append(
            OpcodeRow(
                name, instruction_mix.classify(name), tuple(text.count(count) for count in counts), _change(counts)
            )
        )
    return tuple(rows)


def _sentence(comparison: Comparison, classes: Sequence[Counter[tuple[str, str]]], mixes: Sequence[Mix]) -> str:
    """Return what a reader should see: the same work, and by how much the rest changed."""
    if len(mixes) < 2 or not all(one.known for one in mixes[:2]):
        return ""
    before, after = comparison.labels[:2]
    keys = [key for key in {**classes[0], **classes[1]} if classes[0][key] or classes[1][key]]
    fixed = sorted(word for kind, word in keys if kind in FIXED and not _delta(classes, (kind, word)))
    moved = sorted((key for key in keys if _delta(classes, key)), key=lambda key: -abs(_delta(classes, key) or 0))
    was, now = mixes[0].total(), mixes[1].total()
    parts = [f"{before} and {after} execute the same number of {text.listed(fixed)}"] if fixed else []
    if was == now and not moved:
        parts.append("and of everything else" if fixed else f"{before} and {after} execute the same instructions")
        return " ".join(parts) + "."
    said = [f"{_named(key)} {text.difference(classes[0][key], classes[1][key])}" for key in moved[:NAMED]]
    if (instruction_mix.INTEGER, "") in moved[NAMED:]:
        key = (instruction_mix.INTEGER, "")
        said.append(f"{_named(key)} {text.difference(classes[0][key], classes[1][key])}")
    whole = f"In all, {after} executes {text.count(now)} warp instructions, {before} {text.count(was)}"
    parts.append(f"{whole} ({text.change(was, now)}): {', '.join(said)}")
    return ". ".join(parts) + "."


def _named(key: tuple[str, str]) -> str:
    kind, word = key
    where = " (where addresses are computed)" if kind == instruction_mix.INTEGER else ""
    return (word or kind.lower()) + where
