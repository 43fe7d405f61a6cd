"""Profiles side by side: their tables and a verdict; and the results of jobs, comparisons or times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ncu_swizzle.base.errors import Hint, NotComparable, Typed
from ncu_swizzle.cycles.simulated import Span, saved_by
from ncu_swizzle.kernels.family import Family, Kernel
from ncu_swizzle.reports import memory, remarks
from ncu_swizzle.reports.counts import Instruction, Total
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Engine
from ncu_swizzle.reports.remarks import Named, best, speedup, verdict, warnings_of

# Several profiles side by side: their tables, and a verdict in one sentence.
#
# The first profile is the one before; of the others, the verdict is about the best, and tables show the change to the
# second.

pd.set_option("mode.string_storage", "python")  # pyarrow's strings cannot hold every name of a kernel

SHARED_PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
HARDWARE = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"

# The rows of the metric table: title, unit, and how to get the value from a profile.
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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Profiles and their tables. Unknown values are NA.

    labels      one per profile, distinct
    metrics     index: title; columns: "unit", then one per label
    accesses    one row per access kind and profile: access, label, executed, wavefronts, ideal, excessive,
                degree
    memory      one row per opcode that accesses global memory and profile: access, label, executed, sectors,
                ideal, excessive, excessive_bytes, tags; and one for LDL and STL each with local_sectors
    stalls      index: reason, sorted by the change from first to second, largest first; one column per label, in
                percent of that profile's samples, NaN for a profile without samples
    lines       one row per source line and profile that has samples or wavefronts: label, file, line, executed,
                wavefronts, ideal, excessive, degree, samples
    title       the kernel's short name if this is one of several comparisons; else empty
    """

    profiles: tuple[Profile, ...]
    labels: tuple[str, ...]
    metrics: pd.DataFrame
    accesses: pd.DataFrame
    memory: pd.DataFrame
    stalls: pd.DataFrame
    lines: pd.DataFrame
    verdict: str
    warnings: tuple[str, ...]
    title: str = ""

    @property
    def speedup(self) -> float | None:
        """Duration before over duration after; None if either is unknown or there is no second profile."""
        return speedup(self.profiles)

    @property
    def judged(self) -> tuple[int, ...]:
        """The indices of the profiles that the verdict is about: the first, and the best of the others."""
        return (0,) if len(self.profiles) == 1 else (0, best(self.profiles))

    @property
    def saves(self) -> Span | None:
        """The share of an H100's cycles that the best of the others saves; None unless both are simulated."""
        judged = [self.profiles[number].simulated for number in self.judged]
        return saved_by(*judged) if len(judged) == 2 else None

    @property
    def headline(self) -> str:
        """The verdict without its counts and times."""
        return verdict(self.named, counts=False)

    @property
    def asides(self) -> tuple[str, ...]:
        """The warnings that cast no doubt on the tables."""
        return tuple(f"{label}: {aside}." for label, profile in self.named for aside in remarks.asides(profile))

    @cached_property
    def named(self) -> list[tuple[str, Profile]]:
        """The profiles with their labels."""
        return list(zip(self.labels, self.profiles, strict=True))


def compare(
    profiles: Sequence[Profile], notes: Sequence[str] = (), labels: Sequence[str] = (), title: str = ""
) -> Comparison:
    """Put the profiles side by side; raise NotComparable if there are none.

    `notes` are the caller's warnings, such as a missing reference; `labels` name the profiles, by default by their
    kernels.
    """
    if not profiles:
        raise NotComparable(
            "there are no profiles to compare", Hint(Typed("ncu-swizzle list"), " shows what can be profiled")
        )
    labels = tuple(labels) or distinct([profile.kernel.name for profile in profiles])
    named = list(zip(labels, profiles, strict=True))
    return Comparison(
        profiles=tuple(profiles),
        labels=labels,
        metrics=_metrics(named),
        accesses=_accesses(named),
        memory=_memory(named),
        stalls=_stalls(named),
        lines=_lines(named),
        verdict=verdict(named),
        warnings=(*notes, *warnings_of(named)),
        title=title,
    )


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, repeated ones with a number."""
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
    """Return a count that fits in 64 bits, else None; `remarks` reports those."""
    return count if count is None or abs(count) < 1 << 63 else None


def _accesses(named: Named) -> pd.DataFrame:
    rows = [
        {"access": access, "label": label, **_row(total)}
        for label, profile in named
        for access, total in profile.accesses.items()
    ]
    return _table(rows, "access", "label", *COUNTS, "degree")


SECTORS = ("executed", "sectors", "ideal", "excessive", "excessive_bytes", "tags", "local_sectors")


def _memory(named: Named) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for label, profile in named:
        for access, group in memory.by_opcode(profile).items():
            rows.append({"access": access, "label": label, **_sums(group.instructions)})
        for access, accesses in memory.local_accesses(profile).items():
            rows.append({"access": access, "label": label, **_sums(accesses)})
    table = pd.DataFrame(rows, columns=["access", "label", *SECTORS])
    return table.astype(dict.fromkeys(SECTORS, "Int64"))


def _sums(accesses: Sequence[Instruction]) -> dict[str, int | None]:
    """Return the counts of accesses together, None if any of them lacks it."""
    columns = {name: [getattr(each.traffic, name) for each in accesses] for name in SECTORS[1:]}
    columns["executed"] = [each.executed for each in accesses]
    sums = {name: None if None in counts else sum(counts) for name, counts in columns.items()}
    return {name: _countable(count) for name, count in sums.items()}


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


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """One comparison per kernel or pair of kernels; `notes` apply to all of them, `title` is the page's."""

    comparisons: tuple[Comparison, ...]
    engine: Engine
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def comparison(self) -> Comparison:
        """The first comparison, usually the only one."""
        return self.comparisons[0]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.iterdir())) if self.folder else ()


@dataclass(frozen=True)
class TimedFamily:
    """Kernels of one family, timed in turn in one process; `facts` are those of the launching program."""

    family: Family
    kernels: tuple[Kernel, ...]
    facts: dict[str, Any]
