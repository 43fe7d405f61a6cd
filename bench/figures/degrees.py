"""What is said of accesses in every launch, next to ncu's counts of some.

``python3 bench/figures/degrees.py FOLDER [NAME …]``.

FOLDER has programs as bench/figures/programs.py reads them, files of launches as bench/figures/launches.py does, or
folders with reports, such as recordings/h100. For each kernel and block shape that was launched, the degrees that
`lint` gives from the code alone are compared with every launch. Prints a program's accesses by verdict (free, of one
degree, dependent, unknown), those that a measured launch contradicts, and the CPU seconds. Ends with 1 if one does.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.degrees import DEPENDS, FIXED, FREE, UNKNOWN, AccessDegree, KernelDegrees
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.degrees import degrees
from ncu_swizzle.engines import emulated_launch, reader
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container

Block = tuple[int, int, int]
Rows = dict[int, list[Any]]  # by offset: SASS, executed, wavefronts, ideal
CAPTURED, COUNTS = ".launches", ".counts.json.xz"
VERDICTS = (FREE, FIXED, DEPENDS, UNKNOWN)


def recorded(folder: Path) -> Iterator[tuple[Cubin, str, Block, list[Rows]]]:
    """Yield kernels and block shapes of a program, with what was counted of each of their launches."""
    launched: dict[tuple[str, str, Block], list[Rows]] = defaultdict(list)
    with lzma.open(folder / "launches.jsonl.xz", "rt", encoding="utf-8") as lines:
        for launch in map(json.loads, lines):
            if launch["counts"]:
                key = (launch["cubin"], launch["kernel"], tuple(launch["block"]))
                launched[key].append({int(offset): row for offset, row in launch["counts"].items()})
    for (cubin, kernel, block), counts in launched.items():
        data = lzma.decompress((folder / f"{cubin}.cubin.xz").read_bytes())
        yield Cubin(data, cubin), kernel, block, counts


def captured(path: Path) -> Iterator[tuple[Cubin, str, Block, list[Rows]]]:
    """Yield the same of launches that `ncu-swizzle capture` kept."""
    counts = json.loads(lzma.decompress(path.with_name(path.name.removesuffix(CAPTURED) + COUNTS).read_bytes()))
    launched: dict[tuple[str, str, Block], list[Rows]] = defaultdict(list)
    with open_launches(path) as file:
        for launch, (_, rows) in zip(file.manifest.launches, counts, strict=True):
            if rows:
                x, y, z = launch.block
                key = (launch.cubin, launch.kernel, (x, y, z))
                launched[key].append({int(offset): row for offset, row in rows.items()})
        for (cubin, kernel, block), each in launched.items():
            yield Cubin(file.cubin(cubin), cubin[:12]), kernel, block, each


def reported(path: Path) -> Iterator[tuple[Cubin, str, Block, list[Rows]]]:
    """Yield the same of the first launch in a report of ncu's."""
    result, profile = container.inspect(path).results[0], reader.read(path)[0]
    first = profile.instructions[0].pc
    rows = {
        each.pc - first: [each.sass, each.executed, each.wavefronts, each.ideal]
        for each in profile.instructions
        if each.access
    }
    x, y, z = profile.block
    yield Cubin(result.cubin, path.name), result.function, (x, y, z), [rows]


def kernels_of(path: Path) -> Iterator[tuple[Cubin, str, Block, list[Rows]]]:
    """Yield the kernels and block shapes of a program's folder, a file of launches, or a report."""
    read = recorded if path.is_dir() else captured if path.suffix == CAPTURED else reported
    return read(path)


def contradiction(access: AccessDegree, row: list[Any]) -> str:
    """Return how a measured launch contradicts what is said of an access; empty if it does not."""
    actual, ideal = row[2:]
    if access.least is None or access.most is None or not ideal:
        return ""
    if access.least <= Fraction(actual, ideal) <= access.most:
        return ""
    return f"{access.offset:#x} {access.sass}: {access.least} to {access.most}, ncu {actual} / {ideal}"


def measure(folder: Path, reasons: Counter[str], verbose: bool) -> tuple[Counter[str], list[str], float]:
    """Return verdicts by access, contradictions and CPU seconds of one program."""
    toolchain = Toolchain()
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    start = time.process_time()
    for cubin, kernel, block, counts in kernels_of(folder):
        code = emulated_launch.code(cubin, kernel, toolchain.disassemble(cubin.data, cubin.name))
        said: KernelDegrees = degrees(code, block)
        accesses = {access.offset: access for access in said.accesses}
        for offset in sorted({offset for rows in counts for offset, row in rows.items() if row[1]}):
            access = accesses.get(offset)
            if access is None:
                wrong.append(f"{kernel} {offset:#x}: not seen")
                continue
            verdicts[access.verdict] += 1
            reasons[access.reason.partition(" at 0x")[0]] += 1
            if verbose and access.verdict in (UNKNOWN, DEPENDS):
                what = f"{access.offset:#x} {access.sass}: {access.least} {access.most} {access.reason}"
                print(f"  {kernel[:40]} {block} {what}")
            measured = [rows[offset] for rows in counts if offset in rows]
            wrong += [f"{kernel} {why}" for row in measured if (why := contradiction(access, row))]
    return verdicts, wrong, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="these programs alone")
    parser.add_argument("--verbose", action="store_true", help="each access that is not claimed")
    arguments = parser.parse_args()
    programs = {path.parent.name: path.parent for path in sorted(arguments.folder.glob("*/launches.jsonl.xz"))}
    programs |= {path.name.removesuffix(CAPTURED): path for path in sorted(arguments.folder.glob(f"*{CAPTURED}"))}
    programs |= {path.stem: path for path in sorted(arguments.folder.glob("*/*.ncu-rep"))}
    print(f"| program | {' | '.join(VERDICTS)} | contradicted | seconds |\n|{'---|' * 7}")
    total, failed, reasons = Counter[str](), 0, Counter[str]()
    for name in arguments.names or programs:
        verdicts, wrong, seconds = measure(programs[name], reasons, arguments.verbose)
        columns = " | ".join(str(verdicts[each]) for each in VERDICTS)
        print(f"| {name} | {columns} | {len(wrong)} | {seconds:.1f} |", flush=True)
        for line in wrong[:5]:
            print(f"  CONTRADICTED {line}")
        total.update(verdicts)
        failed += len(wrong)
    print(f"| all | {' | '.join(str(total[each]) for each in VERDICTS)} | {failed} | |")
    for reason, number in reasons.most_common(25):
        print(f"{number:8}  {reason}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
