"""The emulated engine on others' programs, next to ncu's counts: ``python3 bench/programs.py FOLDER [NAME …]``.

FOLDER has one folder a program, with `launches.jsonl.xz` (a JSON object a line: kernel, grid, block, shared, params as
[offset, hex] pairs, cubin, counts by offset as [SASS, executed, wavefronts, ideal]) and `<cubin>.cubin.xz`. Prints a
program's accesses that are equal, different and unknown, its launches that failed, the CPU seconds of the longest
launch and of all, and the peak memory; then each reason with how many accesses it leaves unknown. Ends with 1 if
anything differs or fails. bench/launches.py does the same with files that `ncu-swizzle capture` wrote.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch, module_image
from ncu_swizzle.kernels.toolchain import Toolchain

WORKERS = 2
TIMEOUT_S = 90.0
SHOWN = 3  # differences of a program
VERDICTS = ("equal", "different", "unknown")
LATE = "the program's seconds are spent: not run"


@dataclass(frozen=True)
class Counted:
    """A launch: ncu's counts by offset, and its emulation, which is given the seconds that it may take."""

    theirs: dict[int, list[Any]]
    emulated: Callable[[float], Counts]


Launches = Callable[[Path], Iterable[Counted]]  # of a program


@dataclass
class Tally:
    """What came of one launch or one program."""

    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of what is unknown or failed, in accesses
    differences: list[str] = field(default_factory=list)
    failed: int = 0  # launches
    longest: float = 0.0  # CPU seconds of one launch
    seconds: float = 0.0  # of all
    mb: float = 0.0

    def add(self, other: Tally) -> None:
        self.verdicts.update(other.verdicts)
        self.reasons.update(other.reasons)
        self.differences += other.differences
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


def recordings(folder: Path) -> dict[str, Path]:
    """Return the programs' folders by name."""
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/launches.jsonl.xz"))}


def launches(folder: Path) -> Iterator[Counted]:
    """Yield the recorded launches that access shared memory."""
    with lzma.open(folder / "launches.jsonl.xz", "rt", encoding="utf-8") as lines:
        for launch in map(json.loads, lines):
            if launch["counts"]:
                yield Counted({int(k): v for k, v in launch["counts"].items()}, partial(emulated, folder, launch))


def emulated(folder: Path, recorded: dict[str, Any], timeout_s: float) -> Counts:
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
        memory=module_image.initial(cubin),
        cluster=tuple(recorded.get("cluster") or cubin.attributes(recorded["kernel"]).cluster or (1, 1, 1)),
    )
    return emulate(code, launch, timeout_s=timeout_s)


def measure(program: Path, launches: Launches, budget_s: float) -> Tally:
    """Emulate the launches of a program in this process, each as long as the whole program may still take."""
    total = Tally()
    for counted in launches(program):
        number, start, left = len(counted.theirs), time.process_time(), budget_s - total.seconds
        if left <= 0:
            total.add(Tally(Counter(unknown=number), Counter({LATE: number})))
            continue
        try:
            tally = compared(counted.emulated(min(left, TIMEOUT_S)), counted.theirs)
        except Exception as error:  # a crash is a result here, and named
            ours = isinstance(error, NcuSwizzleError)
            why = f"{'' if ours else 'CRASH '}{type(error).__name__}: {error}"
            tally = Tally(Counter(unknown=number), Counter({why: number}), failed=1)
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
    return Tally(**{**result, "verdicts": Counter(result["verdicts"]), "reasons": Counter(result["reasons"])})


def line(name: str, tally: Tally) -> str:
    verdicts = " | ".join(str(tally.verdicts[verdict]) for verdict in VERDICTS)
    return f"| {name} | {verdicts} | {tally.failed} | {tally.longest:.1f} | {tally.seconds:.1f} | {tally.mb:.0f} |"


def table(programs: dict[str, Path], budget_s: float) -> Tally:
    """Print the programs' lines as they end, and return their sum."""
    print(f"| program | {' | '.join(VERDICTS)} | failed | longest | seconds | MB |\n|---|---|---|---|---|---|---|---|")
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
    sys.exit(bool(total.verdicts["different"] or total.failed))


if __name__ == "__main__":
    main(__doc__, recordings, launches)
