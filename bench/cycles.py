"""An experiment: the cycles of a launch without running it, next to ncu's: ``python3 bench/cycles.py [--write]``.

One SM is simulated (cycles_sm.c, which a C compiler makes a library of), on which the launch's busiest share of blocks
runs. Its warps execute what the emulator executed (cycles_execution.py); how long each instruction takes comes from
microbenchmarks (latencies.py) and from the control bits of SASS. Caches start empty, as under ncu: what a block asks
for the first time comes from L2, and from DRAM as far as the buffers are large. Nothing is fitted to the launches that
it is judged by.

Needs no GPU. The first run emulates for about ten minutes of CPU and leaves what it found in --kept.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import cycles_held_out
import numpy as np
from cycles_launches import SMS, Launch, launches
from cycles_units import MEASURED, PIPES, measured
from tables import ROOT, head, replace, row

SOURCE = Path(__file__).with_name("cycles_sm.c")
KEPT = Path(tempfile.gettempdir(), "ncu-swizzle-cycles")
REASONS = 7  # of stalls, as in cycles_sm.c
SUB_CORES = 4
DRAM_PER_CYCLE = 12.8  # bytes per SM at the peak that ncu relates to: 3.35 TB/s at 1.98 GHz
LONG = 1 << 19  # instructions of an SM's warps, beyond which a launch is left out where many are simulated
WIDTHS = (32, 256, 1024)  # threads per block of the launches that do nothing
NARROW = "UTMALDG.2D, 4 KB, rows of 16 bytes"
BARRIER_WARPS = (1, 4, 8, 16, 32)


class Execution(ctypes.Structure):
    """What cycles_sm.c calls Launch."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("numbers", "details", "starts", "parts")),
        *((name, ctypes.c_int) for name in ("warps", "phases", "blocks", "resident")),
    ]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The numbers of cycles_sm.c's Machine, in its order; a launch sets its own shares and barrier."""

    core_wave: float
    queue: float = 5  # of a sub-core's memory instructions (MICRO 2025)
    to_pipe: float = 6  # with store_read: 12 until a source register may be written (MICRO 2025)
    store_read: float = 6
    l1: float
    l2: float
    dram: float
    l2_bytes: float = 0
    dram_bytes: float = 0
    of_dram: float = 0
    cold: float = 0
    written: float = 0
    barrier: float = 0
    block_start: float = 0
    fetch: float
    fetch_interval: float
    fetch_ahead: float = 96  # lines: as many as are on their way at a time
    box: float
    box_row: float

    def array(self) -> np.ndarray:
        return np.array([getattr(self, name) for name in self.__dataclass_fields__], np.float64)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Cycles, the share of them that each unit is busy, and cycles that warps spend at each instruction, (n,)."""

    cycles: float
    used: dict[str, float]
    spent: np.ndarray


# ------------------------------------------------------------------------------------------------- one machine


def launched(kernel: str, blocks: int, threads: int, what: str) -> float:
    """Return ncu's median of a small launch of latencies.cu."""
    shape = f"({blocks}, 1, 1)", f"({threads}, 1, 1)"
    found = next(
        each for each in MEASURED["launches"] if (each["kernel"], each["grid"], each["block"]) == (kernel, *shape)
    )
    return float(median(found[what]))


def machine() -> Machine:
    """Return the machine as measured."""
    core_wave = (measured("LDS.32, 32 wavefronts") - measured("LDS.32")) / 31
    to_pipe = Machine.to_pipe
    lines = {kb: kb * 8 + 5 for kb in (4, 64)}  # of 128 bytes; the code around is about five
    active = {kb: launched(f"straight, {kb} KB", SMS, 128, "active") for kb in lines}
    interval = (active[64] - active[4]) / (lines[64] - lines[4])
    return Machine(
        core_wave=core_wave,
        l1=measured("LDG.64 that hits L1, lanes 16 bytes apart") - to_pipe - (4 * core_wave - 1),
        l2=measured("L2 hit, 4096 KB") - to_pipe - 1,
        dram=measured("DRAM, 32 MB") - to_pipe - 1,
        fetch=active[4] - lines[4] * interval,
        fetch_interval=interval,
        box=measured("UTMALDG.2D, 128 bytes, round trip") - measured("mbarrier: arrive and wait, 1 warps"),
        box_row=(measured(f"{NARROW}, four, round trip") - measured(f"{NARROW}, round trip")) / (3 * 256),
    )


