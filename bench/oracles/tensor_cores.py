"""What the families `tcgen05` and `mxf8` compute, without a GPU: ``python3 bench/oracles/tensor_cores.py [KERNEL …]``.

From the bytes in shared and tensor memory, by the oracle's layouts (bench/oracles/umma_oracle.py): registers, addresses
and barriers are the emulator's; what TMA, tcgen05.mma and its copies do to bytes is computed here. Prints the largest
relative error (2-norm) of any row of each kernel's product, and ends with 1 if it is beyond the family's tolerance. No
kernel of these families has run on hardware; tests/kernels does the same.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.oracles.narrow_types import table
from bench.oracles.tile_oracle import Array, TensorMap, values_of
from bench.oracles.umma_oracle import Side, operand_bytes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import RequestLog, access_width, memory_operands
from ncu_swizzle.emulate.code import INSTRUCTION, MEMORY, TENSOR, UPRED, Code, Operand, SassInstruction
from ncu_swizzle.emulate.copies import ToShared, map_at
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine, bank_0
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.tensor_map import decoded_map
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.engines.emulation import EmulationSettings, executable
from ncu_swizzle.kernels import catalog, references
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.smem.access import RESERVED_BYTES

N, SEED, HEAP = 256, 3, 1 << 44
LANES, COLUMNS = 128, 512


def number(m: Machine, reader: operands.Reader, row: int) -> int:
    """Return what the first active lane of one of the view's warps reads."""
    value = reader(m)
    lane = int(np.argmax(m.view.mask[row])) if value.bits.shape[1] > 1 else 0
    assert np.all(value.known)
    return int(value.bits[min(row, len(value.bits) - 1), lane])


def both(operand: Operand) -> list[operands.Reader]:
    return [operands.raw(operand.terms[0], plus) for plus in (0, 1)]


