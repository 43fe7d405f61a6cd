"""Several profiles side by side: the tables, and what they say in one sentence.

The first profile is the one before, the second the one after; further ones stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ncu_swizzle import collecting, doubts
from ncu_swizzle.catalog import in_words
from ncu_swizzle.errors import NotComparable
from ncu_swizzle.files import write_atomically
from ncu_swizzle.profile import EMULATED, Profile, Total

if TYPE_CHECKING:
    from ncu_swizzle.frames import Kind

SHARED_PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
HARDWARE = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"

# The rows of the metric table: title, unit, and where a profile has it.
METRICS: tuple[tuple[str, str, Callable[[Profile], float | None]], ...] = (
    ("Duration", "ms", lambda p: _scaled(p.duration_ns, 1e-6)),
    ("Shared wavefronts", "", lambda p: p.total.wavefronts),
    ("Ideal shared wavefronts", "", lambda p: p.total.ideal),
    ("Excessive shared wavefronts", "", lambda p: p.total.excessive),
    ("Degree (actual / ideal)", "", lambda p: p.total.degree),
    ("Shared pipe, share of peak", "%", lambda p: p.number(SHARED_PIPE)),
    ("Hardware conflict counter, loads", "", lambda p: p.number(f"{HARDWARE}_op_ld.sum")),
    ("Hardware conflict counter, stores", "", lambda p: p.number(f"{HARDWARE}_op_st.sum")),
    ("Hardware conflict counter, atomics", "", lambda p: p.number(f"{HARDWARE}_op_atom.sum")),
    (
        "Tensor pipe, share of peak",
        "%",
        lambda p: p.number("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    ),
    ("L2, share of peak", "%", lambda p: p.number("lts__t_sectors.sum.pct_of_peak_sustained_elapsed")),
    ("DRAM, share of peak", "%", lambda p: p.number("dram__bytes.sum.pct_of_peak_sustained_elapsed")),
    ("Issue slots, share of peak", "%", lambda p: p.number("smsp__issue_active.avg.pct_of_peak_sustained_active")),
    ("Warp instructions executed", "", lambda p: p.number("inst_executed")),
    ("Registers per thread", "", lambda p: p.number("launch__registers_per_thread")),
    ("Static shared memory per block", "bytes", lambda p: p.number("launch__shared_mem_per_block_static")),
    ("Dynamic shared memory per block", "bytes", lambda p: p.number("launch__shared_mem_per_block_dynamic")),
    ("Theoretical occupancy", "%", lambda p: p.number("sm__maximum_warps_per_active_cycle_pct")),
    ("Achieved occupancy", "%", lambda p: p.number("sm__warps_active.avg.pct_of_peak_sustained_active")),
    ("SM clock", "GHz", lambda p: _scaled(p.number("smsp__cycles_elapsed.avg.per_second"), 1e-9)),
)


@dataclass(frozen=True)
class Comparison:
    """Profiles and their tables. Unknown values are NaN.

    labels      one per profile, distinct
    metrics     index: title; columns: "unit", then one per label
    accesses    one row per access kind and profile: access, label, executed, wavefronts, ideal, excessive,
                degree
    stalls      index: reason, by how much it changed from first to second, most first; one column per label, in
                percent of that profile's samples, NaN for a profile without samples
    lines       one row per source line and profile that has samples or wavefronts: label, file, line, executed,
                wavefronts, ideal, excessive, degree, samples
    title       what it is about, where it is one of several: a kernel's short name; empty where it stands alone
    """

    profiles: tuple[Profile, ...]
    labels: tuple[str, ...]
    metrics: pd.DataFrame
    accesses: pd.DataFrame
    stalls: pd.DataFrame
    lines: pd.DataFrame
    verdict: str
    warnings: tuple[str, ...]
    title: str = ""

    @property
    def speedup(self) -> float | None:
        """Duration before over duration after; None where either is unknown or there is no second."""
        return _speedup(self.profiles)

    # What notebooks ask for. What shows comparisons builds on this module: it is imported when asked for.

    def to_frame(self, kind: Kind = "instructions") -> pd.DataFrame:
        """Return a table of all profiles, one below the other, with their labels; see `frames.of_comparison`."""
        from ncu_swizzle import frames

        return frames.of_comparison(self, kind)

    def html(self) -> str:
        """Return the report, one HTML document."""
        from ncu_swizzle import page

        return page.render(self)

    def to_html(self, path: str | Path) -> None:
        """Write the report."""
        write_atomically(Path(path), self.html().encode())

    def _repr_html_(self) -> str:
        from ncu_swizzle import page

        return page.render_card(self.profiles, self)


def compare(
    profiles: Sequence[Profile], notes: Sequence[str] = (), labels: Sequence[str] = (), title: str = ""
) -> Comparison:
    """Lay the profiles side by side; raise NotComparable where there is nothing to compare.

    `notes` are warnings that the caller has, such as a reference that could not be had; `labels` what the profiles
    are to be called, their kernels' names by default.
    """
    if not profiles:
        raise NotComparable("there is no profile to show", "ncu-swizzle list shows what can be profiled")
    labels = tuple(labels) or distinct([profile.kernel.name for profile in profiles])
    named = list(zip(labels, profiles, strict=True))
    return Comparison(
        profiles=tuple(profiles),
        labels=labels,
        metrics=_metrics(named),
        accesses=_accesses(named),
        stalls=_stalls(named),
        lines=_lines(named),
        verdict=_verdict(named),
        warnings=(*notes, *_warnings(named)),
        title=title,
    )


Named = Sequence[tuple[str, Profile]]


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, those that there are several of with a number each."""
    return tuple(
        name if names.count(name) == 1 else f"{name} #{names[: index + 1].count(name)}"
        for index, name in enumerate(names)
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _metrics(named: Named) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "unit": [unit for _, unit, _ in METRICS],
            **{label: pd.array([get(p) for _, _, get in METRICS], dtype="Float64") for label, p in named},
        },
        index=pd.Index([title for title, _, _ in METRICS], name="metric"),
    )
    return table.dropna(how="all", subset=[label for label, _ in named])


