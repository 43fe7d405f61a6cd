"""The tables of a comparison: metrics, accesses, memory, stalls and lines side by side; see `Comparison`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from ncu_swizzle.base.validate import LIMIT
from ncu_swizzle.reports import memory as traffic
from ncu_swizzle.reports.counts import Instruction, Total, known_sum
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.remarks import Named

pd.set_option("mode.string_storage", "python")  # pyarrow's strings cannot hold every name of a kernel
COUNT, RATIO = "Int64", "Float64"  # the types of columns whose values can be unknown

SHARED_PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
HARDWARE = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
DEGREE = "Degree (actual / ideal)"

# The rows of the metric table: title, unit, and how to get the value from a profile.
METRICS: tuple[tuple[str, str, Callable[[Profile], float | None]], ...] = (
    ("Duration", "ms", lambda p: _scaled(p.duration_ns, 1e-6)),
    ("Shared wavefronts", "", lambda p: p.total.wavefronts),
    ("Ideal shared wavefronts", "", lambda p: p.total.ideal),
    ("Excessive shared wavefronts", "", lambda p: p.total.excessive),
    (DEGREE, "", lambda p: p.total.degree),
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


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def metrics(named: Named) -> pd.DataFrame:
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
    return count if count is None or abs(count) < LIMIT else None


def accesses(named: Named) -> pd.DataFrame:
    rows = [
        {"access": access, "label": label, **_row(total)}
        for label, profile in named
        for access, total in profile.accesses.items()
    ]
    return _table(rows, "access", "label", *COUNTS, "degree")


SECTORS = ("executed", "sectors", "ideal", "excessive", "excessive_bytes", "tags", "local_sectors")


def memory(named: Named) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for label, profile in named:
        for access, group in traffic.by_opcode(profile).items():
            rows.append({"access": access, "label": label, **_sums(group.instructions)})
        for access, accesses in traffic.local_accesses(profile).items():
            rows.append({"access": access, "label": label, **_sums(accesses)})
    table = pd.DataFrame(rows, columns=["access", "label", *SECTORS])
    return table.astype(dict.fromkeys(SECTORS, COUNT))


def _sums(accesses: Sequence[Instruction]) -> dict[str, int | None]:
    """Return the counts of accesses together, None if any of them lacks it."""
    counts = {name: known_sum(getattr(access.traffic, name) for access in accesses) for name in SECTORS[1:]}
    counts["executed"] = known_sum(access.executed for access in accesses)
    return {name: _countable(count) for name, count in counts.items()}


def lines(named: Named) -> pd.DataFrame:
    rows = [
        {"label": label, "file": file, "line": line, **_row(total), "samples": total.samples}
        for label, profile in named
        for (file, line), total in profile.lines.items()
    ]
    return _table(rows, "label", "file", "line", *COUNTS, "degree", "samples")


def _table(rows: list[dict[str, Any]], *columns: str) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(columns))
    return table.astype({**dict.fromkeys(COUNTS, COUNT), "degree": RATIO})


def stalls(named: Named) -> pd.DataFrame:
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
