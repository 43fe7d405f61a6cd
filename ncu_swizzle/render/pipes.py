"""Tiles that TMA writes into shared memory, and wgmma reads there: which counters see that, and which do not.

Measured on an H100 with the family ``tma``, whose kernels write shared memory through TMA only: the counters listed
here as blind stay at zero, whatever the swizzle. Our section collects no counter of wgmma's own, which would take a
seventh pass beside TMA's bytes (bench/passes.py); a report that has them shows them, any other says that they are
unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.render import text
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.model import Profile

# How busy each unit of the GPU is, as a share of the most that it sustains: its ceiling.


NEAR, FAR = 80.0, 60.0  # percent of the ceiling: a bottleneck from NEAR on; below FAR no unit is one
MOST_BARS = 4  # profiles
OF_ELAPSED, OF_ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"

# A unit, what of it is counted, and the metrics that say so: the first one that all profiles have is shown.
UNITS = (
    ("Shared memory", "wavefronts of the load/store data pipe", ("l1tex__data_pipe_lsu_wavefronts_mem_shared",)),
    ("L1 data pipe", "wavefronts of all loads and stores", ("l1tex__data_pipe_lsu_wavefronts",)),
    ("L2", "sectors", ("lts__t_sectors",)),
    ("DRAM", "bytes", ("dram__bytes", "gpu__dram_throughput", "dram__throughput")),
    ("Tensor cores", "busy cycles", ("sm__pipe_tensor_cycles_active",)),
    ("FMA pipe", "busy cycles", ("sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_fma")),
    ("ALU pipe", "busy cycles", ("sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_alu")),
    ("FP64 pipe", "busy cycles", ("sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64")),
    ("XU pipe", "instructions: sin, exp2, conversions", ("sm__inst_executed_pipe_xu",)),
    ("LSU", "instructions", ("sm__inst_executed_pipe_lsu",)),
    ("Issue slots", "instructions issued", ("smsp__issue_active", "sm__issue_active", "sm__inst_executed")),
)


@dataclass(frozen=True)
class UnitBar:
    """How busy a profile keeps the unit; `rank` is the profile's number."""

    rank: int
    width: str


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """One unit: a percentage per profile, and the first of them as bars below their ceiling, 100 %."""

    name: str
    counted: str
    metric: str
    values: tuple[str, ...]
    change: str
    bars: tuple[UnitBar, ...]


@dataclass(frozen=True)
class UnitSection:
    """The units, the busiest first, and what limits each of the first two profiles."""

    sentences: tuple[str, ...]
    rows: tuple[UnitRow, ...]


@dataclass(frozen=True, kw_only=True)
class _Use:
    """One unit's share of its ceiling in every profile; None if it was not measured there."""

    name: str
    counted: str
    metric: str
    shares: tuple[float | None, ...]


def section(comparison: Comparison) -> UnitSection | None:
    """Return how busy the units are; None unless every one of the first two profiles has at least two of them."""
    uses = [use for unit in UNITS if (use := _use(unit, comparison.profiles)) is not None]
    if len(uses) < 2:
        return None
    last = min(len(comparison.profiles), 2) - 1
    uses.sort(key=lambda use: -(use.shares[last] or 0.0))
    return UnitSection(tuple(_sentences(comparison.labels, uses)), tuple(map(_row, uses)))


def _use(unit: tuple[str, str, tuple[str, ...]], profiles: tuple[Profile, ...]) -> _Use | None:
    name, counted, metrics = unit
    for metric in (metric + suffix for metric in metrics for suffix in (OF_ELAPSED, OF_ACTIVE)):
        shares = tuple(profile.number(metric) for profile in profiles)
        if None not in shares[:2]:
            return _Use(name=name, counted=counted, metric=metric, shares=shares)
    return None


def _row(use: _Use) -> UnitRow:
    cycles = "active" if use.metric.endswith("_active") else "elapsed"
    return UnitRow(
        name=use.name,
        counted=f"{use.counted}, over {cycles} cycles",
        metric=use.metric,
        values=tuple(text.percent(share) for share in use.shares),
        change=text.points(*use.shares[:2]) if len(use.shares) > 1 else "",
        bars=tuple(UnitBar(rank, text.width(share, 100)) for rank, share in enumerate(use.shares[:MOST_BARS])),
    )


