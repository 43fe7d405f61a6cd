"""The goal of ``ncu-swizzle fix``: ``python3 bench/fix.py [KERNEL …] [--catalogue] [--patched FOLDER] [--gpu]``.

For each kernel of tests/data/fix, and with ``--catalogue`` for the catalogue's plain ones: what became of it, its
excessive wavefronts before and after, what was proved, and the seconds that it took. ``--patched`` keeps the patched
sources, in a folder per kernel. ``--gpu`` launches what those folders hold, without fixing anything again: outputs
compared, compute-sanitizer, times in turns.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.profiles.engine import EMULATED, Engine
from tests.support.fix_corpus import REFUSED, specs, with_text

HEAD = ["| kernel | excess | after | mapping | outcome | seconds |", "|---|---|---|---|---|---|"]
GPU_HEAD = ["| kernel | outputs | compute-sanitizer | time |", "|---|---|---|---|"]
PLAIN = ("kernel1", "gemm-plain", "transpose-plain", "cute-8x8-plain", "cute-128x32-plain", "cute-columns-plain",
         "vectors-4-stride", "vectors-8-stride", "vectors-16-stride")  # fmt: skip
LARGE = {"n": 2048, "blocks": 4096, "w": 4096, "h": 4096}  # so that a launch takes longer than to launch it
SMALLER = {"rows-sum": {"blocks": 256}, "stages-flat": {"blocks": 1024}}
PROVED, LEFT, RIGHTLY, WRONGLY = "proved", "not fixed", "refused, as it must be", "fixed, but must be refused"


def fixed(target: Target, timeout_s: float, patched: Path | None) -> tuple[str, str]:
    """Return a kernel's line of the table, and what became of it."""
    from ncu_swizzle.fix.fixing import FixOptions, fix  # a parser, which the launches do without

    start = time.perf_counter()
    context = Context(Request(EMULATED, timeout_s=timeout_s), Engine(EMULATED), Path.cwd())
    try:
        made = fix(target, FixOptions(), context)
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


def launched(target: Target, patched: Path) -> str:
    """Return a kernel's line of the GPU's table."""
    from ncu_swizzle.fix import on_gpu

    sizes = LARGE | SMALLER.get(target.name, {})
    before = replace(target, problem={name: sizes.get(name, size) for name, size in target.problem.items()})
    (source,) = (patched / target.name).rglob(target.source.name)
    after = replace(before, family=replace(target.family, folder=source.parent))
    with tempfile.TemporaryDirectory() as folder:
        claims = on_gpu.measure(before, after, Path(folder), Toolchain())
    return f"| {target.name} | {' | '.join(f'{claim.state}: {_cell(claim.reason)}' for claim in claims)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def targets(names: Sequence[str], catalogue: bool) -> Iterator[Target]:
    shipped = collection.shipped()
    own = specs()
    for name in names or (*own, *(PLAIN if catalogue else ())):
        yield own[name] if name in own else shipped.target(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--catalogue", action="store_true", help="the catalogue's plain kernels too")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that each emulation may take")
    parser.add_argument("--patched", type=Path, help="where the patched sources are, or go")
    parser.add_argument("--gpu", action="store_true", help="launch the patched sources")
    arguments = parser.parse_args()
    if arguments.gpu:
        print("\n".join(GPU_HEAD), flush=True)
        for target in targets(arguments.kernels, arguments.catalogue):
            if (arguments.patched / target.name).is_dir():
                print(launched(target, arguments.patched), flush=True)
        return
    print("\n".join(HEAD), flush=True)
    met: Counter[str] = Counter()
    for target in targets(arguments.kernels, arguments.catalogue):
        line, outcome = fixed(target, arguments.timeout, arguments.patched)
        met[outcome] += 1
        print(line, flush=True)
    print()
    print(", ".join(f"{count} {outcome}" for outcome, count in met.items()))


if __name__ == "__main__":
    main()
