"""One profiled launch as the rules see it: its metrics, and each instruction's shared-memory counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WAVEFRONTS = "memory_l1_wavefronts_shared"
IDEAL = "memory_l1_wavefronts_shared_ideal"
EXECUTED = "inst_executed"
SECTORS = "memory_l2_theoretical_sectors_global"
IDEAL_SECTORS = f"{SECTORS}_ideal"

STALLED = "smsp__pcsamp_warps_issue_stalled_"  # + the reason
PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
FEW_SAMPLES = 100  # shares of fewer warp samples are not reasoned from: at 100, one of 10 % is known to about 6 points
MOST = 1e30  # far beyond any count, size, time or rate
MOST_PERCENT = 105.0  # clocks and replay passes differ a little
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"  # + _op_ld, _op_st, _op_atom, + .sum

# Instructions that access shared memory. Others (a generic LD, HGMMA) do if ncu counted wavefronts for them.
SHARED = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "LDGSTS"})
UNKNOWN = "unknown"  # the kind of an access whose SASS is not in the report
NEVER = "@!PT"  # the guard of instructions that are always predicated off, such as the LDS around LDGSTS


@dataclass(frozen=True)
class Counts:
    """Warp-level executions and wavefronts of one or several instructions."""

    executed: int = 0
    wavefronts: int = 0
    ideal: int = 0

    @property
    def excessive(self) -> int:
        return self.wavefronts - self.ideal

    @property
    def degree(self) -> float:
        """Actual over ideal wavefronts: 1 without conflicts. Wavefronts per request would flag wide loads."""
        return self.wavefronts / self.ideal if self.ideal else 1.0


@dataclass(frozen=True)
class Instruction(Counts):
    """One SASS instruction; `access` is empty if it does not access shared memory, `samples` are by stall reason.

    `header` is the file of CUDA's that ncu names, where `file` is the user's that it is inlined into.
    """

    pc: int = 0
    sass: str = ""
    access: str = ""
    file: str = ""
    line: int = 0
    samples: Mapping[str, int] = field(default_factory=dict)
    header: str = ""
    sectors: int = 0  # of global memory
    ideal_sectors: int = 0

    @property
    def wmma(self) -> bool:
        """Whether nvcuda::wmma loads or stores a matrix: its rows have a leading dimension, and no swizzle."""
        return (self.header or self.file).replace("\\", "/").endswith(("crt/mma.hpp", "crt/mma.h"))

    @property
    def opcode(self) -> str:
        return opcode(self.sass)

    @property
    def source(self) -> str:
        """The file name and line, such as ``gemm.cuh:42``; empty if ncu knows no line."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}" if self.file else ""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What an H100 would take for a launch that was emulated, or in `lacking` why that is not known.

    `cycles` and `saved`, the share of them that removing the excess saves, are estimate, least and most. `unit` is the
    busiest. `lines` are the source lines where warps spend most of their time: its share, and what it mostly is.
    """

    cycles: tuple[float, float, float] | None = None
    saved: tuple[float, float, float] | None = None
    coverage: float = 0.0  # the share of programs for which these intervals hold
    unit: str = ""
    used: float = 0.0
    lines: tuple[tuple[str, float, str], ...] = ()
    lacking: str = ""


@dataclass(frozen=True)
class Facts:
    """One launch: numeric metrics by ncu's names, and instructions in address order.

    `tried` has one sentence per conflicting tile on the mapping that was tried on its addresses; ncu records none.
    `layouts` has one per conflicting line of a kernel whose layouts its compiler chose, such as Triton. `simulation` is
    of an emulated launch.
    """

    metrics: Mapping[str, float]
    instructions: tuple[Instruction, ...] = ()
    tried: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    simulation: Simulation | None = None

    def number(self, name: str) -> float | None:
        """Return a metric; None if the report lacks it or its value is implausible, such as a negative one."""
        value = self.metrics.get(name)
        return value if value is not None and 0 <= value < MOST else None  # false for NaN, too

    def share(self, name: str) -> float | None:
        """Return a percentage of peak as a fraction; None if the report lacks it or its value is implausible."""
        value = self.number(name)
        return value / 100 if value is not None and 0 <= value <= MOST_PERCENT else None

    @property
    def total(self) -> Counts:
        """All shared-memory accesses; a range or graph has no instructions, only its metrics' totals."""
        if self.instructions:
            return added(self.accesses())
        return Counts(*(int(self.number(name) or 0) for name in (EXECUTED, WAVEFRONTS, IDEAL)))

    def accesses(self) -> Iterator[Instruction]:
        """Yield the instructions that access shared memory."""
        return (instruction for instruction in self.instructions if instruction.access)

    def excessive(self) -> list[Instruction]:
        """Return the accesses with excessive wavefronts, worst first."""
        return sorted((i for i in self.accesses() if i.excessive > 0), key=lambda i: (-i.excessive, i.pc))

    def stalls(self) -> dict[str, int]:
        """Return the launch's warp samples by reason, most first; "selected" is not a stall."""
        samples = {
            name[len(STALLED) :]: int(value)
            for name, value in self.metrics.items()
            if name.startswith(STALLED) and not name.endswith("_not_issued") and value > 0
        }
        return dict(sorted(samples.items(), key=lambda entry: (-entry[1], entry[0])))