COUNTS = ("executed", "wavefronts", "ideal", "excessive")


def _row(total: Total) -> dict[str, float | None]:
    return {**{count: _countable(getattr(total, count)) for count in COUNTS}, "degree": total.degree}


def _countable(count: int | None) -> int | None:
    """Return a count that a table can hold; None for what `doubts` calls absurd."""
    return count if count is None or abs(count) < 1 << 63 else None


def _accesses(named: Named) -> pd.DataFrame:
    rows = [
        {"access": access, "label": label, **_row(total)}
        for label, profile in named
        for access, total in profile.accesses.items()
    ]
    return _table(rows, "access", "label", *COUNTS, "degree")


def _lines(named: Named) -> pd.DataFrame:
    rows = [
        {"label": label, "file": file, "line": line, **_row(total), "samples": total.samples}
        for label, profile in named
        for (file, line), total in profile.lines.items()
    ]
    return _table(rows, "label", "file", "line", *COUNTS, "degree", "samples")


def _table(rows: list[dict[str, Any]], *columns: str) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(columns))
    return table.astype({**dict.fromkeys(COUNTS, "Int64"), "degree": "Float64"})


def _stalls(named: Named) -> pd.DataFrame:
    shares = {}
    for label, profile in named:
        samples = pd.Series(profile.stalls, dtype="float64")
        if samples.sum():
            shares[label] = 100 * samples / samples.sum()
    table = pd.DataFrame(shares).fillna(0.0).reindex(columns=[label for label, _ in named])
    table.index.name = "reason"
    first, second = named[0][0], named[min(1, len(named) - 1)][0]
    order = (table[second].fillna(0.0) - table[first].fillna(0.0)).abs() if second != first else table[first]
    return table.loc[order.sort_values(ascending=False, kind="stable").index]


def _speedup(profiles: Sequence[Profile]) -> float | None:
    if len(profiles) < 2 or not profiles[0].duration_ns or not profiles[1].duration_ns:
        return None
    return profiles[0].duration_ns / profiles[1].duration_ns