@dataclass
class TensorCores:
    """The bytes of shared memory, and what is in tensor memory, of all blocks of a launch."""

    launch: Launch
    shared: Array
    results: Array = field(init=False)
    factors: Array = field(init=False)

    def __post_init__(self) -> None:
        blocks = len(self.shared)
        self.results = np.full((blocks, LANES, COLUMNS), np.nan)
        self.factors = np.zeros((blocks, LANES, COLUMNS, 4), np.uint8)

    def before(self, instruction: SassInstruction) -> Step | None:
        steps = {"UTMALDG": self._load, "STS": self._store, "UTCCP": self._copy}
        make = self._multiply if instruction.opcode in ("UTCHMMA", "UTCQMMA") else steps.get(instruction.opcode)
        return make(instruction) if make else None

    def instead(self, instruction: SassInstruction, _: int) -> Step | None:
        return self._read(instruction) if instruction.opcode == "LDTM" else None

    @staticmethod
    def _rows(m: Machine, instruction: SassInstruction) -> list[int]:
        guard = operands.guard_operands(instruction.guard)
        selected, doubtful = m.selection(guard(m) if guard else None)
        assert not doubtful.any()
        return np.flatnonzero(selected.any(axis=1)).tolist()

    def _load(self, instruction: SassInstruction) -> Step:
        copy = ToShared(instruction)

        def step(m: Machine) -> None:
            for row in self._rows(m, instruction):
                low, high = (number(m, read, row) for read in copy.source)
                content = map_at(m, low | high << 32)
                tensor = decoded_map(content) if content else None
                assert tensor is not None
                box = TensorMap(tensor.data_type, tensor.sizes, tensor.strides, tensor.box, tensor.swizzle)
                corner = [number(m, read, row) for read in copy.corner]
                buffer = np.frombuffer(self.launch.memory[tensor.address], np.uint8)
                to = number(m, copy.target, row) & 0xFFFFFF
                box.copy(buffer, corner, self.shared[int(m.view_blocks()[row])], to)

        return step

    def _store(self, instruction: SassInstruction) -> Step:
        at, width = memory_operands(instruction)[0], access_width(instruction)
        address, data = operands.address(instruction.operands[at]), instruction.operands[at + 1]
        words = [operands.raw(data, k) for k in range(max(1, width // 4))]
        guard = operands.guard_operands(instruction.guard)

        def step(m: Machine) -> None:
            selected, _ = m.selection(guard(m) if guard else None)
            places = np.broadcast_to(address(m).bits, selected.shape)[selected].astype(np.int64)
            blocks = np.broadcast_to(m.view_blocks()[:, None], selected.shape)[selected]
            values = [np.broadcast_to(read(m).bits, selected.shape)[selected] for read in words]
            content = np.stack(values, axis=-1).astype(np.uint32).view(np.uint8)[:, :width]
            self.shared[blocks[:, None], (places & 0xFFFFFF)[:, None] + np.arange(width)] = content

        return step

    def _copy(self, instruction: SassInstruction) -> Step:
        target = operands.address(next(one for one in instruction.operands if one.kind == TENSOR))
        source = both(next(one for one in instruction.operands if one.kind == MEMORY))

        def step(m: Machine) -> None:
            for row in self._rows(m, instruction):
                low, high = (number(m, read, row) for read in source)
                # 32 rows of 16 bytes, eight of them one after the other, to all four parts of the lanes.
                lane, byte = np.arange(32)[:, None], np.arange(16)
                at = ((low & 0x3FFF) << 4) + lane // 8 * ((high & 0x3FFF) << 4) + lane % 8 * 16 + byte
                block, column = int(m.view_blocks()[row]), number(m, target, row) & 0xFFFF
                words = self.shared[block, at].reshape(32, 4, 4)
                self.factors[block, :, column : column + 4] = np.tile(words, (4, 1, 1))

        return step

    def _multiply(self, instruction: SassInstruction) -> Step:
        a, b, d = instruction.operands[:3]
        which = next(k for k, one in enumerate(instruction.operands) if one.kind == INSTRUCTION)
        described, target = operands.address(instruction.operands[which]), operands.address(d)
        adds = operands.predicate(next(one for one in reversed(instruction.operands) if one.kind == UPRED))
        scales = next((both(one) for one in instruction.operands[which + 1 :] if one.kind == TENSOR), None)
        element, kind = (2, "f16") if instruction.opcode == "UTCHMMA" else (1, "e4m3")
        pair = instruction.has("2CTA")

        def operand(words: list[int], rows: int, block: int) -> Array:
            low, high = words
            side = Side(leading=(low >> 16 & 0x3FFF) << 4, stride=(high & 0x3FFF) << 4, layout=high >> 29)
            at = operand_bytes(side, (low & 0x3FFF) << 4, rows, False, element)
            return values_of(kind, self.shared[block, at])

        def step(m: Machine) -> None:
            for row in self._rows(m, instruction):
                bits, first = number(m, described, row), int(m.view_blocks()[row])
                blocks = [first, first + 1] if pair else [first]
                rows, columns = (bits >> 24 & 31) * 16 // len(blocks), (bits >> 17 & 63) * 8
                words = [[number(m, read, row) for read in both(one)] for one in (a, b)]
                of_b = np.concatenate([operand(words[1], columns // len(blocks), block) for block in blocks])
                more, column = number(m, adds, row), number(m, target, row) & 0xFFFF
                for block in blocks:
                    of_a, wide = operand(words[0], rows, block), of_b
                    if scales:
                        of_a, wide = (
                            one * self._scale(block, number(m, read, row), len(one), bits >> bit & 3)
                            for one, read, bit in zip((of_a, of_b), scales, (29, 4), strict=True)
                        )
                    here = self.results[block, :rows, column : column + columns]
                    self.results[block, :rows, column : column + columns] = of_a @ wide.T + (here if more else 0)

        return step

    def _scale(self, block: int, address: int, rows: int, byte: int) -> Array:
        """Return the scale factor of each row, (rows, 1)."""
        row, column = np.arange(rows), address & 0xFFFF
        codes = self.factors[block, row % 32, column + row // 32, byte]
        return np.asarray(table("ue8m0")[codes])[:, None]

    def _read(self, instruction: SassInstruction) -> Step:
        first = operand_number(instruction.operands[0])
        assert first is not None
        address = operands.address(next(one for one in instruction.operands if one.kind == TENSOR))
        count = int(next(word for word in instruction.modifiers if word.startswith("x"))[1:])

        def step(m: Machine) -> None:
            found = np.zeros((count, len(m.view.warps), 32), np.float32)
            for row in self._rows(m, instruction):
                lane, column = divmod(number(m, address, row), 1 << 16)
                part = self.results[int(m.view_blocks()[row]), lane : lane + 32, column : column + count]
                found[:, row] = part.T
            for k in range(count):
                m.put(first + k, Value(found[k].view(np.uint32)), None)

        return step


def drawn(family: str) -> dict[str, Array]:
    """Return random inputs of a family as they are in memory."""
    choose = np.random.default_rng(SEED)
    if family == "tcgen05":
        return {one: choose.normal(size=(N, N)).astype(np.float16) for one in "ab"}
    codes = {one: choose.integers(0, 256, (N, N), np.uint8) & 0xBF for one in "ab"}  # below 2 in size
    return codes | {f"scales_{one}": choose.integers(120, 128, (N, N // 32), np.uint8) for one in "ab"}


def product(target: Target) -> tuple[Array, dict[str, Array]]:
    """Return C, (N, N), as a launch of the kernel stores it, and the inputs that were drawn."""
    built = executable(target, EmulationSettings(Toolchain()))
    code, launch = built.code, built.launch(None)
    slots = built.emulated.binary.cubin.attributes(built.emulated.binary.symbol).parameters
    # A pointer's parameter begins with the address of its buffer, and so does a tensor map.
    parameters, at = bytearray(launch.parameters), {}
    for index, (one, slot) in enumerate(zip(target.family.arguments, slots, strict=True)):
        if one.shape:
            at[one.name] = HEAP + (index << 32)
            parameters[slot.offset : slot.offset + 8] = at[one.name].to_bytes(8, "little")
    inputs = drawn(target.family.name)
    contents = {at[one]: content.tobytes() for one, content in inputs.items()}
    m = run(code, replace(launch, memory=contents, parameters=bytes(parameters)))

    stored = np.full(N * N * 2, 0xFF, np.uint8)
    for _, place, lanes, values in m.stores or ():
        assert all(np.all(np.broadcast_to(np.asarray(value.known), lanes.shape)[lanes]) for value in values)
        words = [np.broadcast_to(value.bits, lanes.shape)[lanes] for value in values]
        content = np.stack(words, axis=-1).astype(np.uint32).view(np.uint8)
        where = np.broadcast_to(place.bits, lanes.shape)[lanes].astype(np.int64) - at["c"]
        stored[where[:, None] + np.arange(content.shape[1])] = content
    return stored.view(np.float16).reshape(N, N).astype(np.float64), inputs


def run(code: Code, launch: Launch) -> Machine:
    """Execute all blocks side by side, with tensor cores."""
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    size = code.shared_bytes + launch.shared_dynamic
    cores = TensorCores(launch, np.zeros((len(blocks), size), np.uint8))
    program = prepare(code, Demand(everything=True, arrays=True), cores.before, cores.instead)
    bank, known = bank_0(code, launch)
    m = Machine(
        blocks=blocks,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        constants={**code.constants, **launch.constants, 0: bank},
        known_constants={0: known},
        memory=launch.memory,
        shared_size=size,
    )
    m.log = RequestLog(m, program.instructions)
    m.keep_contents(RESERVED_BYTES)  # 0 at first, which tcgen05.alloc relies on
    m.stores = []
    Schedule(program=program, machine=m, clock=Clock()).run()
    return m


def error_and_tolerance(name: str) -> tuple[float, float]:
    """Return the largest relative error of any row that the reference computes of a product, and the limit."""
    target = catalog.shipped().target(name, {"n": N})
    found, inputs = product(target)
    reference = references.gemm
    if target.family.name == "mxf8":
        inputs, reference = inputs | {one: table("e4m3")[inputs[one]] for one in "ab"}, references.mxf8
    rows, wanted = reference(inputs, {"n": N}, np.random.default_rng(SEED))["c"]
    apart = np.linalg.norm(found[rows] - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
    return float(apart.max()), next(one.tolerance for one in target.family.arguments if one.output)


KERNELS = [kernel.name for family, kernel in catalog.shipped() if family.never_run]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=", ".join(KERNELS))
    found = {name: error_and_tolerance(name) for name in parser.parse_args().kernels or KERNELS}
    for name, (error, tolerance) in found.items():
        print(f"{name}: {error:.2g}, of at most {tolerance:g}")
    return 1 if any(error >= tolerance for error, tolerance in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
