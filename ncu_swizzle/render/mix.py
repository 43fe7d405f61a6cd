"""The instruction mix, and how busy each unit of the GPU is; TMA and wgmma: which counters see them.

Measured on an H100 with the family ``tma``, whose kernels write shared memory through TMA only: the counters listed
here as blind stay at zero, whatever the swizzle. Our section collects no wgmma counter, which would take a
seventh pass in addition to TMA's bytes (bench/figures/passes.py); a report that has them shows them, any other calls
them unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ncu_swizzle.render import text
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.counts import TRANSFERS, known_sum
from ncu_swizzle.reports.frames import Mix
from ncu_swizzle.reports.model import Profile

# The instruction mix: what stayed the same, and what address computation costs.

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
    """A number of executions: its known part, and the number itself if nothing is unknown."""

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
        """The second count minus the first; None if missing, or one is unknown."""
        before, after = [count.exact for count in self.counts[:2]] if len(self.counts) > 1 else (None, None)
        return None if before is None or after is None else after - before

    @property
    def change(self) -> str:
        """The signed difference of the first two counts; empty if unknown, as the count itself shows that."""
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
    """Describe which work stayed the same, and by how much the rest changed."""
    if len(mixes) < 2 or not all(mix.known for mix in mixes):
        return ""
    before, after = labels[:2]
    old, new = (mix.classes for mix in mixes)
    unsure = mixes[0].uncounted_classes | mixes[1].uncounted_classes
    moves = {key: new[key] - old[key] for key in {**old, **new} if (old[key] or new[key]) and not unsure[key]}
    fixed = sorted(word for (kind, word), moved in moves.items() if kind in FIXED and not moved)
    changed = sorted((key for key, moved in moves.items() if moved), key=lambda key: -abs(moves[key]))
    parts = [f"{before} and {after} execute the same number of {text.in_a_list(fixed)}"] if fixed else []
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


# How busy each unit is, as a share of the most that it sustains: its ceiling.

NEAR, FAR = 80.0, 60.0  # percent of the ceiling: a bottleneck from NEAR on; below FAR no unit is one
OF_ELAPSED, OF_ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"

# A unit, what is counted there, and its metrics: the first one that all profiles have is shown.
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


@dataclass(frozen=True, kw_only=True)
class UnitRow:
    """One unit's share of its ceiling in every profile, in percent; None if it was not measured there."""

    name: str
    counted: str
    metric: str
    shares: tuple[float | None, ...]


def units(comparison: Comparison) -> list[UnitRow]:
    """Return the units, the busiest first; nothing unless each of the first two profiles has at least two of them."""
    rows = [row for unit in UNITS if (row := _unit(unit, comparison.profiles)) is not None]
    last = min(len(comparison.profiles), 2) - 1
    return sorted(rows, key=lambda row: -(row.shares[last] or 0.0)) if len(rows) > 1 else []


def _unit(unit: tuple[str, str, tuple[str, ...]], profiles: tuple[Profile, ...]) -> UnitRow | None:
    name, counted, metrics = unit
    for metric in (metric + suffix for metric in metrics for suffix in (OF_ELAPSED, OF_ACTIVE)):
        shares = tuple(profile.number(metric) for profile in profiles)
        if None not in shares[:2]:
            cycles = "active" if metric.endswith("_active") else "elapsed"
            return UnitRow(name=name, counted=f"{counted}, over {cycles} cycles", metric=metric, shares=shares)
    return None


def unit_sentences(comparison: Comparison, rows: list[UnitRow]) -> Iterator[str]:
    """Name, for each of the first two profiles, the unit nearest to its ceiling, if any is."""
    for rank, label in enumerate(comparison.labels[:2]):
        busiest = max(rows, key=lambda row: row.shares[rank] or 0.0)
        share = busiest.shares[rank] or 0.0
        shown = f"{busiest.name}, at {text.percent(share)} of its ceiling"
        if share >= NEAR:
            yield f"The bottleneck of {label}: {shown}."
        elif share >= FAR:
            yield f"The busiest unit of {label}: {shown}."
        else:
            yield f"No unit of {label} is near its ceiling; the busiest: {shown}. Latency is the likely limit."


BYTES = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
LOADS = ("UTMALDG", "UBLKCP")  # tensor and bulk copies
WGMMA = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
# By the instructions that they count, with a modifier: shown if these were executed, or if a counter is not 0.
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
REQUESTS = "smsp__l1tex_tmain_requests.sum"
OF_WGMMA = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", "wgmma wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum", "wgmma bank conflicts, hardware"),
)
BLIND = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "store wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "store bank conflicts, hardware"),
)


@dataclass(frozen=True, kw_only=True)
class UnitCounter:
    """One counter, whether it sees TMA's writes, and its value in each profile: a count, or why there is none."""

    name: str
    meaning: str
    sees: bool = True
    values: tuple[str, ...]


def _counters(profiles: tuple[Profile, ...], sees: bool, *named: tuple[str, str]) -> list[UnitCounter]:
    """Return these of ncu's metrics as counters."""
    return [
        UnitCounter(name=name, meaning=meaning, sees=sees, values=tuple(text.count(p.number(name)) for p in profiles))
        for name, meaning in named
    ]


def of_tma(comparison: Comparison) -> tuple[UnitCounter, ...]:
    """Return the counters if any profile loads through TMA; nothing otherwise."""
    profiles = comparison.profiles
    executed = [sum(i.executed or 0 for i in p.instructions if i.opcode.startswith(LOADS)) for p in profiles]
    if not any(executed) and not any(profile.number(BYTES) for profile in profiles):
        return ()
    counted = [
        [i.wavefronts for i in p.instructions if i.opcode.startswith(LOADS) and i.wavefronts is not None]
        for p in profiles
    ]
    further = [
        (name, meaning)
        for opcodes, name, meaning, modifier in FURTHER
        if any(_ran(p, opcodes, modifier) or p.number(name) for p in profiles)
    ]
    requests = [(REQUESTS, "requests to TMA")] if any(p.number(REQUESTS) is not None for p in profiles) else []
    return (
        UnitCounter(name="inst_executed", meaning="TMA loads executed", values=tuple(map(text.count, executed))),
        *_counters(profiles, True, (BYTES, "bytes loaded by TMA"), *further, *requests),
        UnitCounter(
            name="memory_l1_wavefronts_shared",
            meaning="TMA load wavefronts, source-level",
            sees=False,
            values=tuple(text.count(sum(counts)) if counts else "no value" for counts in counted),
        ),
        *_counters(profiles, False, *BLIND),
    )


def of_wgmma(comparison: Comparison) -> tuple[UnitCounter, ...]:
    """Return wgmma's counters if any profile has wgmma; nothing otherwise."""
    profiles = comparison.profiles
    if not any(_ran(profile, WGMMA) for profile in profiles):
        return ()

    def total(field: str) -> tuple[str, ...]:
        of_wgmma = ([i for i in p.instructions if i.opcode.startswith(WGMMA)] for p in profiles)
        return tuple(text.count(known_sum(getattr(i, field) for i in instructions)) for instructions in of_wgmma)

    return (
        UnitCounter(name="inst_executed", meaning="wgmma executed, by warps", values=total("executed")),
        UnitCounter(
            name="memory_l1_wavefronts_shared", meaning="wgmma wavefronts, source-level", values=total("wavefronts")
        ),
        *_counters(profiles, True, *OF_WGMMA),
    )


def _ran(profile: Profile, opcodes: tuple[str, ...], modifier: str = "") -> bool:
    return any(i.executed and i.opcode.startswith(opcodes) and modifier in i.opcode for i in profile.instructions)