def of_launch(base: Machine, launch: Launch, counted: bool) -> Machine:
    """Return the machine with what the launch's size says; with `counted`, DRAM's bytes are ncu's."""
    read, written = launch.of_dram(counted)
    loaded, stored = launch.asked
    active, threads = min(SMS, launch.grid), 32 * launch.warps
    of_dram = min(1.0, read / loaded) if loaded else 0.0
    one, shared = measured("L2 read, 18 MB, one SM"), loaded > 2 * launch.buffers[0]
    barriers = [measured(f"BAR.SYNC, {count} warps") for count in BARRIER_WARPS]
    starts = [(launched("nothing", 135168, width, "elapsed") - launched("nothing", SMS, width, "elapsed")) / 1023
              for width in WIDTHS]  # fmt: skip
    values = {name: getattr(base, name) for name in base.__dataclass_fields__}
    own = {
        # One SM alone gets as much as it can take; all share what L2 and DRAM have. What several SMs ask for at a time
        # L2 reads once: how much that makes of its bandwidth was not measured.
        "l2_bytes": one if shared else min(one, measured("L2 read, 18 MB, all SMs, 2 blocks each") * SMS / active),
        "dram_bytes": min(
            measured("DRAM read, 1 GB, one SM"),
            measured(f"DRAM {'copy' if written else 'read'}, 1 GB, all SMs") * SMS / active,
        ),
        "of_dram": of_dram,
        # Blocks that run side by side ask for what they share at the same time: all wait for DRAM, which reads it once.
        "cold": min(1.0, of_dram * min(launch.grid, SMS * launch.resident)),
        "written": min(1.0, written / stored) if stored else 0.0,
        "barrier": np.interp(launch.warps, BARRIER_WARPS, barriers),
        "block_start": np.interp(threads, WIDTHS, starts),
    }
    return Machine(**{**values, **{name: float(value) for name, value in own.items()}})


class Simulator:
    """cycles_sm.c as a library."""

    def __init__(self, folder: str) -> None:
        library = Path(folder, "cycles_sm.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-lm"], check=True)
        self._simulate = ctypes.CDLL(str(library)).simulate
        self._simulate.restype = ctypes.c_double
        self._start = launched("nothing", SMS, 256, "elapsed") - launched("nothing", SMS, 256, "active")

    def predicted(self, launch: Launch, sm: Machine, code: np.ndarray | None = None) -> Predicted:
        """Return what the launch takes; with other `code`, if instructions cost other than they do."""
        code = np.ascontiguousarray(launch.code if code is None else code)
        executed = launch.execution
        arrays = [
            np.concatenate(executed.numbers), np.concatenate(executed.details),
            np.cumsum([0, *map(len, executed.numbers)]), executed.parts,
        ]  # fmt: skip
        arrays = [np.ascontiguousarray(each, np.int32) for each in arrays]
        given = Execution(*(each.ctypes.data for each in arrays), launch.warps, len(executed.parts), launch.blocks,
                          launch.resident)  # fmt: skip
        busy, stalled, numbers = np.zeros(16), np.zeros((len(code), REASONS)), sm.array()
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (code, numbers, busy, stalled)]
        taken = self._simulate(pointers[0], len(code), ctypes.byref(given), *pointers[1:])
        if taken < 0:
            raise SystemExit(f"{launch.name}: warps wait for a phase that nobody completes")
        cycles = taken + self._start
        # As ncu defines them: of what is elapsed on all SMs, or of the cycles in which SMs are active.
        elapsed, pipes = cycles * SMS * launch.blocks / launch.grid, 5 + len(PIPES)
        used = {
            "shared": busy[pipes] / elapsed,
            "l2": busy[2] / elapsed,
            "dram": busy[3] / elapsed * sm.dram_bytes / DRAM_PER_CYCLE,
            "tensor": busy[5 + PIPES["tensor"]] / SUB_CORES / taken,
            "issue": busy[0] / SUB_CORES / taken,
        }
        return Predicted(
            cycles=cycles, used={unit: float(share) for unit, share in used.items()}, spent=stalled.sum(axis=1)
        )