def added(parts: Iterable[Counts]) -> Counts:
    """Return the sum of counts."""
    counts = list(parts)
    return Counts(sum(c.executed for c in counts), sum(c.wavefronts for c in counts), sum(c.ideal for c in counts))


def grouped(instructions: Iterable[Instruction], key: Callable[[Instruction], Any]) -> dict[Any, Counts]:
    """Return the summed counts of instructions with equal keys, most excessive first."""
    groups: dict[Any, list[Counts]] = {}
    for instruction in instructions:
        groups.setdefault(key(instruction), []).append(instruction)
    sums = {name: added(group) for name, group in groups.items()}
    return dict(sorted(sums.items(), key=lambda entry: (-entry[1].excessive, str(entry[0]))))


def opcode(sass: str) -> str:
    """Return an instruction's opcode with modifiers, without its guard."""
    words = sass.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    return words[0].rstrip(";") if words else ""


def access(sass: str, wavefronts: int | None) -> str:
    """Return the kind of shared-memory access (LDS, LDSM, …) of an instruction; empty if it is not one.

    A report without cubins has no SASS; an instruction with wavefronts is an access there too.
    """
    if not sass:
        return UNKNOWN if wavefronts else ""
    kind = opcode(sass).split(".")[0]
    return kind if (kind in SHARED or wavefronts) and not sass.startswith(NEVER) else ""


def missing(facts: Facts) -> list[str]:
    """Return the metrics that every rule needs and the report lacks."""
    return [name for name in (WAVEFRONTS, IDEAL) if name not in facts.metrics]


# ------------------------------------------------------------------------------------------- from ncu's action


def instructions(action: Any) -> tuple[Instruction, ...]:
    """Return an action's instructions in address order; none for a range or graph."""
    per_pc = {name: _instances(action, name) for name in (EXECUTED, WAVEFRONTS, IDEAL, SECTORS, IDEAL_SECTORS)}
    reasons = {
        name[len(STALLED) :]: _instances(action, name)
        for name in action.metric_names()
        if name.startswith(STALLED) and not name.endswith("_not_issued")
    }
    pcs = sorted({pc for counts in (*per_pc.values(), *reasons.values()) for pc in counts})
    return tuple(_instruction(action, pc, per_pc, reasons) for pc in pcs)


def numbers(action: Any) -> dict[str, float]:
    """Return an action's numeric metrics by name."""
    values: dict[str, float] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        value = metric.value() if metric is not None and metric.has_value() else None
        if isinstance(value, (int, float)):
            values[name] = value
    return values


def _instances(action: Any, name: str) -> dict[int, int]:
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(k): metric.as_uint64(k) for k in range(metric.num_instances())}


def _instruction(
    action: Any, pc: int, per_pc: Mapping[str, Mapping[int, int]], reasons: Mapping[str, Mapping[int, int]]
) -> Instruction:
    sass = " ".join((action.sass_by_pc(pc) or "").split())
    source = action.source_info(pc)
    wavefronts = per_pc[WAVEFRONTS].get(pc)
    return Instruction(
        executed=per_pc[EXECUTED].get(pc, 0),
        wavefronts=wavefronts or 0,
        ideal=per_pc[IDEAL].get(pc, 0),
        pc=pc,
        sass=sass,
        access=access(sass, wavefronts),
        file=source.file_name() if source else "",
        line=source.line() if source else 0,
        samples={reason: counts[pc] for reason, counts in reasons.items() if counts.get(pc)},
        sectors=per_pc[SECTORS].get(pc, 0),
        ideal_sectors=per_pc[IDEAL_SECTORS].get(pc, 0),
    )
