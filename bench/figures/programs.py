"""The emulated engine on others' programs, next to ncu's counts: ``python3 bench/figures/programs.py FOLDER [NAME …]``.

FOLDER has one folder a program, with `launches.jsonl.xz` (a JSON object a line: kernel, grid, block, shared, params as
[offset, hex] pairs, cubin, counts by offset as [SASS, executed, wavefronts, ideal]) and `<cubin>.cubin.xz`. Prints a
program's accesses that are equal, different and unknown, its launches that failed, the CPU seconds of the longest
launch and of all, and the peak memory; then each reason with how many accesses it leaves unknown. Ends with 1 if
anything differs or fails. bench/figures/launches.py does the same with files that `ncu-swizzle capture` wrote, and
compares the columns of threads, global and local memory, too.
"""

from __future__ import annotations

import argparse
import json
import lzma
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.traffic import METRICS
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import EXECUTED

WORKERS = 2
TIMEOUT_S = 90.0
COLUMNS = frozenset((EXECUTED, *METRICS.values()))
SHOWN = 3  # differences of a program
VERDICTS = ("equal", "different", "unknown")
LATE = "the program's seconds are spent: not run"


@dataclass(frozen=True)
class Counted:
    """A launch: ncu's counts by offset, and its emulation: of the seconds that it may take, and `races`."""

    theirs: dict[int, list[Any]]
    emulated: Callable[..., Counts]
    columns: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # by offset: others of ncu's, by metric


Launches = Callable[[Path], Iterable[Counted]]  # of a program


@dataclass
class Tally:
    """What came of one launch or one program."""

    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of what is unknown or failed, in accesses
    differences: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)  # of other columns: "METRIC VERDICT"
    columns_reasons: Counter[str] = field(default_factory=Counter)  # of what is unknown of these, in figures
    failed: int = 0  # launches
    longest: float = 0.0  # CPU seconds of one launch
    seconds: float = 0.0  # of all
    mb: float = 0.0

    def add(self, other: Tally) -> None:
        self.verdicts.update(other.verdicts)
        self.reasons.update(other.reasons)
        self.differences += other.differences
        self.figures.update(other.figures)
        self.columns_reasons.update(other.columns_reasons)
        self.failed += other.failed
        self.longest = max(self.longest, other.longest)
        self.seconds += other.seconds
        self.mb = max(self.mb, other.mb)


def compared(counts: Counts, theirs: dict[int, list[Any]]) -> Tally:
    """Compare the shared-memory accesses with ncu's counts; ncu omits instructions that never executed."""
    tally, left = Tally(), dict(theirs)
    for row in counts.rows:
        other = left.pop(row.offset, None)
        if other is None and (not row.access or row.executed == 0):
            continue
        ours = (row.executed, row.wavefronts, row.ideal)
        if None in ours and (row.access or row.reason):
            tally.verdicts["unknown"] += 1
            tally.reasons[row.reason] += 1
        elif other is not None and ours == tuple(other[1:4]):
            tally.verdicts["equal"] += 1
        else:
            tally.verdicts["different"] += 1
            tally.differences.append(f"{row.offset:#x} {row.sass}: {ours}, ncu {other and other[1:4]}")
    tally.verdicts["different"] += len(left)
    tally.differences += [f"{offset:#x} {other[0]}: not seen, ncu {other[1:4]}" for offset, other in left.items()]
    return tally


def columns_compared(counts: Counts, columns: Mapping[int, Mapping[str, int]]) -> Tally:
    """Compare ncu's other columns of instructions, figure by figure."""
    tally, rows = Tally(), {row.offset: row for row in counts.rows}
    for offset, theirs in columns.items():
        row = rows.get(offset)
        ours = {EXECUTED: row.executed, **{METRICS[name]: n for name, n in row.traffic.known.items()}} if row else {}
        for metric in COLUMNS & theirs.keys():
            count = ours.get(metric)
            verdict = "unknown" if count is None else "equal" if count == theirs[metric] else "different"
            tally.figures[f"{metric} {verdict}"] += 1
            if row is None or verdict == "different":
                what = f"{metric} {count}, ncu {theirs[metric]}"
                tally.differences.append(f"{offset:#x} {row.sass if row else 'not seen'}: {what}")
            elif verdict == "unknown":
                tally.columns_reasons[row.traffic_unknown.reason if row.traffic_unknown else "without a reason"] += 1
    return tally


def recordings(folder: Path) -> dict[str, Path]:
    """Return the programs' folders by name."""
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/launches.jsonl.xz"))}


def launches(folder: Path) -> Iterator[Counted]:
    """Yield the recorded launches that access shared memory."""
    with lzma.open(folder / "launches.jsonl.xz", "rt", encoding="utf-8") as lines:
        for launch in map(json.loads, lines):
            if launch["counts"]:
                yield Counted({int(k): v for k, v in launch["counts"].items()}, partial(emulated, folder, launch))


