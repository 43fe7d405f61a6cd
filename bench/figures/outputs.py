"""Whether executing captured launches leaves in memory what an H100 left there, bit for bit.

``python3 bench/figures/outputs.py FILE-OR-FOLDER … [--budget SECONDS] [--show]``: of each launches file, captured
with ``--outputs``, a line: its launches, how many are identical, how many differ, and how many are not known and why.
A program is identical if all launches are. ``--show`` prints every output that is not. Nothing needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.cubin import names
from ncu_swizzle.engines.captured_outputs import checked_outputs
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import Replay

IDENTICAL, MARKED, DIFFERENT, UNKNOWN, NOTHING = "identical", "differ, marked", "DIFFERENT", "unknown", "write nothing"


def verdicts(path: Path, budget_s: float) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each launch's kernel, verdict, and what is said of its outputs."""
    settings = EmulationSettings(budget_s=budget_s)
    with open_launches(path) as file:
        replay = Replay(file, settings)
        for captured in file.manifest.launches:
            kernel = names.function(names.demangle(captured.kernel))
            try:
                cubin, symbol = replay.build_of(captured)
                launch = replay.launch_of(captured, cubin, symbol)
                binary = Binary(cubin=cubin, symbol=symbol)
                outputs = list(checked_outputs(file, captured, binary, launch, settings))
            except NcuSwizzleError as error:
                yield kernel, UNKNOWN, [str(error)]
                continue
            said = [str(each) for each in outputs if each.wrong or each.unknown]
            if any(each.wrong and not each.inexact for each in outputs):
                yield kernel, DIFFERENT, said
            elif any(each.wrong for each in outputs):
                yield kernel, MARKED, said
            elif any(each.unknown for each in outputs):
                yield kernel, UNKNOWN, said
            else:
                yield kernel, IDENTICAL if outputs else NOTHING, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--budget", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    files = [file for path in given.paths for file in (sorted(path.glob("*.launches")) if path.is_dir() else [path])]
    every: Counter[str] = Counter()
    programs: Counter[str] = Counter()
    print("| program | launches | identical | differ, marked | DIFFERENT | unknown | CPU |")
    print("|---|---|---|---|---|---|---|")
    for file in files:
        start, found, said = time.process_time(), Counter[str](), []
        for kernel, verdict, lines in verdicts(file, given.budget):
            found[verdict] += 1
            said += [f"    {kernel}: {verdict}: {line}" for line in lines]
        cells = [found[each] for each in (IDENTICAL, MARKED, DIFFERENT, UNKNOWN)]
        spent = time.process_time() - start
        print(f"| {file.stem} | {found.total()} | {' | '.join(map(str, cells))} | {spent:.1f} s |", flush=True)
        if given.show:
            print(*said, sep="\n", flush=True)
        every += found
        worst = next((each for each in (DIFFERENT, UNKNOWN, MARKED) if found[each]), IDENTICAL)
        programs[worst] += 1
    print(f"launches: {dict(every)}\nprograms: {dict(programs)}")


if __name__ == "__main__":
    main()
