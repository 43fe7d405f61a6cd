"""An experiment: the cycles of a launch without running it, next to ncu's: ``python3 bench/cycles.py [--write]``.

A launch is a closed queueing network. Its customers are the resident warps of one SM; its stations are what they share
(issue slots, math and tensor pipes, the shared-memory pipe with exact wavefronts as service time, L2, DRAM). A warp at
no station waits out latency: the stall counts of its instructions, and what remains of a load's latency where a wait
mask names its scoreboard. Both are control bits of SASS since Volta (stall [105, 109), write barrier [110, 113), read
barrier [113, 116), wait mask [116, 122) of the 128-bit instruction). Mean value analysis (Schweitzer 1979) gives the
warps that leave the SM per cycle, blocks come in waves, and a launch has a constant start and end.

Input are the recorded catalogue and bench/pairs: executions and wavefronts per instruction, which the emulator gives as
well, cubins, and of ncu's counters the bytes of DRAM and of TMA, which no part of it predicts yet. Latencies and rates
are public figures for Ampere and Hopper; three constants (global latency, bandwidth of L2, start and end) are chosen on
a grid without the family that is judged. Needs no GPU and a second of CPU after the reports are read.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import math
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pairs
from tables import ROOT, head, replace, row

from ncu_swizzle.base import paths
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import container, pack, reader
from ncu_swizzle.reports.model import Profile

facts_ = pack.pack("facts")

SUB_CORES = 4
ITERATIONS = 60  # of the mean value analysis: the queues no longer change

# Cycles until a result can be used, by opcode: MICRO 2025 (RTX A6000), arXiv 2501.12084 (H800), basalt (sm_120).
LATENCY = {
    "LDS": 23, "LDSM": 33, "ATOMS": 50, "STS": 12, "SHFL": 24, "MUFU": 24, "S2R": 25, "S2UR": 25, "LDC": 28, "ULDC": 28,
    "R2UR": 12, "POPC": 18, "I2F": 24, "F2I": 24, "F2F": 24, "HMMA": 33, "IMMA": 33, "DFMA": 40, "DADD": 40, "DMUL": 40,
    "REDUX": 30,
}  # fmt: skip
USUAL_LATENCY = 20
SHARED = frozenset({"LDS", "LDSM", "STS", "STSM", "ATOMS", "LDGSTS"})
FROM_GLOBAL = frozenset({"LDG", "LD", "LDL", "ATOM", "ATOMG"})
THROUGH_L2 = frozenset({"LDG", "STG", "LDGSTS", "RED", "ATOMG"})
# Cycles of a sub-core's pipe per warp instruction (H100: 32 lanes of fp32 a cycle, 16 of integer and fp64, 4 of MUFU).
PIPES = {
    **dict.fromkeys(("FFMA", "FADD", "FMUL", "FSETP", "HFMA2", "HADD2", "HMUL2"), ("fma", 1)),
    "IMAD": ("fma", 2),
    **dict.fromkeys(
        ("IADD3", "LOP3", "LEA", "SHF", "ISETP", "SEL", "PRMT", "VIADD", "VIMNMX", "FMNMX", "MOV"), ("alu", 2)
    ),
    **dict.fromkeys(("MUFU", "I2F", "F2I", "F2F", "POPC"), ("sfu", 8)),
    **dict.fromkeys(("DFMA", "DADD", "DMUL", "DSETP"), ("fp64", 2)),
}
MMA_SHARE = 0.63  # of the tensor peak, which mma.sync reaches; wgmma 0.95
PEAK_FMA = 512  # of half precision, per sub-core and cycle
DRAM_BYTES = 3.35e12  # per second, and what of it an SM gets per cycle in practice:
DRAM_PER_CYCLE = 13.0
# The three constants: cycles until a global load returns, cycles of start and end, and bytes of L2 per cycle and SM.
GRID = tuple(
    itertools.product((150, 200, 250, 300, 400, 600), (4000, 5000, 6000, 7000, 8000), (16, 24, 32, 40, 48, 64))
)

# The units that ncu gives the utilization of, for which one binds.
UNITS = {
    "shared": facts_.PIPE,
    "dram": "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "l2": "lts__t_sectors.sum.pct_of_peak_sustained_elapsed",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}


@dataclass(frozen=True, kw_only=True)
class Control:
    """The control bits of an instruction; a barrier is None if it sets none."""

    stall: int
    sets: tuple[int, ...]
    waits: tuple[int, ...]

    @classmethod
    def of(cls, text: bytes, offset: int) -> Control:
        bits = struct.unpack_from("<Q", text, offset + 8)[0] >> 41
        barriers = (bits >> 5 & 7, bits >> 8 & 7)
        waits = tuple(number for number in range(6) if bits >> 11 + number & 1)
        return cls(stall=max(1, bits & 15), sets=tuple(number for number in barriers if number < 6), waits=waits)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What one warp of a launch asks for, on average: cycles of stations, of latency, bytes."""

    name: str
    family: str
    cycles: float  # by ncu, elapsed
    stations: dict[str, float]
    bytes_of_l2: float
    fixed: float  # cycles of stall counts
    waits: tuple[tuple[float, tuple[tuple[float, float | None], ...]], ...]  # executions; (cycles ago, latency) each
    warps: int  # per block
    resident: int  # blocks on an SM
    blocks: int  # on the busiest SM
    used: dict[str, float]  # utilization of UNITS, by ncu

    def latency(self, of_global: float) -> float:
        """Return the cycles that a warp waits where nothing else is in its way."""
        waited = (
            times * max(0.0, *((of_global if latency is None else latency) - ago for ago, latency in sources))
            for times, sources in self.waits
        )
        return self.fixed + sum(waited)

    def predicted(self, constants: tuple[int, int, int], shared: float | None = None) -> tuple[float, dict[str, float]]:
        """Return the cycles, and the utilization of each station; `shared` in place of the wavefronts per warp."""
        of_global, around, of_l2 = constants
        stations = {**self.stations, "l2": self.bytes_of_l2 / of_l2}
        if shared is not None:
            stations["shared"] = shared
        latency, demands = self.latency(of_global), np.array(list(stations.values()))
        waves, rest = divmod(self.blocks, self.resident)
        cycles = float(around)
        for times, blocks in ((waves, self.resident), (1, rest)):
            if times and blocks:
                cycles += times * blocks * self.warps / throughput(demands, latency, blocks * self.warps)
        return cycles, {name: demand * self.blocks * self.warps / cycles for name, demand in stations.items()}