def emulated(folder: Path, recorded: dict[str, Any], timeout_s: float, *, races: bool = False) -> Counts:
    """Emulate one recorded launch."""
    toolchain = Toolchain()
    path = folder / f"{recorded['cubin']}.cubin.xz"
    cubin = Cubin(lzma.decompress(path.read_bytes()), path.stem)
    code = emulated_launch.code(cubin, recorded["kernel"], toolchain.disassemble(cubin.data, cubin.name))
    parameters = bytearray(code.parameter_bytes)
    for offset, text in recorded["params"]:
        value = bytes.fromhex(text)
        parameters[offset : offset + len(value)] = value
    launch = Launch(
        grid=tuple(recorded["grid"]),
        block=tuple(recorded["block"]),
        shared_dynamic=recorded["shared"],
        parameters=bytes(parameters),
        memory=emulated_launch.initial(cubin),
        cluster=tuple(recorded.get("cluster") or cubin.attributes(recorded["kernel"]).cluster or (1, 1, 1)),
    )
    return emulate(code, launch, races=races, timeout_s=timeout_s)


def measure(program: Path, launches: Launches, budget_s: float) -> Tally:
    """Emulate the launches of a program in this process, each as long as the whole program may still take."""
    total = Tally()
    for counted in launches(program):
        number, start, left = len(counted.theirs), time.process_time(), budget_s - total.seconds
        if left <= 0:
            total.add(Tally(Counter(unknown=number), Counter({LATE: number})))
            continue
        try:
            counts = counted.emulated(min(left, TIMEOUT_S))
            tally = compared(counts, counted.theirs)
            tally.add(columns_compared(counts, counted.columns))
        except Exception as error:  # a crash is a result here, and named
            ours = isinstance(error, NcuSwizzleError)
            why = f"{'' if ours else 'CRASH '}{type(error).__name__}: {error}"
            tally = Tally(Counter(unknown=number), Counter({why: number}), failed=1)
            tally.figures.update(
                f"{metric} unknown" for row in counted.columns.values() for metric in COLUMNS & row.keys()
            )
        tally.longest = tally.seconds = time.process_time() - start
        total.add(tally)
    total.mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return total


def in_its_own_process(program: Path, budget_s: float) -> Tally:
    command = [sys.executable, sys.argv[0], "--as-json", "--budget", str(budget_s), str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return Tally(reasons=Counter({f"CRASH {ended.stderr.strip().splitlines()[-1]}": 1}), failed=1)
    result = json.loads(ended.stdout)
    counters = ("verdicts", "reasons", "figures", "columns_reasons")
    return Tally(**{**result, **{name: Counter(result[name]) for name in counters}})


def line(name: str, tally: Tally) -> str:
    verdicts = " | ".join(str(tally.verdicts[verdict]) for verdict in VERDICTS)
    figures = " | ".join(
        str(sum(count for name, count in tally.figures.items() if name.endswith(verdict))) for verdict in VERDICTS
    )
    costs = f"{tally.failed} | {tally.longest:.1f} | {tally.seconds:.1f} | {tally.mb:.0f}"
    return f"| {name} | {verdicts} | {figures} | {costs} |"


def table(programs: dict[str, Path], budget_s: float) -> Tally:
    """Print the programs' lines as they end, and return their sum."""
    heads = [
        "program",
        *VERDICTS,
        *(f"figures {verdict}" for verdict in VERDICTS),
        "failed",
        "longest",
        "seconds",
        "MB",
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    total = Tally()
    with ThreadPoolExecutor(WORKERS) as pool:
        tallies = pool.map(partial(in_its_own_process, budget_s=budget_s), programs.values())
        for name, tally in zip(programs, tallies, strict=True):
            print(line(name, tally), flush=True)
            for difference in tally.differences[:SHOWN]:
                print(f"  DIFFERENT {difference}", flush=True)
            total.add(tally)
    print(line("all", total))
    return total


def main(description: str | None, programs: Callable[[Path], dict[str, Path]], launches: Launches) -> None:
    """Compare the programs of a folder, by name, whose launches are read by a function."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="these programs alone")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="all programs but this one")
    parser.add_argument("--budget", type=float, default=3600.0, metavar="SECONDS", help="CPU time of a program")
    parser.add_argument("--as-json", action="store_true", help="print the tally of one program, FOLDER, as JSON")
    arguments = parser.parse_args()
    if arguments.as_json:
        print(json.dumps(vars(measure(arguments.folder, launches, arguments.budget))))
        return
    found = programs(arguments.folder)
    wanted: Sequence[str] = [name for name in arguments.names or found if name not in arguments.without]
    total = table({name: found[name] for name in wanted}, arguments.budget)
    print(f"\n{'accesses':>8}  reason")
    for reason, number in total.reasons.most_common():
        print(f"{number:8}  {reason}")
    if total.figures:
        print(f"\n{'figures':>8}  reason")
        for reason, number in total.columns_reasons.most_common():
            print(f"{number:8}  {reason}")
        print(f"\n| column | {' | '.join(VERDICTS)} |\n|---|---|---|---|")
        for metric in sorted({name.partition(" ")[0] for name in total.figures}):
            print(f"| {metric} | {' | '.join(str(total.figures[f'{metric} {verdict}']) for verdict in VERDICTS)} |")
    sys.exit(bool(total.differences or total.failed))


if __name__ == "__main__":
    main(__doc__, recordings, launches)
