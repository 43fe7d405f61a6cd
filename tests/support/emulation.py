"""What the emulator's tests share: kernels of their own and recorded ones, single instructions, programs."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine, bank_0
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.container import ReportResult
from ncu_swizzle.smem.access import Index
from tests.support.places import DATA as ALL_DATA

DATA = ALL_DATA / "emulate"
ARCHS = dict.fromkeys(("cluster", "hopper", "products", "shapes", "tiles"), "sm_90a")  # the others: sm_90
ARCHS |= dict.fromkeys(("shift", "umma", "tensor_races"), "sm_100a")
OUT, IN = 0x7F0000000000, 0x7F1000000000


@cache
def compiled(file: str) -> tuple[Cubin, str]:
    """Return the cubin of a file of tests/data/emulate, and its SASS."""
    unit, arch = f'#include "{DATA / file}.cu"\n', ARCHS.get(file, "sm_90")
    cubin = Cubin(Toolchain().compile(unit, ["-O3", "-fmad=false"], arch, []), f"{file}.cu")
    return cubin, Toolchain().disassemble(cubin.data, cubin.name)


def kernel(file: str, name: str) -> Code:
    """Return a kernel of tests/data/emulate; a launch may give it less than all of its parameters."""
    cubin, text = compiled(file)
    return replace(emulated_launch.code(cubin, name, text), parameter_bytes=0)


def pointers(n: int, *, arrays: int = 2) -> bytes:
    """Return the parameters (out, in, n), or (out, n)."""
    return struct.pack(f"<{arrays}Qi", *(OUT, IN)[:arrays], n)


def outputs(source: Code, launch: Launch, words: int = 1) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Carry out all instructions; return the integers stored at OUT, `words` a thread, and which are known."""
    program = prepare(source, Demand(everything=True, arrays=bool(launch.memory)))
    bank, known = bank_0(source, launch)
    constants = {**source.constants, **launch.constants, 0: bank}
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    size = source.shared_bytes + launch.shared_dynamic
    m = machine(
        blocks, launch.grid, launch.block, constants=constants, known_constants={0: known}, memory=launch.memory,
        shared_size=size,
    )  # fmt: skip
    m.log = RequestLog(m, program.instructions)
    m.keep_contents()
    m.stores = []
    Schedule(program=program, machine=m, clock=Clock()).run()
    count = words * int(np.prod(launch.grid) * np.prod(launch.block))
    found, sure = np.zeros(count, np.int64), np.zeros(count, bool)
    for _, place, lanes, values in m.stores:
        at = (np.broadcast_to(place.bits, lanes.shape)[lanes].astype(np.int64) - OUT) // 4
        found[at] = np.broadcast_to(values[0].bits, lanes.shape)[lanes].view(np.int32)
        sure[at] = np.broadcast_to(np.asarray(values[0].known), lanes.shape)[lanes]
    return found, sure


def recorded_launch(target: Target, result: ReportResult) -> tuple[Code, Launch]:
    """Return the code that a report has of a kernel, and how it was launched, with unknown floats."""
    return compiled_launch(target, Cubin(result.cubin, target.kernel.name), result.function)


def compiled_launch(target: Target, cubin: Cubin, function: str) -> tuple[Code, Launch]:
    """Return the code of a kernel in a cubin, and how a target launches it, with unknown floats."""
    text = Toolchain().disassemble(cubin.data, cubin.name)
    return emulated_launch.code(cubin, function, text), emulated_launch.launch_of(target, cubin, function)


Lane = tuple[int, int, int, bool, bool]  # a, b, c, and two predicates


def machine(blocks: Any = ((0, 0, 0),), grid: Index = (1, 1, 1), block: Index = (32, 1, 1), **others: Any) -> Machine:
    """Return a machine for some blocks, without memory but for what `others` say."""
    nothing: dict[str, Any] = {"constants": {}, "known_constants": {}, "memory": {}, "shared_size": 0}
    indices = np.array(blocks, np.int64)
    return Machine(blocks=indices, grid=grid, block=block, cluster=(1, 1, 1), **{**nothing, **others})


def execute(sass: str, lanes: Sequence[Lane], known: bool = True) -> Machine:
    """Carry out instructions, one a line, with a, b, c in R2, R4, R6 (upper halves in R3, R5, R7), P0, P1."""
    lines = [*sass.splitlines(), "EXIT"]
    code = Code(name="test", instructions=tuple(Sass(16 * number, line) for number, line in enumerate(lines)))
    program = prepare(code, Demand(everything=True))
    m = machine()
    for place in range(3):
        numbers = np.array([[lane[place] for lane in lanes]], np.uint32)
        m.registers[2 + 2 * place] = Value(numbers, known)
        m.registers[3 + 2 * place] = Value(numbers[:, ::-1].copy(), known)
    m.registers[336] = Value(np.array([[lane[3] for lane in lanes]]))
    m.registers[337] = Value(np.array([[lane[4] for lane in lanes]]))
    assert not program.unsupported
    for step in program.steps[: len(lines) - 1]:
        assert step is not None
        step(m)
    return m
