"""What the emulator's tests share: kernels of their own, and the recorded kernels as they were launched.

    python -m tests.support.emulation NVDISASM

compiles tests/data/emulate again, with nvcc and g++, and disassembles it.
"""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate import code
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch, bank_0
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.access import RESERVED_BYTES
from tests.support.places import DATA as ALL_DATA
from tests.support.recorded_code import from_report

DATA = ALL_DATA / "emulate"
ARCHITECTURES = {
    "cluster": "sm_90a",
    "hopper": "sm_90a",
    "shapes": "sm_90a",
    "tiles": "sm_90a",
}  # sm_90 for the other files
OUT, IN, GLOBALS = 0x7F0000000000, 0x7F1000000000, 0x7E0000000000


# ---------------------------------------------------------------------------------------------- kernels of the tests


@cache
def facts() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((DATA / "facts.json").read_text(encoding="utf-8"))
    return found


@cache
def text(file: str) -> str:
    return (DATA / f"{file}.sass").read_text(encoding="utf-8")


@cache
def kernel(file: str, name: str) -> Code:
    """Return a kernel of tests/data/emulate."""
    own = facts()[name]
    banks = {int(bank): bytes.fromhex(content) for bank, content in own["constants"].items()}
    return code.from_disassembly(text(file), name, constants=banks, shared_bytes=own["shared"])


def pointers(n: int, *, arrays: int = 2) -> bytes:
    """Return the parameters (out, in, n), or (out, n)."""
    return struct.pack(f"<{arrays}Qi", *(OUT, IN)[:arrays], n)


def outputs(source: Code, launch: Launch, words: int = 1) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Carry out all instructions; return the integers stored at OUT, `words` a thread, and which are known."""
    program = prepare(source, everything=True, arrays=bool(launch.memory))
    bank, known = bank_0(source, launch)
    constants = {**source.constants, **launch.constants, 0: bank}
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    size = source.shared_bytes + launch.shared_dynamic
    machine = Machine(blocks, launch.grid, launch.block, (1, 1, 1), constants, {0: known}, launch.memory, size)
    machine.log = RequestLog(machine, program.instructions)
    machine.keep_contents()
    machine.stores = []
    Schedule(program=program, machine=machine, clock=Clock()).run()
    count = words * int(np.prod(launch.grid) * np.prod(launch.block))
    found, sure = np.zeros(count, np.int64), np.zeros(count, bool)
    for _, place, lanes, values in machine.stores:
        at = (np.broadcast_to(place.bits, lanes.shape)[lanes].astype(np.int64) - OUT) // 4
        found[at] = np.broadcast_to(values[0].bits, lanes.shape)[lanes].view(np.int32)
        sure[at] = np.broadcast_to(np.asarray(values[0].known), lanes.shape)[lanes]
    return found, sure


# ---------------------------------------------------------------------------------------------- recorded kernels


def recorded_launch(name: str, report: Path, profile: Profile) -> tuple[Code, Launch]:
    """Return the code of a recorded kernel, and how it was launched; floats are unknown, tables are those compiled."""
    family, variant = catalog.shipped().named(name)
    (result,) = container.inspect(report).results
    cubin = Cubin(result.cubin, report.name)
    slots = cubin.attributes(result.function).parameters
    values = bytearray()
    arguments = [variant.boxed(argument) for argument in family.arguments]
    for number, (slot, argument) in enumerate(zip(slots, arguments, strict=True)):
        end = slot.offset + slot.size
        values.extend(bytes(end - len(values)))
        if argument.shape and not argument.tensor_map:
            values[slot.offset : end] = struct.pack("<Q", OUT + (number << 32))
        elif not argument.shape:
            value = evaluate(argument.value, profile.problem)
            values[slot.offset : end] = np.dtype(argument.dtype).type(value).tobytes()
    shape = Target(family, variant, dict(profile.problem)).launch
    grid, block = shape.grid, shape.block
    source = from_report(
        result.function,
        [(instruction.pc, instruction.sass) for instruction in profile.instructions],
        constants=banks(cubin.elf, result.function),
        shared_bytes=shared_bytes(cubin.elf, result.function),
        parameter_bytes=len(values),
    )
    shared = shape.shared
    return source, Launch(
        grid=(grid[0], grid[1], grid[2]),
        block=(block[0], block[1], block[2]),
        shared_dynamic=shared,
        parameters=bytes(values),
        memory=initialised(cubin.elf),
    )


def shared_bytes(elf: ELFFile, name: str) -> int:
    section = elf.get_section_by_name(f".nv.shared.{name}")
    return int(section["sh_size"]) if section else RESERVED_BYTES


def initialised(elf: ELFFile) -> dict[int, bytes]:
    section = elf.get_section_by_name(".nv.global.init")
    return {GLOBALS: section.data()} if section else {}


def banks(elf: ELFFile, name: str) -> dict[int, bytes]:
    """Return the constant banks, with the addresses of initialised variables filled in."""
    found = {}
    for bank, section in ((2, f".nv.constant2.{name}"), (3, ".nv.constant3"), (4, ".nv.constant4")):
        present = elf.get_section_by_name(section)
        if present:
            found[bank] = present.data()
    relocations = elf.get_section_by_name(".rela.nv.constant4")
    if relocations:
        content, symbols = bytearray(found[4]), elf.get_section_by_name(".symtab")
        for entry in relocations.iter_relocations():
            symbol = symbols.get_symbol(entry["r_info_sym"])
            place = entry["r_offset"]
            content[place : place + 8] = struct.pack("<Q", GLOBALS + symbol["st_value"] + entry["r_addend"])
        found[4] = bytes(content)
    return found


# ---------------------------------------------------------------------------------------------- making the data again


def remake(nvdisasm: str) -> None:
    known: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(DATA.glob("*.cu")):
            cubin = Path(folder) / f"{source.stem}.cubin"
            architecture = ARCHITECTURES.get(source.stem, "sm_90")
            command = ["nvcc", f"-arch={architecture}", "-cubin", "-O3", "-fmad=false", str(source), "-o", str(cubin)]
            subprocess.run(command, check=True)
            done = subprocess.run([nvdisasm, "-c", str(cubin)], check=True, capture_output=True, text=True)
            (DATA / f"{source.stem}.sass").write_text(done.stdout, encoding="utf-8")
            elf = ELFFile(io.BytesIO(cubin.read_bytes()))
            for section in elf.iter_sections():
                name = section.name.removeprefix(".text.")
                if name != section.name:
                    constants = {str(bank): content.hex() for bank, content in banks(elf, name).items()}
                    known[name] = {"shared": shared_bytes(elf, name), "constants": constants}
        program = Path(folder) / "values"
        subprocess.run(
            ["g++", "-O1", "-fwrapv", "-ffp-contract=off", str(DATA / "values.cpp"), "-o", str(program)], check=True
        )
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    (DATA / "values.txt").write_text(printed, encoding="utf-8")
    (DATA / "facts.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    remake(sys.argv[1])
