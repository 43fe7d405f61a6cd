"""What lint says of races and deadlocks in kernels as they are: ``python3 bench/attacks/alarms.py [FOLDER …]``.

The catalogue's kernels and the recorded kernels in Python; of each FOLDER, the programs that bench/figures/programs.py
and bench/figures/launches.py read. A row has a program's launches, the blocks that were looked at, its alarms by code,
and what could not be followed; below it stands each alarm, once for each pair of lines. ``--kept FOLDER`` keeps the
rows, and what is there is not done again. ``--limit SECONDS`` ends what has not ended by then, and names it.
``--costs`` emulates each launch without looking for races, too, and adds the CPU seconds with and without; ``--only
NAME`` does this program alone, ``--part K/N`` every Nth one.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import launches as replayed_launches
from bench.figures import programs as recorded_programs

ROOT = Path(__file__).resolve().parents[2]

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.launches import CapturedLaunch, LaunchesFile, open_launches
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings, emulate_cubin, emulate_target
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import python_kernels

CATALOGUE, PYTHON = "catalogue", "python"
Emulate = Callable[..., Emulated | Counts]  # takes `races`


@dataclass
class Row:
    """What came of the launches of a program."""

    name: str
    launches: int = 0
    blocks: int = 0
    alarms: dict[str, str] = field(default_factory=dict)  # a thread and byte of each, by code and lines
    lacking: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])  # of CPU: with races, and without

    def add(self, emulated: Emulated | Counts) -> None:
        counts = emulated if isinstance(emulated, Counts) else emulated.counts
        instructions = () if isinstance(emulated, Counts) else emulated.profile.instructions
        stacks = {each.pc: each.stack for each in instructions}
        sass = {row.offset: row.sass for row in counts.rows}
        self.blocks += counts.hazards.blocks
        for hazard in counts.hazards.found:
            lines = [
                " < ".join(f"{Path(file).name}:{line}" for file, line in stacks.get(party.offset, ()))
                or f"{party.offset:#x} {sass.get(party.offset, '')}"
                for party in hazard.parties
            ]
            self.alarms.setdefault(f"{hazard.code} {' | '.join(lines)}", hazard.described(["", ""]))
        for reason in counts.hazards.lacking:
            self.lacking[reason] = self.lacking.get(reason, 0) + 1


def subjects(folders: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield where each program is from, and its name or path: first what takes long."""
    yield from ((CATALOGUE, kernel.name) for _, kernel in reversed(list(catalog.shipped())) if not kernel.library)
    for folder in folders:
        for kind in (replayed_launches.programs, recorded_programs.recordings):
            yield from ((str(folder), str(path)) for path in kind(folder).values())
    yield from ((PYTHON, name) for name in python_kernels.recorded()[0]["kernels"])


WARM_S = 2.0  # of what takes longer, imports are a small part


def emulations(source: str, name: str) -> Iterator[Emulate]:
    """Yield a function for each launch of a program."""
    if source == CATALOGUE:
        family, kernel = catalog.shipped().named(name)
        yield lambda races, timeout_s: emulate_target(
            Target(family, kernel, family.problem()), _settings(races, timeout_s)
        )
    elif source == PYTHON:
        cubin = python_kernels.recorded()[1][name]
        target = python_kernels.launched(name)
        yield lambda races, timeout_s: emulate_cubin(target, cubin, "", _settings(races, timeout_s))
    elif (path := Path(name)).is_dir():
        for counted in recorded_programs.launches(path):
            yield counted.emulated
    else:
        with open_launches(path) as file:
            for launch in file.manifest.launches:
                yield partial(_replayed, file, launch)


def _replayed(file: LaunchesFile, launch: CapturedLaunch, *, races: bool, timeout_s: float) -> Emulated:
    return Replay(file, _settings(races, timeout_s)).emulate(launch)


def _settings(races: bool, timeout_s: float) -> EmulationSettings:
    return EmulationSettings(Toolchain(timeout_s=timeout_s), budget_s=timeout_s, cached=False, races=races)


