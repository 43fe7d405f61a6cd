"""The goal of ``ncu-swizzle fix``.

``python3 bench/figures/fix.py [KERNEL …] [--catalogue] [--patched FOLDER] [--gpu]``.

For each kernel of tests/data/fix, and with ``--catalogue`` for the catalogue's plain ones: what became of it, its
excessive wavefronts before and after, what was proved, and the seconds that it took. ``--patched`` keeps the patched
sources, in a folder per kernel. ``--gpu`` launches what those folders hold, without fixing anything again: outputs
compared, times in turns. ``--table FILE`` writes the table to a file, too.

"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.figures import fixes_on_gpu
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.fixes import REFUSED, specs, with_text

HEAD = ["| kernel | excess | after | mapping | outcome | seconds |", "|---|---|---|---|---|---|"]
PLAIN = ("kernel1", "gemm-plain", "transpose-plain", "cute-8x8-plain", "cute-128x32-plain", "cute-columns-plain",
         "vectors-4-stride", "vectors-8-stride", "vectors-16-stride")  # fmt: skip
PROBLEMS = {"gemm-plain": {"n": 256}, "kernel1": {"seq": 128}}  # of which all accesses are compared within a minute
PROVED, LEFT, RIGHTLY, WRONGLY = "proved", "not fixed", "refused, as it must be", "fixed, but must be refused"


def fixed(target: Target, timeout_s: float, patched: Path | None) -> tuple[str, str]:
    """Return a kernel's line of the table, and what became of it."""
    from ncu_swizzle.fix.edits import source_of
    from ncu_swizzle.fix.fixing import fix_kernel  # a parser, which the launches do without
    from ncu_swizzle.fix.trial import FixJob

    start = time.perf_counter()
    settings = EmulationSettings(Toolchain(timeout_s=timeout_s), budget_s=timeout_s)
    try:
        made = fix_kernel(FixJob(target=target, text=source_of(target), settings=settings))
    except NcuSwizzleError as error:
        outcome = RIGHTLY if target.name in REFUSED else LEFT
        return f"| {target.name} | | | | {outcome}: {_cell(str(error))} | {time.perf_counter() - start:.0f} |", outcome
    seconds = time.perf_counter() - start
    tiles = made.tiles
    before = sum(tile.excess_before for tile in tiles)
    after = sum(
        tile.excess_before if tile.excess_after is None or not tile.proved else tile.excess_after for tile in tiles
    )
    whole = made.proved and all(tile.proved for tile in tiles)
    outcome = (WRONGLY if made.proved else RIGHTLY) if target.name in REFUSED else PROVED if whole else LEFT
    why = "; ".join(f"{tile.name}: {tile.reason} (line {tile.reason_line})" for tile in tiles if not tile.proved)
    why = why or "; ".join(made.notes)
    mapping = "; ".join(dict.fromkeys(tile.mapping for tile in tiles if tile.proved))
    if made.proved and patched is not None:
        with_text(target, made.after.decode("utf-8"), patched / target.name)
    said = f"{outcome}{f': {_cell(why)}' if why else ''}"
    return f"| {target.name} | {before:,} | {after:,} | {mapping} | {said} | {seconds:.0f} |", outcome


def launched(chosen: Iterable[Target], patched: Path) -> str:
    """Return the GPU's table of the kernels whose patched source is there."""
    pairs = {}
    for target in chosen:
        sources = list((patched / target.name).rglob(target.source.name))
        if len(sources) == 1:
            pairs[target.name] = (target, replace(target, family=replace(target.family, folder=sources[0].parent)))
    with tempfile.TemporaryDirectory() as folder:
        return fixes_on_gpu.table(fixes_on_gpu.measured(pairs, Path(folder)))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def targets(names: Sequence[str], catalogue: bool) -> Iterator[Target]:
    shipped = catalog.shipped()
    own = specs()
    for name in names or (*own, *(PLAIN if catalogue else ())):
        target = own[name] if name in own else shipped.target(name)
        yield replace(target, problem=target.family.problem(PROBLEMS[name])) if name in PROBLEMS else target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--catalogue", action="store_true", help="the catalogue's plain kernels too")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that each emulation may take")
    parser.add_argument(
        "--patched", type=lambda text: Path(text).absolute(), help="where the patched sources are, or go"
    )
    parser.add_argument("--gpu", action="store_true", help="launch the patched sources, with --patched")
    parser.add_argument("--table", type=Path, help="where the table goes, too")
    arguments = parser.parse_args()
    chosen = targets(arguments.kernels, arguments.catalogue)
    if arguments.gpu:
        table = launched(chosen, arguments.patched)
        print(table)
    else:
        table = fixes(chosen, arguments.timeout, arguments.patched)
    if arguments.table:
        arguments.table.write_text(table, encoding="utf-8")


def fixes(chosen: Iterable[Target], timeout_s: float, patched: Path | None) -> str:
    """Fix kernels, print a line of each as it is done, and return the table."""
    lines, met = list(HEAD), Counter[str]()
    print("\n".join(HEAD), flush=True)
    for target in chosen:
        line, outcome = fixed(target, timeout_s, patched)
        met[outcome] += 1
        lines.append(line)
        print(line, flush=True)
    total = ", ".join(f"{count} {outcome}" for outcome, count in met.items())
    print(f"\n{total}")
    return "\n".join([*lines, "", total, ""])


if __name__ == "__main__":
    main()