def throughput(demands: np.ndarray, latency: float, warps: int) -> float:
    """Return how many warps finish per cycle, if `warps` are resident; by Schweitzer's mean value analysis."""
    queued, leaving = warps * demands / (demands.sum() + latency), 0.0
    for _ in range(ITERATIONS):
        stays = demands * (1 + queued * (warps - 1) / warps)
        leaving = warps / (latency + stays.sum())
        queued = leaving * stays
    return leaving


# ------------------------------------------------------------------------------------------------- from a report


def launches() -> list[Launch]:
    """Return the recorded launches: before and after each pair of bench/pairs, then the catalogue."""
    found: list[Launch] = []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "pairs.ncu-rep")
        report.write_bytes(lzma.decompress((pairs.RECORDED / pairs.REPORT).read_bytes()))
        found += _launches(report, "")
    for family, kernel in catalog.shipped().run():
        found += _launches(paths.recording(family.name, kernel.name), family.name)
    return found


def _launches(report: Path, family: str) -> Iterator[Launch]:
    for profile, result in zip(reader.read(report), container.inspect(report).results, strict=True):
        text = Cubin(result.cubin, result.function).section(f".text.{result.function}")
        yield launch(profile, text, family or profile.kernel.function.partition("<")[0].rpartition("::")[2])


def launch(profile: Profile, text: bytes, family: str) -> Launch:
    """Return what the launch asks for, walking its code once in the order of addresses."""
    numbers = {name: value for name in profile.metrics if (value := profile.number(name)) is not None}
    blocks, warps = numbers["launch__grid_size"], math.ceil(numbers["launch__block_size"] / 32)
    every = blocks * warps
    stations = dict.fromkeys(("issue", "shared", "requests", "fma", "alu", "sfu", "fp64", "tensor"), 0.0)
    pending: dict[int, tuple[float, float | None]] = {}
    waits: list[tuple[float, tuple[tuple[float, float | None], ...]]] = []
    bytes_, fixed, clock, copied = 0.0, 0.0, 0.0, None
    start = min(instruction.pc for instruction in profile.instructions)
    for instruction in profile.instructions:
        times, opcode = (instruction.executed or 0) / every, instruction.opcode
        base, control = opcode.split(".")[0], Control.of(text, instruction.pc - start)
        sources = [pending.pop(number) for number in control.waits if number in pending]
        if base == "DEPBAR" and copied is not None and "0x1" not in instruction.sass.split(",")[-1]:
            sources.append((copied, None))
        if sources and times:
            waits.append((times, tuple((clock - at, latency) for at, latency in sources)))
        stations["issue"] += times / SUB_CORES
        fixed += times * control.stall
        clock += control.stall
        if base in SHARED:
            stations["shared"] += (instruction.wavefronts or 0) / every
        if base in SHARED | THROUGH_L2:
            stations["requests"] += times
        if base in THROUGH_L2:
            bytes_ += times * 32 * width(opcode)
        pipe, cycles = ("tensor", products(opcode)) if "MMA" in base else PIPES.get(base, ("", 0))
        if pipe:
            stations[pipe] += times * cycles / SUB_CORES
        copied = clock if base == "LDGSTS" else copied
        for number in control.sets:
            pending[number] = (clock, None if base in FROM_GLOBAL else LATENCY.get(base, USUAL_LATENCY))
    stations["shared"] = max(stations["shared"], stations.pop("requests"))  # the pipe takes a request per cycle, too
    seconds = numbers["gpu__time_duration.sum"] * 1e-9
    stations["dram"] = numbers[UNITS["dram"]] / 100 * DRAM_BYTES * seconds / every / DRAM_PER_CYCLE
    tma = (
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    )
    limits = [numbers[f"launch__occupancy_limit_{name}"] for name in ("registers", "shared_mem", "warps", "blocks")]
    busiest = math.ceil(blocks / numbers["device__attribute_multiprocessor_count"])
    return Launch(
        name=profile.kernel.function, family=family, stations=stations, fixed=fixed, waits=tuple(waits), warps=warps,
        bytes_of_l2=bytes_ + sum(numbers.get(name, 0.0) for name in tma) / every,
        resident=max(1, min(busiest, *map(int, limits))), blocks=busiest,
        cycles=seconds * numbers["smsp__cycles_elapsed.avg.per_second"],
        used={name: numbers.get(metric, 0.0) / 100 for name, metric in UNITS.items()},
    )  # fmt: skip