# ------------------------------------------------------------------------------------------------------ judged


def judged(given: Sequence[Launch], simulator: Simulator, base: Machine) -> str:
    """Return the errors with DRAM's bytes by ncu and from the buffers, and what removing excess would save."""
    cells: list[list[str]] = []
    for counted in (True, False):
        found = [simulator.predicted(one, of_launch(base, one, counted)) for one in given]
        error = errors(given, found)
        binding = [
            max(one.used, key=lambda unit: one.used[unit]) == max(each.used, key=lambda unit: each.used[unit])
            for one, each in zip(given, found, strict=True)
        ]
        families = sorted({one.family for one in given})
        by_family = {name: error[[one.family == name for one in given]].mean() for name in families}
        worst = sorted(by_family, key=lambda name: -by_family[name])[:5]
        pairs = list(zip(given[:100:2], given[1:100:2], found[:100:2], found[1:100:2], strict=True))
        saved = np.array([1 - after.cycles / before.cycles for before, after, _, _ in pairs])
        both = np.array([1 - after.cycles / before.cycles for _, _, before, after in pairs])
        ideal = np.array([without_excess(simulator, before, after, of_launch(base, before, counted), guess)
                          for before, after, guess, _ in pairs])  # fmt: skip
        cells.append([
            f"{len(given)}, {len(families)}",
            f"{error.mean():.1%}",
            f"{np.mean(list(by_family.values())):.1%}",
            f"{median(error):.1%}",
            f"{(error < 0.25).mean():.0%}",
            f"{np.mean(binding):.0%}",
            f"{np.mean(np.abs(both - saved) <= 0.05):.0%} of {len(saved)}",
            f"{100 * np.mean(np.abs(both - saved)):.1f}, {100 * median(np.abs(both - saved)):.1f} points",
            f"{np.mean(np.abs(ideal - saved) <= 0.05):.0%} of {len(saved)}",
            f"{median(alike(one, each) for one, each in zip(given, found, strict=True)):.0%}",
            ", ".join(f"{name} {by_family[name]:.0%}" for name in worst),
        ])  # fmt: skip
    names = (
        "launches, families",
        "mean absolute error of cycles",
        "the same, each family with the same weight",
        "median",
        "launches within 25 %",
        "the busiest unit is ncu's",
        "savings of pairs within 5 points, both kernels predicted",
        "the same: mean, median error",
        "savings within 5 points, from the first kernel alone",
        "of the samples, at the predicted instructions (median)",
        "worst families",
    )
    columns = head("", "bytes of DRAM from ncu", "from the buffers")
    return "\n".join([columns, *(row(*cells_) for cells_ in zip(names, *cells, strict=True))]) + "\n"


def held_out(given: Sequence[tuple[Launch, Launch]], simulator: Simulator, base: Machine) -> str:
    """Return the errors on pairs of launches that nobody looked at."""
    both = [one for pair in given for one in pair]
    found = [simulator.predicted(one, of_launch(base, one, counted=False)) for one in both]
    error = errors(both, found)
    saved = np.array([1 - after.cycles / before.cycles for before, after in given])
    said = np.array([1 - after.cycles / before.cycles for before, after in zip(found[::2], found[1::2], strict=True)])
    apart = np.abs(said - saved)
    alone = [
        without_excess(simulator, before, after, of_launch(base, before, counted=False), guess)
        for (before, after), guess in zip(given, found[::2], strict=True)
    ]
    order = np.argsort(-error)[:5]
    rows = [
        ("launches, programs", f"{len(both)}, {len({one.family for one in both})}"),
        ("mean absolute error of cycles", f"{error.mean():.1%}"),
        ("median", f"{median(error):.1%}"),
        ("launches within 25 %", f"{(error < 0.25).mean():.0%}"),
        ("savings within 5 points, both kernels predicted", f"{np.mean(apart <= 0.05):.0%} of {len(given)}"),
        ("the same: mean, median error", f"{100 * apart.mean():.1f}, {100 * median(apart):.1f} points"),
        ("savings within 5 points, from the first kernel alone", f"{np.mean(np.abs(alone - saved) <= 0.05):.0%}"),
        ("worst launches", ", ".join(f"{both[one].name} {error[one]:.0%}" for one in order)),
    ]
    return "\n".join([head("launches of bench/costs", "value"), *(row(*one) for one in rows)]) + "\n"


