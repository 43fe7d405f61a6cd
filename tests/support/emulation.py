"""What the emulator's tests share: kernels of their own, and the recorded kernels as they were launched."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np
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
from ncu_swizzle.engines import emulated_launch, module_image
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import DATA as ALL_DATA
from tests.support.recorded_code import recorded_code

DATA = ALL_DATA / "emulate"
HOPPER = ("cluster", "hopper", "shapes", "tiles")  # the files that need sm_90a
OUT, IN = 0x7F0000000000, 0x7F1000000000


@cache
def compiled(file: str) -> tuple[Cubin, str]:
    """Return the cubin of a file of tests/data/emulate, and its SASS."""
    unit, arch = f'#include "{DATA / file}.cu"\n', "sm_90a" if file in HOPPER else "sm_90"
    cubin = Cubin(Toolchain().compile(unit, ["-O3", "-fmad=false"], arch, []), f"{file}.cu")
    return cubin, Toolchain().disassemble(cubin.data, cubin.name)


@cache
def kernel(file: str, name: str) -> Code:
    """Return a kernel of tests/data/emulate."""
    cubin, text = compiled(file)
    constants = module_image.constants(cubin, name)
    constants.pop(0, None)  # it comes with the launch
    shared_bytes = emulated_launch.static_shared(cubin, cubin.attributes(name))
    return code.from_disassembly(text, name, constants=constants, shared_bytes=shared_bytes)


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


def recorded_launch(name: str, report: Path, profile: Profile) -> tuple[Code, Launch]:
    """Return the code of a recorded kernel, and how it was launched, with unknown floats."""
    family, variant = catalog.shipped().named(name)
    (result,) = container.inspect(report).results
    cubin = Cubin(result.cubin, report.name)
    rows = [(instruction.pc, instruction.sass) for instruction in profile.instructions]
    target = Target(family, variant, dict(profile.problem))
    return recorded_code(cubin, result.function, rows), emulated_launch.launch_of(target, cubin, result.function)