def _verdict(named: Named) -> str:
    if len(named) == 1:
        return f"{_waste(*named[0])}."
    (before_label, before), (after_label, after) = named[:2]
    was, now = before.total.excessive, after.total.excessive
    if was is None or now is None:
        return f"{before_label} and {after_label} cannot be judged: {_unknown(before, after)}."
    if was == now == 0:
        pace = _pace(before, after)
        said = f"Neither {before_label} nor {after_label} has excessive wavefronts"
        return f"{said}; {after_label} {pace}." if pace else f"{said}."
    change = f"{after_label} {_change(was, now, before_label)}"
    if before.total.degree and after.total.degree:
        change += f" (degree {before.total.degree:.2f} → {after.total.degree:.2f})"
    parts = [change, _pace(before, after)]
    return " and ".join(part for part in parts if part) + "."


def _change(was: int, now: int, before: str) -> str:
    if not now:
        return f"removes all {was:,} excessive wavefronts of {before}"
    if was > now:
        return f"removes {was - now:,} of the {was:,} excessive wavefronts of {before}"
    if was < now:
        return f"adds {now - was:,} excessive wavefronts to the {was:,} of {before}"
    return f"has as many excessive wavefronts as {before}: {now:,}"


def _waste(label: str, profile: Profile) -> str:
    total = profile.total
    if total.excessive is None or total.degree is None:
        return f"{label} cannot be judged: {_unknown(profile)}"
    if not total.excessive:
        return f"{label} has no excessive shared-memory wavefronts"
    return f"{label} spends {total.excessive:,} excessive wavefronts, {total.degree:.2f} times the ideal number"


def _unknown(*profiles: Profile) -> str:
    if any(profile.engine == EMULATED and profile.accesses for profile in profiles):
        return "not all wavefronts could be computed"
    missing = sorted({name for profile in profiles for name in profile.missing})
    return f"{', '.join(missing)} not in the report" if missing else "no shared-memory access was counted"


def _pace(before: Profile, after: Profile) -> str:
    ratio = _speedup((before, after))
    if not ratio or not before.duration_ns or not after.duration_ns:
        return ""
    change = f"{ratio:.2f} times as fast" if ratio >= 1 else f"{1 / ratio:.2f} times slower"
    times = f"{before.duration_ns / 1e6:.3f} → {after.duration_ns / 1e6:.3f} ms"
    where = " and ".join(dict.fromkeys(profile.beside for profile in (before, after) if profile.beside))
    return f"was {change}, {where}: {times}" if where else f"is {change}: {times}"


# What has to agree before two profiles' times, and mostly their counts, mean the same.
_CONDITIONS: tuple[tuple[str, Callable[[Profile], str]], ...] = (
    ("GPU", lambda p: p.machine.gpu),
    ("problem", lambda p: in_words(p.problem)),
    ("clock control", lambda p: p.machine.clock_control),
    ("driver", lambda p: p.machine.driver),
    ("CUDA", lambda p: p.machine.cuda),
    ("ncu", lambda p: p.machine.ncu),
    ("engine", lambda p: "" if p.beside else p.engine),  # whose wavefronts are computed, but not its times
)


def _warnings(named: Named) -> list[str]:
    found = []
    for what, get in _CONDITIONS:
        values = {label: get(profile) for label, profile in named if get(profile)}
        if len(set(values.values())) > 1:
            found.append(f"Not the same {what}: " + ", ".join(f"{label} {v}" for label, v in values.items()) + ".")
    found += [note for _, profile in named for note in profile.notes]
    for label, profile in named:
        if profile.missing:
            found.append(
                f"{label} lacks {', '.join(profile.missing)}{_because(profile)}. "
                f"Collect it with: {collecting.command(profile)}"
            )
        found += [f"{label}: {doubt}." for doubt in doubts.of(profile)]
    return found


def _because(profile: Profile) -> str:
    workload = profile.launch.workload
    return "" if workload == "kernel" else f" (it is a {workload}, of which ncu counts nothing per instruction)"
