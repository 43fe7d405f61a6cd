"""Record a program's launches and ncu's counts of them.

``python3 bench/recording/record_launches.py FOLDER NAME -- PROGRAM``, on a machine with a GPU and ncu. Writes what
bench/figures/launches.py reads: NAME.launches (`ncu-swizzle capture --memory`), NAME.counts.json.xz and
NAME.memory.json.xz. Of modules with many kernels, such as PyTorch's, the code of those that were not launched is left
out, which makes the file small and changes no count. ``-c N`` takes the first N launches.
"""

from __future__ import annotations

import argparse
import json
import lzma
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures.capture import by_offset
from ncu_swizzle.base.cache import sha256
from ncu_swizzle.base.traffic import METRICS
from ncu_swizzle.capture.launches import open_launches, write
from ncu_swizzle.commands import profile as capture
from ncu_swizzle.commands.profile import Wanted
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.engines import reader
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.reports.model import Profile

TIMEOUT_S = 300.0
KERNEL = b".nv.constant0."  # each kernel has such a section, and functions that it calls have none
NOP = bytes.fromhex("18790000000000000000000000c00f00")  # since Volta
HEADER = struct.Struct("<IIQQQQIIQQ")  # of a section, in 64-bit ELF: name, type, flags, address, offset, size, …


def without_others(cubin: bytes, kernels: Sequence[str]) -> bytes:
    """Return a cubin whose kernels other than these consist of NOPs, which compress."""
    made = bytearray(cubin)
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, number, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [HEADER.unpack_from(cubin, table + index * size) for index in range(number)]
    names = cubin[headers[names_at][4] :]

    def name(header: tuple[int, ...]) -> bytes:
        return names[header[0] : names.index(b"\0", header[0])]

    every = {name(header).removeprefix(KERNEL) for header in headers if name(header).startswith(KERNEL)}
    left = {b".text." + kernel for kernel in every - {each.encode() for each in kernels}}
    for header in headers:
        if name(header) in left:
            offset, length = header[4], header[5]
            made[offset : offset + length] = (NOP * (length // len(NOP) + 1))[:length]
    return bytes(made)


def stripped(source: Path, out: Path) -> None:
    """Write the launches file again, each cubin without the code of kernels that were not launched."""
    with open_launches(source) as file, tempfile.TemporaryDirectory() as scratch:
        manifest, new, cubins = file.manifest, {}, {}
        for old in manifest.cubins:
            content = without_others(file.cubin(old), [each.kernel for each in manifest.launches if each.cubin == old])
            new[old] = sha256(content)
            cubins[new[old]] = content
        memory = {}
        for digest in manifest.memory:
            memory[digest] = Path(scratch) / digest
            memory[digest].write_bytes(file.memory(digest))
        launches = tuple(replace(each, cubin=new[each.cubin]) for each in manifest.launches)
        sizes = {digest: len(content) for digest, content in cubins.items()}
        write(out, replace(manifest, launches=launches, cubins=sizes), cubins, memory)


def columns(profile: Profile) -> dict[int, list[Any]]:
    """Return ncu's other columns, by offset from the function's start."""
    start = min(instruction.pc for instruction in profile.instructions)
    return {
        each.pc - start: [each.sass, {METRICS[name]: value for name, value in each.traffic.known.items()}]
        for each in profile.instructions
        if each.traffic.known
    }


def kept(path: Path, content: object) -> None:
    path.write_bytes(lzma.compress(json.dumps(content).encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("-c", type=int, default=64, metavar="N", dest="count")
    parser.add_argument("program", nargs="+")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        captured = Path(scratch) / "captured.launches"
        wanted = Wanted(launch_count=given.count, memory=True)
        program = UserProgram(tuple(given.program), Path.cwd())
        manifest = capture.captured(program, wanted, Request(timeout_s=TIMEOUT_S), captured)
        stripped(captured, given.folder / f"{given.name}.launches")
        report = Path(scratch) / "ncu"
        command = [sys.executable, "-m", "ncu_swizzle", "profile", "-c", str(given.count), "-o", str(report), "--"]
        counted = subprocess.run([*command, *given.program], check=False, capture_output=True, text=True)
        if counted.returncode:
            sys.exit(f"ncu counted nothing:\n{counted.stderr[-2000:]}")
        profiles = reader.read(report / "report.ncu-rep")
    names = [profile.kernel.mangled or profile.kernel.function for profile in profiles]
    kept(given.folder / f"{given.name}.counts.json.xz",
         [[name, by_offset(profile)] for name, profile in zip(names, profiles, strict=True)])  # fmt: skip
    kept(given.folder / f"{given.name}.memory.json.xz",
         [[name, columns(profile)] for name, profile in zip(names, profiles, strict=True)])  # fmt: skip
    if len(names) != len(manifest.launches):
        print(f"captured {len(manifest.launches)} launches, ncu counted {len(names)}")
    for file in sorted(given.folder.glob(f"{given.name}.*")):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
