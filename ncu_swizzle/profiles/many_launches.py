"""Many launches at once: a comparison for each kernel or pair, which are the worst, and what to say of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import PurePosixPath

from ncu_swizzle.cubin import demangled
from ncu_swizzle.profiles import pairing, recollect
from ncu_swizzle.profiles.comparison import Comparison, compare, distinct
from ncu_swizzle.profiles.model import IDEAL, WAVEFRONTS, Profile
from ncu_swizzle.profiles.pairing import Row
from ncu_swizzle.texts import printable

SUFFIXES = (".ncu-rep", ".json")
BEFORE, AFTER = "before", "after"


def lay_out(
    rows: Sequence[Row], columns: Sequence[str] = (), notes: Sequence[str] = ()
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Return a comparison per row, and what is to be said of all of them.

    `columns` name the reports that the rows have launches of. Where there is one row, its comparison carries the
    notes itself; without columns its profiles bear their kernels' names.
    """
    if len(rows) == 1:
        present = _present(rows[0])
        labels = [columns[place] for place, _ in present] if columns and len(present) > 1 else ()
        return (compare([one for _, one in present], notes, labels),), ()
    titles = distinct([*map(_renamed, rows, demangled.distinct([_full_name(_present(row)[-1][1]) for row in rows]))])
    made = tuple(_comparison(row, columns, title) for row, title in zip(rows, titles, strict=True))
    return made, (*notes, *_unpaired(rows, columns), *_lacking(rows))


def _present(row: Row) -> list[tuple[int, Profile]]:
    return [(place, one) for place, one in enumerate(row) if one is not None]


def _renamed(row: Row, name: str) -> str:
    """Return the name, after the one before where that was another function's."""
    first = demangled.function(_full_name(_present(row)[0][1]))
    last = demangled.function(_full_name(_present(row)[-1][1]))
    return name if first == last else f"{first} → {name}"


def _full_name(profile: Profile) -> str:
    return profile.kernel.name if profile.kernel.family else profile.kernel.function or profile.kernel.name


def _comparison(row: Row, columns: Sequence[str], title: str) -> Comparison:
    present = _present(row)
    labels = [columns[place] for place, _ in present] if len(row) > 1 else [title]
    return compare([one for _, one in present], labels=labels, title=title)


def _unpaired(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Return which launches stand alone, report by report."""
    alone: dict[int, list[Profile]] = {}
    for row in rows:
        present = _present(row)
        if len(row) > len(present) == 1:
            alone.setdefault(present[0][0], []).append(present[0][1])
    return [f"Only in {columns[place]}, not paired: {pairing.named(found)}." for place, found in sorted(alone.items())]


def _lacking(rows: Sequence[Row]) -> list[str]:
    lacking = [one for row in rows for _, one in _present(row) if one.missing]
    if not lacking:
        return []
    missing = dict.fromkeys(name for one in lacking for name in one.missing)
    everything = sum(len(_present(row)) for row in rows)
    return [
        f"{len(lacking)} of {everything} launches lack metrics: {', '.join(missing)}. "
        f"Collect them with: {recollect.command_for_all(lacking[0])}"
    ]


def columns(entries: Sequence[str]) -> tuple[str, ...]:
    """Return what to call reports: their files' names, or before and after where these are the same."""
    stems = [_stem(entry) for entry in entries]
    if len(set(stems)) < len(stems):
        return (BEFORE, AFTER) if len(stems) == 2 else distinct(stems)
    return tuple(stems)


def _stem(entry: str) -> str:
    """Return what to call a file or folder: its own name without the suffix."""
    name = PurePosixPath(entry).name
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return printable(name.removesuffix(suffix)) or entry


def excess(profile: Profile) -> int | None:
    """Return a launch's excessive wavefronts: 0 where ncu looked and saw no access, None where it did not look."""
    if WAVEFRONTS in profile.metrics and IDEAL in profile.metrics and not profile.accesses:
        return 0
    return profile.total.excessive


def excessive(comparison: Comparison) -> int | None:
    """Return the most excessive wavefronts of any of its profiles; None where all are unknown."""
    return max((one for one in map(excess, comparison.profiles) if one is not None), default=None)


def worst(comparisons: Sequence[Comparison], most: int) -> list[int]:
    """Return the places of the comparisons to look at: most excessive wavefronts first, then the longest.

    Of the launches of one kernel in one size there is only the worst.
    """
    order = sorted(range(len(comparisons)), key=lambda place: _badness(comparisons[place]))
    seen: dict[Hashable, int] = {}
    for place in order:
        last = comparisons[place].profiles[-1]
        seen.setdefault((_full_name(last), last.grid, last.block, len(comparisons[place].profiles)), place)
    return list(seen.values())[:most]


def _badness(comparison: Comparison) -> tuple[int, float]:
    return -(excessive(comparison) or 0), -max(one.duration_ns or 0.0 for one in comparison.profiles)


def verdict(comparisons: Sequence[Comparison]) -> str:
    """Return what all comparisons come to, in one or two sentences."""
    if len(comparisons) == 1:
        return comparisons[0].verdict
    pairs = [one for one in comparisons if len(one.profiles) > 1]
    return _of_pairs(pairs) if pairs else _of_kernels(comparisons)


def _of_kernels(comparisons: Sequence[Comparison]) -> str:
    known = [one for one in comparisons if excessive(one) is not None]
    bad = sorted((one for one in known if excessive(one)), key=_badness)
    unknown = f"; {len(comparisons) - len(known)} cannot be judged" if len(known) < len(comparisons) else ""
    if not known:
        return f"None of the {len(comparisons)} launches can be judged."
    if not bad:
        return f"None of {len(comparisons)} launches has excessive shared-memory wavefronts{unknown}."
    total = bad[0].profiles[0].total
    return (
        f"{len(bad)} of {len(comparisons)} launches have excessive shared-memory wavefronts{unknown}; most has "
        f"{bad[0].title}: {total.excessive:,}" + (f" (degree {total.degree:.2f})." if total.degree else ".")
    )


def _of_pairs(pairs: Sequence[Comparison]) -> str:
    was, now = (_sum([excess(one.profiles[place]) for one in pairs]) for place in (0, 1))
    before, after = (_sum([one.profiles[place].duration_ns for one in pairs]) for place in (0, 1))
    parts = [f"{len(pairs)} pairs"]
    parts += [f"excessive wavefronts {was:,.0f} → {now:,.0f}"] if was is not None and now is not None else []
    parts += [f"{before / 1e6:.3f} → {after / 1e6:.3f} ms together"] if before is not None and after else []
    return f"{', '.join(parts)}."


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where any part of it is unknown."""
    return None if None in values else sum(value for value in values if value is not None)