def width(opcode: str) -> int:
    """Return the bytes per lane of a global access."""
    sizes = {"128": 16, "64": 8, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
    return next((sizes[part] for part in opcode.split(".")[1:] if part in sizes), 4)


def products(opcode: str) -> float:
    """Return the cycles of a sub-core's tensor pipe for a matrix product of half precision."""
    if shape := re.search(r"(\d+)x(\d+)x(\d+)", opcode):  # wgmma: a quarter of the rows per sub-core
        return int(shape[1]) * int(shape[2]) * int(shape[3]) / SUB_CORES / PEAK_FMA / 0.95
    return (2048 if "16816" in opcode else 1024) / PEAK_FMA / MMA_SHARE


# ------------------------------------------------------------------------------------------------------ judged


def judged(given: list[Launch]) -> str:
    """Return the errors with each family left out of the choice of constants, and what removing excess would save."""
    measured, family = np.array([one.cycles for one in given]), np.array([one.family for one in given])
    errors = np.array([[abs(one.predicted(point)[0] / one.cycles - 1) for one in given] for point in GRID])
    chosen = {name: GRID[int(errors[:, family != name].mean(axis=1).argmin())] for name in set(family)}
    found = [one.predicted(chosen[one.family]) for one in given]
    error = np.abs(np.array([cycles for cycles, _ in found]) / measured - 1)
    binding = [
        max(one.used, key=lambda name: one.used[name]) == max(UNITS, key=lambda name: used[name])
        for one, (_, used) in zip(given, found, strict=True)
    ]
    by_family = sorted(((float(error[family == name].mean()), name) for name in set(family)), reverse=True)
    worst = ", ".join(f"{name} {share:.0%}" for share, name in by_family[:5])
    saved = [
        _saved(before, after, chosen[before.family])
        for before, after in zip(given[:100:2], given[1:100:2], strict=True)
    ]
    apart = [abs(said - was) for said, was in saved]
    rows = [
        ("launches, families", f"{len(given)}, {len(chosen)}"),
        ("mean absolute error of cycles", f"{error.mean():.1%}"),
        ("median", f"{median(error):.1%}"),
        ("launches within 25 %", f"{(error < 0.25).mean():.0%}"),
        ("the busiest unit is ncu's", f"{np.mean(binding):.0%}"),
        ("savings of the pairs within 5 points", f"{np.mean(np.array(apart) <= 0.05):.0%} of {len(apart)}"),
        ("savings: mean, median error", f"{100 * np.mean(apart):.1f}, {100 * median(apart):.1f} points"),
        ("worst families", worst),
    ]
    return "\n".join([head("each family left out", "value"), *(row(*one) for one in rows)]) + "\n"


def _saved(before: Launch, after: Launch, constants: tuple[int, int, int]) -> tuple[float, float]:
    """Return what removing the excess would save by the model, and what it saved in cycles."""
    whole, left = (before.predicted(constants, shared)[0] for shared in (None, after.stations["shared"]))
    return 1 - left / whole, 1 - after.cycles / before.cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/cycles.md")
    arguments = parser.parse_args()
    text = judged(launches())
    print(text)
    if arguments.write:
        replace(ROOT / "docs" / "cycles.md", "cycles", Path(__file__).name, text)


if __name__ == "__main__":
    sys.exit(main())
