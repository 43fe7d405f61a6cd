"""What each instruction reads and writes: numbered registers, and each memory as a whole.

R0-R254 are 0-254, Rpc 255, UR0-UR79 are 256-335, P0-P6 are 336-342, UP0-UP6 are 344-350; zero registers have none.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from ncu_swizzle.emulate.code import (
    CONSTANT,
    INSTRUCTION,
    MEMORY,
    PRED,
    REG,
    RPC,
    TENSOR,
    TRUE,
    UPRED,
    UREG,
    UZERO,
    ZERO,
    Operand,
    SassInstruction,
)
from ncu_swizzle.smem.opcodes import Copy, Memory, Shared

BASES = {REG: 0, RPC: 255, UREG: 256, PRED: 336, UPRED: 344}
NONE = {REG: ZERO, RPC: None, UREG: UZERO, PRED: TRUE, UPRED: TRUE}
REGISTERS = 352
# Behind the registers, each memory is one bit.
SHARED, LOCAL, VOTED, GLOBAL = range(REGISTERS, REGISTERS + len(Memory))

PHASE_CHECK = "SYNCS.PHASECHK"  # a wait at an mbarrier
# What `program.prepare` adds to the modifiers of a store that initialises mbarriers.
INITIALISES = "MBARRIER"
_WGMMA = re.compile(r"64x(\d+)x(\d+)")  # columns and K
_RANKS = ("1D", "2D", "3D", "4D", "5D")
HALVES = ("16dp32bit_t0_t15", "16dp32bit_t16_t31")  # of a tcgen05.ld or .st.16x32bx2: its threads


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Bit sets over the numbers above; `kills` is the part of `writes` that is certain."""

    reads: int  # everything that its results depend on
    roots: int  # what decides which threads run it, where they go and what they access
    writes: int
    kills: int


def is_control(instruction: SassInstruction) -> bool:
    """Return whether an instruction may change which threads run: it ends a basic block."""
    return instruction.row.control or control_word(instruction) == PHASE_CHECK


def steers(instruction: SassInstruction) -> bool:
    """Return whether an instruction may decide where the threads of a warp go, whenever others do something."""
    return instruction.row.control or instruction.opcode == "BMOV"


def control_word(instruction: SassInstruction) -> str:
    """Return the key of a control instruction's handler: the opcode, or PHASE_CHECK."""
    return PHASE_CHECK if instruction.opcode == "SYNCS" and instruction.has("PHASECHK") else instruction.opcode


def operand_number(operand: Operand) -> int | None:
    """Return the register's number; None for a zero register or another kind of operand."""
    if operand.kind not in BASES or operand.number == NONE[operand.kind]:
        return None
    return BASES[operand.kind] + operand.number


def numbers_in(registers: int) -> list[int]:
    """Return the registers in a bit set."""
    registers &= (1 << REGISTERS) - 1
    numbers = []
    while registers:
        lowest = registers & -registers
        numbers.append(lowest.bit_length() - 1)
        registers ^= lowest
    return numbers


def reading_guard(instruction: SassInstruction) -> tuple[int, bool] | None:
    """Return the guard of an instruction that reads only the lanes that the guard selects."""
    return None if instruction.row.across_lanes else writing_guard(instruction)


def writing_guard(instruction: SassInstruction) -> tuple[int, bool] | None:
    """Return the guard of an instruction, which writes only the lanes that the guard selects."""
    guard = instruction.guard
    register = operand_number(guard) if guard is not None else None
    return None if guard is None or register is None else (register, guard.negated)


def reads_by_lane(instruction: SassInstruction) -> dict[tuple[int, bool], int]:
    """Return the registers that are read only in lanes that a predicate, or its opposite, selects: by `reading_guard`.

    Of a function of predicates, those that another one may leave without influence: P0 in P0 | !P1, where P1 is false.
    nvcc writes so the loops that bring a TMA's operands to uniform registers.
    """
    guard, operands = reading_guard(instruction), instruction.operands
    if guard is not None:
        return {guard: (1 << REGISTERS) - 1 & ~(1 << guard[0])}
    if instruction.opcode != "PLOP3" or len(operands) < 6 or operand_number(operands[1]) is not None:
        return {}
    (first, second), third = map(operand_number, operands[2:4]), operands[4]
    if first is None or second is None or first == second or operand_number(third) is not None or third.negated:
        return {}
    # The result by the first and the second predicate: the third one is PT, which has the odd entries of the table.
    table = [[operands[5].number >> (4 * a + 2 * b + 1) & 1 for b in (0, 1)] for a in (0, 1)]
    reads = {}
    for value in (0, 1):  # of the one that decides whether the other has an influence
        if table[0][1 - value] == table[1][1 - value]:
            reads[second, operands[3].negated ^ (not value)] = 1 << first
        if table[1 - value][0] == table[1 - value][1]:
            reads[first, operands[2].negated ^ (not value)] = 1 << second
    return reads