def measured(source: str, name: str, costs: bool, budget_s: float) -> Row:
    """Emulate the launches of a program in this process."""
    row = Row(Path(name).stem)
    for emulate in emulations(source, name):
        row.launches += 1
        if costs:
            _warm(emulate)
        for races in (True, False) if costs else (True,):
            left = budget_s - sum(row.seconds)
            if left <= 0:
                row.failed.append("the program's seconds are spent")
                return row
            gc.collect()
            start = time.process_time()
            try:
                emulated = emulate(races=races, timeout_s=left)
            except Exception as error:  # a crash is a result here, and named
                crash = "" if isinstance(error, NcuSwizzleError) else "CRASH "
                row.failed.append(f"{crash}{type(error).__name__}: {error}")
                break
            row.seconds[not races] += time.process_time() - start
            if races:
                row.add(emulated)
    return row


def _warm(emulate: Callable[..., Emulated]) -> None:
    """Import and parse what each run of a short launch would count for the first one alone."""
    for races in (False, True):
        start = time.process_time()
        with contextlib.suppress(NcuSwizzleError):
            emulate(races=races, timeout_s=WARM_S)
        if time.process_time() - start > WARM_S:
            return


def in_its_own_process(subject: tuple[str, str], given: argparse.Namespace) -> Row:
    """Return a program's row, as it was kept or measured now."""
    source, name = subject
    kept = given.kept and given.kept / f"{Path(source).name}-{Path(name).stem}.json"
    if kept and kept.exists():
        return Row(**json.loads(kept.read_text()))
    left = given.until - time.monotonic()
    command = [sys.executable, __file__, "--row", source, name, "--budget", str(min(given.budget, max(left - 5, 1)))]
    try:
        ended = subprocess.run(
            [*command, *["--costs"] * given.costs], capture_output=True, text=True, check=False, timeout=max(left, 0)
        )
    except subprocess.TimeoutExpired:
        return Row(Path(name).stem, failed=["the time is up"])
    if ended.returncode:
        return Row(Path(name).stem, failed=[f"CRASH {ended.stderr.strip().splitlines()[-1]}"])
    if kept:
        kept.write_text(ended.stdout)
    return Row(**json.loads(ended.stdout))


def shown(row: Row, costs: bool) -> str:
    """Return a line of the table."""
    by_code = Counter(alarm.split()[0] for alarm in row.alarms)
    alarms = ", ".join(f"{number} {code}" for code, number in sorted(by_code.items())) or "none"
    columns = [row.name, str(row.launches), str(row.blocks), alarms, "; ".join(row.lacking), "; ".join(row.failed)]
    if costs:
        with_races, without = row.seconds
        columns += [f"{with_races:.1f}", f"{without:.1f}", f"{with_races / without:.2f}" if without else ""]
    return f"| {' | '.join(columns)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; may be repeated")
    parser.add_argument("--budget", type=float, default=600.0, metavar="SECONDS", help="CPU time of a program")
    parser.add_argument("--limit", type=float, default=86_400.0, metavar="SECONDS", help="wall-clock time of all")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes at a time")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="where rows are kept")
    parser.add_argument("--costs", action="store_true", help="CPU seconds with and without races")
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(vars(measured(*given.row, given.costs, given.budget))))
        return
    if given.kept:
        given.kept.mkdir(parents=True, exist_ok=True)
    given.until = time.monotonic() + given.limit
    part, parts = map(int, given.part.split("/"))
    chosen = [each for each in subjects(given.folders) if not given.only or Path(each[1]).stem in given.only]
    chosen = chosen[part - 1 :: parts]
    heads = ["kernel or program", "launches", "blocks", "alarms", "not followed", "failed"]
    heads += ["seconds", "without", "ratio"] if given.costs else []
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    total = Row("all")
    with ThreadPoolExecutor(given.workers) as pool:
        for ended in as_completed([pool.submit(in_its_own_process, each, given) for each in chosen]):
            row = ended.result()
            print(shown(row, given.costs), flush=True)
            for alarm, what in row.alarms.items():
                print(f"    {alarm}: {what}", flush=True)
            total.launches, total.blocks = total.launches + row.launches, total.blocks + row.blocks
            total.failed += [row.name] * bool(row.failed)
            total.alarms |= {f"{alarm} {row.name}": what for alarm, what in row.alarms.items()}
            total.seconds = [one + other for one, other in zip(total.seconds, row.seconds, strict=True)]
    print(shown(total, given.costs))


if __name__ == "__main__":
    main()