def errors(given: Sequence[Launch], found: Sequence[Predicted]) -> np.ndarray:
    return np.array([abs(each.cycles / one.cycles - 1) for one, each in zip(given, found, strict=True)])


def without_excess(simulator: Simulator, before: Launch, after: Launch, sm: Machine, guess: Predicted) -> float:
    """Return what is saved if accesses to shared memory take as many wavefronts as those of the other kernel."""
    waves = [
        sum(each.code["wavefronts"][numbers].sum() for numbers in each.execution.numbers) for each in (before, after)
    ]
    code = before.code.copy()
    code["wavefronts"] = np.maximum(1, code["wavefronts"] * min(1.0, waves[1] / max(1.0, waves[0])))
    return 1 - simulator.predicted(before, sm, code).cycles / guess.cycles


def alike(launch: Launch, found: Predicted) -> float:
    """Return the share of ncu's samples that are at the instructions where warps are predicted to be."""
    shares = [each / max(1.0, each.sum()) for each in (launch.samples, found.spent)]
    return float(np.minimum(*shares).sum())


Change = Callable[[Machine, np.ndarray], tuple[Machine, np.ndarray]]


def _changed(**fields: float) -> Change:
    def change(sm: Machine, code: np.ndarray) -> tuple[Machine, np.ndarray]:
        values = {name: fields.get(name, getattr(sm, name)) for name in sm.__dataclass_fields__}
        return Machine(**values), code

    return change


def _code(field: str, value: float) -> Change:
    def change(sm: Machine, code: np.ndarray) -> tuple[Machine, np.ndarray]:
        other = code.copy()
        other[field] = value
        return sm, other

    return change


def parts(given: Sequence[Launch], simulator: Simulator, base: Machine) -> str:
    """Return the error without one part of the model at a time; DRAM's bytes are those of the buffers."""
    given = [one for one in given if sum(map(len, one.execution.numbers)) * one.blocks <= LONG]
    changes: dict[str, Change] = {
        "nothing": _changed(),
        "scoreboard waits": _code("waits", 0),
        "wavefronts: each access takes one": _code("wavefronts", 1),
        "a sub-core's pipe, which takes two cycles per wavefront": _changed(core_wave=1.0),
        "the latency of DRAM: all loads hit L2": _changed(cold=0.0),
        "the bandwidth of DRAM": _changed(dram_bytes=1e9),
        "code that is fetched": _changed(fetch=0.0, fetch_interval=0.0),
        "the time to dispatch a block": _changed(block_start=0.0),
        "rows of TMA's boxes": _changed(box_row=0.0),
    }
    lines = [head("without", f"mean absolute error of {len(given)} launches")]
    for name, change in changes.items():
        found = []
        for one in given:
            sm, code = change(of_launch(base, one, counted=False), one.code)
            found.append(simulator.predicted(one, sm, code))
        lines.append(row(name, f"{errors(given, found).mean():.1%}"))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/cycles.md")
    parser.add_argument("--each", action="store_true", help="print each launch, and the seconds that it takes")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the folder with what warps execute")
    arguments = parser.parse_args()
    base, given = machine(), list(launches(arguments.kept))
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(folder)
        for one in given if arguments.each else ():
            start = time.monotonic()
            found = simulator.predicted(one, of_launch(base, one, counted=False))
            seconds = time.monotonic() - start
            print(f"{one.name}: {found.cycles:,.0f} predicted, {one.cycles:,.0f} measured, "
                  f"{found.cycles / one.cycles - 1:+.0%}, {seconds:.1f} s")  # fmt: skip
        tables = {
            "cycles": judged(given, simulator, base),
            "held out": held_out(list(cycles_held_out.pairs(arguments.kept)), simulator, base),
            "parts": parts(given, simulator, base),
        }
    print(*tables.values(), sep="\n")
    for name, table in tables.items() if arguments.write else ():
        replace(ROOT / "docs" / "cycles.md", name, Path(__file__).name, table)


if __name__ == "__main__":
    sys.exit(main())