def predicate_set(instruction: SassInstruction) -> tuple[int, bool] | None:
    """Return the predicate that an instruction sets to a constant in all lanes, and the constant: PLOP3 of PT alone."""
    operands = instruction.operands
    if instruction.opcode != "PLOP3" or instruction.guard is not None or len(operands) < 6:
        return None
    written, sources = operand_number(operands[0]), operands[2:5]
    if written is None or any(operand_number(source) is not None for source in sources):
        return None
    entry = sum(1 << place for place, source in zip((2, 1, 0), sources, strict=True) if not source.negated)
    return written, bool(operands[5].number >> entry & 1)


def results(instruction: SassInstruction) -> int:
    """Return how many leading operands are written."""
    opcode, row, operands = instruction.opcode, instruction.row, instruction.operands
    kinds = [operand.kind for operand in operands]
    if not row.results or not operands or (opcode == "SYNCS" and kinds[0] == MEMORY):
        return 0
    if row.carries:
        return 1 + _leading_predicates(operands[1:])
    if opcode == "USETMAXREG":
        return _leading_predicates(operands)
    return 2 if row.results == 2 or _register_and_predicate(opcode, kinds) else 1


def _leading_predicates(operands: Iterable[Operand]) -> int:
    return sum(1 for _ in takewhile(lambda o: o.kind in (PRED, UPRED) and not o.negated, operands))


def _register_and_predicate(opcode: str, kinds: list[str]) -> bool:
    """Return whether the first two operands are a predicate and a register, in either order, that are both written."""
    if len(kinds) < 2 or opcode in ("FCHK", "DCHK", "SYNCS"):  # these read the operand after the predicate
        return False
    if kinds[0] in (PRED, UPRED):
        return kinds[1] in (REG, UREG)
    votes = opcode in ("VOTE", "VOTEU") and len(kinds) > 2
    return kinds[1] in (PRED, UPRED) and (votes or opcode == "B2R")


FORMATS = ("F16", "BF16", "F32", "F64")
# Registers of what a lane stores, or changes in memory, by modifier.
WORDS = {
    **dict.fromkeys(("64", "S64", "F64", "F32x2", "F16x4", "BF16x4"), 2),
    **dict.fromkeys(("128", "F32x4", "F16x8", "BF16x8"), 4),
}


def words_moved(instruction: SassInstruction) -> int:
    """Return how many registers hold what a lane stores, or what an atomic operation takes and returns."""
    return next((WORDS[word] for word in instruction.modifiers if word in WORDS), 1)


def width(instruction: SassInstruction) -> int:
    """Return how many consecutive registers the result takes."""
    opcode = instruction.opcode
    if instruction.row.products:
        return _matrix_width(instruction)
    if opcode == "LDSM":
        count = int(instruction.modifiers[-1]) if instruction.modifiers[-1].isdigit() else 1
        return 2 * count if instruction.has("MT1616") else count  # a matrix of 16 x 16 takes two registers
    if opcode == "LDTM":
        return tensor_registers(instruction)
    if instruction.row.atomic or instruction.has("128"):
        return words_moved(instruction)
    if opcode in ("I2F", "F2F", "FRND"):  # the result's format comes before the operand's
        return 2 if next((word for word in instruction.modifiers if word in FORMATS), "") == "F64" else 1
    wide = (
        instruction.has("S64", "U64") if opcode in ("F2I", "I2I", "IMNMX", "UIMNMX") else instruction.has("64", "WIDE")
    )
    wide |= opcode == "SYNCS" and instruction.has("ARRIVE")
    wide |= instruction.row.pairs or (opcode == "CS2R" and not instruction.has("32"))
    return 2 if wide else 1


def tensor_registers(instruction: SassInstruction) -> int:
    """Return how many registers an LDTM writes or an STTM reads: 32 bits of each lane, times .xN, times its shape."""
    times = next((int(word[1:]) for word in instruction.modifiers if word[0] == "x"), 1)
    # 16 lanes of 128 or 256 bits are 2 or 4 registers in each of 32 threads.
    return times * (4 if instruction.has("16dp256bit") else 2 if instruction.has("16dp128bit") else 1)


def wgmma_shape(instruction: SassInstruction) -> tuple[int, int]:
    """Return the columns and K of a wgmma; 0 and 0 if they are not known."""
    shape = next((match for word in instruction.modifiers if (match := _WGMMA.fullmatch(word))), None)
    return (int(shape[1]), int(shape[2])) if shape else (0, 0)


def _matrix_width(instruction: SassInstruction) -> int:
    shape = next((word for word in instruction.modifiers if word[0].isdigit()), "")
    half = instruction.has("F16") and not instruction.has("F32")
    if columns := wgmma_shape(instruction)[0]:
        # 64 x N results in 128 threads are N / 2 for each, in 32 bits; two halves share a register.
        return columns // (4 if half else 2)
    if instruction.opcode == "DMMA":
        return 8 if shape.startswith("16") else 4
    if instruction.opcode in ("IMMA", "BMMA"):
        return 4 if shape.startswith("16") else 2
    return 2 if half else 4