def _sentences(labels: tuple[str, ...], uses: list[_Use]) -> list[str]:
    """Say of each of the first two profiles which unit is next to its ceiling, if any."""
    sentences = []
    for rank, label in enumerate(labels[:2]):
        busiest = max(uses, key=lambda use: use.shares[rank] or 0.0)
        share = busiest.shares[rank] or 0.0
        shown = f"{busiest.name}, at {text.percent(share)} of its ceiling"
        if share >= NEAR:
            sentences.append(f"The bottleneck of {label}: {shown}.")
        elif share >= FAR:
            sentences.append(f"The busiest unit of {label}: {shown}.")
        else:
            sentences.append(
                f"No unit of {label} is near its ceiling; the busiest: {shown}. Latency is the likely limit."
            )
    return sentences


BYTES = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
LOADS = ("UTMALDG", "UBLKCP")  # tensor and bulk copies

WGMMA = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
SEEING = ((BYTES, "bytes loaded by TMA"),)
# By the instructions that they count: shown if these were executed, or if a report's counter is not 0.
FURTHER = (
    (
        ("UTMALDG",),
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum",
        "bytes loaded for several blocks of a cluster",
        "MULTICAST",
    ),
    (
        ("UTMASTG", "UBLKCP.G"),
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
        "bytes stored by TMA",
        "",
    ),
)
REQUESTS = ("smsp__l1tex_tmain_requests.sum", "requests to TMA")
OF_WGMMA = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", "wgmma wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum", "wgmma bank conflicts, hardware"),
)
BLIND = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "store wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "store bank conflicts, hardware"),
)


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One counter, whether it sees TMA's writes, and its value in each profile."""

    name: str
    meaning: str
    sees: bool
    values: tuple[str, ...]


def counters(comparison: Comparison) -> tuple[Counter, ...]:
    """Return the counters if any profile loads through TMA; nothing otherwise."""
    profiles = comparison.profiles
    if not any(_executed(profile) or profile.number(BYTES) for profile in profiles):
        return ()
    return (
        Counter(
            name="inst_executed",
            meaning="TMA loads executed",
            sees=True,
            values=tuple(text.count(_executed(p)) for p in profiles),
        ),
        *(_counter(name, meaning, True, profiles) for name, meaning in SEEING),
        *_further(profiles),
        Counter(
            name="memory_l1_wavefronts_shared",
            meaning="TMA load wavefronts, source-level",
            sees=False,
            values=tuple(_wavefronts(p) for p in profiles),
        ),
        *(_counter(name, meaning, False, profiles) for name, meaning in BLIND),
    )


def of_wgmma(comparison: Comparison) -> tuple[Counter, ...]:
    """Return wgmma's counters if any profile has wgmma; nothing otherwise."""
    profiles = comparison.profiles
    if not any(_ran(profile, WGMMA) for profile in profiles):
        return ()
    return (
        Counter(
            name="inst_executed",
            meaning="wgmma executed, by warps",
            sees=True,
            values=tuple(_sum(p, WGMMA, "executed") for p in profiles),
        ),
        Counter(
            name="memory_l1_wavefronts_shared",
            meaning="wgmma wavefronts, source-level",
            sees=True,
            values=tuple(_sum(p, WGMMA, "wavefronts") for p in profiles),
        ),
        *(_counter(name, meaning, True, profiles) for name, meaning in OF_WGMMA),
    )


def _further(profiles: tuple[Profile, ...]) -> Iterator[Counter]:
    for opcodes, name, meaning, modifier in FURTHER:
        if any(_ran(p, opcodes, modifier) or p.number(name) for p in profiles):
            yield _counter(name, meaning, True, profiles)
    if any(p.number(REQUESTS[0]) is not None for p in profiles):
        yield _counter(*REQUESTS, True, profiles)


def _ran(profile: Profile, opcodes: tuple[str, ...], modifier: str = "") -> bool:
    return any(i.executed and i.opcode.startswith(opcodes) and modifier in i.opcode for i in profile.instructions)


def _sum(profile: Profile, opcodes: tuple[str, ...], field: str) -> str:
    counts = [getattr(i, field) for i in profile.instructions if i.opcode.startswith(opcodes)]
    return text.count(None if None in counts else sum(counts))


def _counter(name: str, meaning: str, sees: bool, profiles: tuple[Profile, ...]) -> Counter:
    return Counter(
        name=name, meaning=meaning, sees=sees, values=tuple(text.count(profile.number(name)) for profile in profiles)
    )


def _executed(profile: Profile) -> int:
    return sum(i.executed or 0 for i in profile.instructions if i.opcode.startswith(LOADS))


def _wavefronts(profile: Profile) -> str:
    counted = [i.wavefronts for i in profile.instructions if i.opcode.startswith(LOADS) and i.wavefronts is not None]
    return text.count(sum(counted)) if counted else "no value"