def source_width(instruction: SassInstruction, position: int) -> int:
    """Return how many neighbouring registers an operand is read from."""
    row = instruction.row
    if "F32" in instruction.operands[results(instruction) + position].suffixes:
        return 1  # of two packed floats: one for both
    if row.stored or row.atomic:
        return words_moved(instruction)
    product = instruction.opcode in ("IMAD", "UIMAD") and instruction.has("WIDE", "HI") and position == 2
    return 2 if row.pairs or product or instruction.has(*row.wide) else 1


def effects(instruction: SassInstruction) -> Effects:
    """Return what the instruction reads and writes."""
    cached = instruction.memo.get("effects")
    if not isinstance(cached, Effects):
        cached = instruction.memo["effects"] = _effects(instruction)
    return cached


def _effects(instruction: SassInstruction) -> Effects:
    row, count = instruction.row, results(instruction)
    guard = _registers(instruction.guard)
    addresses = reads = guard
    for position, operand in enumerate(instruction.operands[count:]):
        if operand.kind in (MEMORY, CONSTANT, TENSOR, INSTRUCTION):
            bits = _address_registers(operand, 2 if row.names_pairs else 1)
            addresses |= bits if operand.kind == MEMORY else 0
        else:
            bits = _registers(operand, source_width(instruction, position))
            # The predicate of cp.async: whether a lane reads or writes zeros.
            addresses |= bits if row.copy is Copy.ASYNC and operand.kind == PRED else 0
        reads |= bits
    if row.copy is Copy.NO:  # the source of a copy is not followed
        reads |= row.reads << REGISTERS
    writes = _written(instruction, count)
    if row.writes != Memory.VOTED or instruction.has("RED"):  # other barriers count no votes
        writes |= row.writes << REGISTERS
    if row.control or row.synchronises or instruction.has(INITIALISES):
        roots = reads
    elif row.addressed:
        roots = addresses
    else:  # an opcode without a row may access shared memory if it executes
        roots = guard if row.may_be_counted else 0
    half = instruction.has(*HALVES)  # of a warp's lanes, which alone write
    kills = 0 if instruction.guard or half else writes & ((1 << REGISTERS) - 1)
    return Effects(reads=reads, roots=roots, writes=writes, kills=kills)


def coordinates(instruction: SassInstruction) -> int:
    """Return how many coordinates a tensor copy takes: one per dimension, or a column and four rows."""
    if instruction.has("GATHER4", "SCATTER4"):
        return 5
    return next((int(word[0]) for word in instruction.modifiers if word in _RANKS), 0)


def address_reads(instruction: SassInstruction) -> int:
    """Return what decides whether and where an instruction accesses memory."""
    wide = 1
    if instruction.row.tensor:  # all but the data that STTM stores
        data = functools.reduce(operator.or_, (_registers(o) for o in instruction.operands if o.kind == REG), 0)
        return effects(instruction).reads & ~data
    if instruction.row.shared is Shared.WGMMA and len(instruction.operands) > 1:
        wide = 4  # the two descriptors; that of A is unused if A is in registers
    elif instruction.opcode == "UTMALDG":  # target, barrier and coordinates
        wide = 2 + coordinates(instruction)
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    guard = _registers(instruction.guard)
    return functools.reduce(operator.or_, (_address_registers(operand, wide) for operand in memory), guard)


def order_reads(instruction: SassInstruction) -> int:
    """Return what decides whether an instruction orders accesses to shared memory, or where a copy reads it."""
    row = instruction.row
    if row.tensor or row.shared is Shared.WGMMA:
        return address_reads(instruction)
    reads = _registers(instruction.guard)
    if instruction.opcode in ("NOP", "ELECT"):  # what is left of a __syncwarp(), and who starts a copy
        return reads
    if not row.orders or row.copies_to_shared:
        return 0
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    if row.copy is Copy.TENSOR and memory:  # the address in shared memory is the first register, the map two
        return reads | _address_registers(memory[0], 1) | _address_registers(memory[1], 2)
    for operand in memory[instruction.opcode != "UMEMSETS" :]:
        reads |= _address_registers(operand, 1) | _registers(instruction.operands[-1])
    return reads


def _written(instruction: SassInstruction, count: int) -> int:
    if instruction.opcode in ("R2P", "UR2P", "UR2UP"):
        mask, kind = instruction.operands[-1].number, PRED if instruction.opcode == "R2P" else UPRED
        return sum(1 << BASES[kind] + bit for bit in range(7) if mask >> bit & 1)
    wide = width(instruction)
    bits = 0
    for operand in instruction.operands[:count]:
        bits |= _registers(operand, wide)
    return bits


def _registers(operand: Operand | None, wide: int = 1) -> int:
    """Return the `count` consecutive registers of an operand; one for a predicate, all for PR."""
    if operand is None:
        return 0
    if operand.kind == "SR" and operand.text in ("PR", "UPR"):
        return 0x7F << BASES[UPRED if operand.text == "UPR" else PRED]
    first = operand_number(operand)
    if first is None:
        return 0
    neighbours = 1 if operand.kind in (PRED, UPRED) else 2 if "64" in operand.suffixes else wide
    return (1 << neighbours) - 1 << first


def _address_registers(operand: Operand, wide: int) -> int:
    return functools.reduce(operator.or_, (_registers(term, wide) for term in operand.terms), 0)
