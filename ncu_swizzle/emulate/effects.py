"""What each instruction reads and writes: numbered registers, and each memory as a whole.

R0-R254 are 0-254, UR0-UR79 are 256-335, P0-P6 are 336-342, UP0-UP6 are 344-350; zero registers have none.
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
    TENSOR,
    TRUE,
    UPRED,
    UREG,
    UZERO,
    ZERO,
    Operand,
    SassInstruction,
)

# Opcodes by what they do with shared memory. One that is in no list may access it: its wavefronts are unknown.


# ncu counts wavefronts for these.
COUNTED = frozenset(("LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS"))
WGMMA = frozenset(("HGMMA", "QGMMA", "IGMMA", "BGMMA"))
# tcgen05.mma and .cp (Blackwell): they read shared memory, and no count of ncu is known (docs/blackwell.md).
UMMA = frozenset(("UTCHMMA", "UTCIMMA", "UTCOMMA", "UTCQMMA"))
TENSOR_READS = UMMA | {"UTCCP"}
# For these it does if a lane's address is in the block's own shared memory.
GENERIC = frozenset(("LD", "ST", "ATOM"))
# These access shared memory, and ncu counts no wavefronts for them (docs/wavefronts.md).
_UNCOUNTED = """
    ARRIVES REDAS STAS SYNCS UBLKCP UBLKRED UGETNEXTWORKID UTCBAR UTMALDG UTMAREDG UTMASTG
"""
UNCOUNTED = frozenset(_UNCOUNTED.split())

# These compute, move registers, order, or access other memories.
_ELSEWHERE = """
    ACQBULK ACQSHMINIT ATOMG B2R BAR BMMA BMOV BMSK BPT BRA BREAK BREV BRX BRXU BSSY BSYNC CALL CCTL CCTLL CCTLT
    CGAERRBAR CREDUX CS2R CS2UR DADD DEPBAR DFMA DMMA DMNMX DMUL DSETP ELECT ENDCOLLECTIVE ERRBAR EXIT F2F F2FP F2I
    F2IP FADD FADD2 FADD32I FCHK FENCE FFMA FFMA2 FFMA32I FLO FMNMX FMNMX3 FMUL FMUL2 FMUL32I FRND FSEL FSET FSETP
    FSWZADD GETLMEMBASE HADD2 HADD2_32 HFMA2 HFMA2_32 HMMA HMNMX2 HMUL2 HMUL2_32 HSET2 HSETP2 I2F I2FP I2I I2IP IABS
    IADD IADD2 IADD3 IADD32I IDP IDP4A IMAD IMMA IMNMX IMUL IMUL32I ISCADD ISCADD32I ISETP JMP JMX JMXU KILL LDC
    LDCU LDG LDGDEPBAR LDGMC LDL LDTM LEA LEPC LOP LOP3 LOP32I MATCH MEMBAR MOV MOV32I MOVM MUFU NANOSLEEP NOP OMMA P2R
    PLOP3 PMTRIG POPC PREEXIT PRMT PSETP QMMA QSPC R2B R2P R2UR RED REDG REDUX RET RPCMOV RTT S2R S2UR SEL SETCTAID
    SETLMEMBASE SGXT SHF SHFL SHL SHR STG STL STTM SUATOM SULD SUQUERY SURED SUST TEX TLD TLD4 TMML TXD TXQ UBLKPF UBMSK
    UBREV UCGABAR_ARV UCGABAR_WAIT UCLEA UF2F UF2FP UF2I UF2IP UFADD UFFMA UFLO UFMNMX UFMUL UFRND UFSEL UFSET
    UFSETP UI2F UI2FP UI2I UI2IP UIABS UIADD3 UIDP UIMAD UIMNMX UISETP ULDC ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UMUFU
    UP2R UP2UR UPLOP3 UPOPC UPRMT UPSETP UR2P UR2UP USEL USETMAXREG USETSHMSZ USGXT USHF USHL USHR USTGR UTCATOMSWS
    UTCSHIFT UTMACCTL UTMACMDFLUSH UTMAPF UVIADD UVIADDMNMX UVIMNMX UVIMNMX3 UVIRTCOUNT UVOTE UWARPGROUP VABSDIFF
    VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 VOTE VOTEU WARPGROUP WARPSYNC YIELD
"""
ELSEWHERE = frozenset(_ELSEWHERE.split())
_MAY_BE_COUNTED = COUNTED | WGMMA | TENSOR_READS | GENERIC
MODELLED = _MAY_BE_COUNTED | UNCOUNTED | ELSEWHERE


def may_be_counted(opcode: str) -> bool:
    """Return whether ncu may count wavefronts for an opcode."""
    return opcode in _MAY_BE_COUNTED or opcode not in MODELLED


def always_accesses(opcode: str) -> bool:
    """Return whether an opcode is reported as an access to shared memory even if its address was never seen."""
    return opcode not in GENERIC and may_be_counted(opcode)


BASES = {REG: 0, UREG: 256, PRED: 336, UPRED: 344}
NONE = {REG: ZERO, UREG: UZERO, PRED: TRUE, UPRED: TRUE}
REGISTERS = 352
# Contents of shared, local and global memory; the result that BAR.RED leaves for B2R.
SHARED, LOCAL, VOTED, GLOBAL = 352, 353, 354, 355

# Instructions that end a basic block because they can change which threads run.
PHASE_CHECK = "SYNCS.PHASECHK"  # a wait at an mbarrier
_CONTROL = """
    BAR BPT BRA BREAK BRX BRXU BSSY BSYNC CALL ENDCOLLECTIVE EXIT JMP JMX JMXU KILL RET UCGABAR_ARV UCGABAR_WAIT
    WARPSYNC
"""
CONTROL = frozenset((*_CONTROL.split(), PHASE_CHECK))
# Copies: each address operand names two registers.
_TO_SHARED = frozenset(("REDAS", "STAS", "UBLKCP", "UBLKRED", "UTMALDG"))
_TWO_REGISTERS = _TO_SHARED | TENSOR_READS
_TO_GLOBAL = frozenset(("UBLKCP", "UBLKRED", "UTMAREDG", "UTMASTG"))
# What `program.prepare` adds to the modifiers of a store that initialises mbarriers.
INITIALISES = "MBARRIER"
# They decide when other threads go on, or what others may allocate.
_SYNCHRONISING = _TO_SHARED | {"ARRIVES", "SYNCS", "UGETNEXTWORKID", "UTCATOMSWS", "UTCBAR"}
ADDRESSED = COUNTED | GENERIC  # what they access in shared memory is decided by the lanes' addresses
# What a tile passes on its way from a tensor to the tensor cores, and their results on their way back.
TENSOR_MEMORY = TENSOR_READS | {"LDTM", "STTM", "UTCSHIFT"}
TILES = WGMMA | TENSOR_MEMORY | {"UTMALDG"}
# What orders accesses to shared memory, or reads it for a copy; control instructions and mbarriers aside.
_ORDERING = "DEPBAR FENCE LDGDEPBAR MEMBAR UBLKCP UBLKRED UMEMSETS UTMACMDFLUSH UTMAREDG UTMASTG WARPGROUP"
ORDERING = frozenset(_ORDERING.split())
_RANKS = ("1D", "2D", "3D", "4D", "5D")
GLOBAL_ACCESS = frozenset(("LDG", "STG", "RED", "REDG", "ATOM", "ATOMG", "LDGSTS", "LD", "ST"))
LOCAL_ACCESS = frozenset(("LDL", "STL"))
_NO_RESULT = """
    ACQBULK ACQSHMINIT ARRIVES CCTL CCTLL CCTLT CGAERRBAR DEPBAR ERRBAR FENCE LDGDEPBAR LDGSTS MEMBAR NANOSLEEP NOP
    PMTRIG PREEXIT RED REDAS REDG SETCTAID SETLMEMBASE ST STAS STG STL STS STSM STTM SURED SUST SYNCSU UBLKCP UBLKPF
    UBLKRED UGETNEXTWORKID USTGR UTCBAR UTCCP UTCHMMA UTCIMMA UTCMXQMMA UTCOMMA UTCQMMA UTCSHIFT UTMACCTL
    UTMACMDFLUSH UTMALDG UTMAPF UTMAREDG UTMASTG UWARPGROUP WARPGROUP YIELD
"""
NO_RESULT = frozenset(_NO_RESULT.split()) | CONTROL
_TWO_PREDICATES = frozenset(
    ("ISETP", "FSETP", "DSETP", "HSETP2", "UISETP", "UFSETP", "PSETP", "UPSETP", "PLOP3", "UPLOP3", "QSPC", "ELECT")
)
_CARRIES = frozenset(("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD", "IADD"))
MATRIX = frozenset(("HMMA", "IMMA", "BMMA", "DMMA")) | WGMMA
EXCHANGES = frozenset(("CREDUX", "ELECT", "LDSM", "MATCH", "R2UR", "REDUX", "SHFL", "STSM", "VOTE", "VOTEU"))
# Opcodes that read the registers of lanes other than their own.
ACROSS_LANES = CONTROL | MATRIX | EXCHANGES
_PAIRS = frozenset(("DADD", "DMUL", "DFMA", "DMNMX"))
PACKED = frozenset(("FADD2", "FMUL2", "FFMA2"))  # of two floats in neighbouring registers
HALVES = ("16dp32bit_t0_t15", "16dp32bit_t16_t31")  # of a tcgen05.ld or .st.16x32bx2: its threads
_STORED = frozenset(("ATOM", "ATOMS", "STS", "ST", "STL", "STG"))
_WIDE_SOURCES = {
    "I2F": ("U64", "S64"),
    "F2I": ("F64",),
    "MATCH": ("U64",),
    **dict.fromkeys(("IADD", "IADD3", "UIADD3", "MOV", "UMOV"), ("64",)),
}


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Bit sets over the numbers above; `kills` is the part of `writes` that is certain."""

    reads: int  # everything that its results depend on
    roots: int  # what decides which threads run it, where they go and what they access
    writes: int
    kills: int


def control_word(instruction: SassInstruction) -> str:
    """Return the opcode, or PHASE_CHECK: what a control instruction's handler is found by."""
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
    """Return the guard of an instruction that reads no lanes but those that the guard selects."""
    guard = instruction.guard
    register = operand_number(guard) if guard is not None else None
    if guard is None or register is None or instruction.opcode in ACROSS_LANES:
        return None
    return register, guard.negated


def results(instruction: SassInstruction) -> int:
    """Return how many leading operands are written."""
    opcode, operands = instruction.opcode, instruction.operands
    kinds = [operand.kind for operand in operands]
    if opcode in NO_RESULT or not operands or (opcode == "SYNCS" and kinds[0] == MEMORY):
        return 0
    if opcode in _CARRIES:
        return 1 + _leading_predicates(operands[1:])
    if opcode == "USETMAXREG":
        return _leading_predicates(operands)
    return 2 if opcode in _TWO_PREDICATES or _register_and_predicate(opcode, kinds) else 1


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


def width(instruction: SassInstruction) -> int:
    """Return how many consecutive registers the result takes."""
    opcode = instruction.opcode
    if opcode in MATRIX:
        return _matrix_width(instruction)
    if opcode == "LDSM":
        count = int(instruction.modifiers[-1]) if instruction.modifiers[-1].isdigit() else 1
        return 2 * count if instruction.has("MT1616") else count  # a matrix of 16 x 16 takes two registers
    if opcode == "LDTM":
        return tensor_registers(instruction)
    if instruction.has("128"):
        return 4
    if opcode in ("I2F", "F2F", "FRND"):
        return 2 if instruction.modifiers[:1] == ("F64",) else 1
    wide = instruction.has("S64", "U64") if opcode in ("F2I", "I2I") else instruction.has("64", "WIDE")
    wide |= opcode == "SYNCS" and instruction.has("ARRIVE")
    wide |= opcode in _PAIRS | PACKED or (opcode == "CS2R" and not instruction.has("32"))
    return 2 if wide else 1


def tensor_registers(instruction: SassInstruction) -> int:
    """Return how many registers an LDTM writes or an STTM reads: 32 bits of each lane, times .xN, times its shape."""
    times = next((int(word[1:]) for word in instruction.modifiers if word[0] == "x"), 1)
    # 16 lanes of 128 or 256 bits are 2 or 4 registers in each of 32 threads.
    return times * (4 if instruction.has("16dp256bit") else 2 if instruction.has("16dp128bit") else 1)


def _matrix_width(instruction: SassInstruction) -> int:
    shape = next((word for word in instruction.modifiers if word[0].isdigit()), "")
    half = instruction.has("F16") and not instruction.has("F32")
    if match := re.fullmatch(r"64x(\d+)x\d+", shape):
        columns = int(match[1])
        # 64 x N results in 128 threads are N / 2 for each, in 32 bits; two halves share a register.
        return columns // (4 if half else 2)
    if instruction.opcode == "DMMA":
        return {"16816": 8, "1688": 8, "1684": 8}.get(shape, 4)
    if instruction.opcode in ("IMMA", "BMMA"):
        return 4 if shape.startswith("16") else 2
    return 2 if half else 4


def source_width(instruction: SassInstruction, position: int) -> int:
    """Return how many neighbouring registers an operand is read from."""
    opcode = instruction.opcode
    if opcode in _STORED:
        return 4 if instruction.has("128") else 2 if instruction.has("64") else 1
    wide = opcode in (*_PAIRS, "DSETP", "F2F")
    wide |= opcode in PACKED and "F32x2" in instruction.operands[1 + position].suffixes
    wide |= opcode in ("IMAD", "UIMAD") and instruction.has("WIDE", "HI") and position == 2
    wide |= opcode in _WIDE_SOURCES and instruction.has(*_WIDE_SOURCES[opcode])
    return 2 if wide else 1


def effects(instruction: SassInstruction) -> Effects:
    """Return what the instruction reads and writes."""
    known = instruction.remembered.get("effects")
    if not isinstance(known, Effects):
        known = instruction.remembered["effects"] = _effects(instruction)
    return known


def _effects(instruction: SassInstruction) -> Effects:
    opcode, count = control_word(instruction), results(instruction)
    guard = _registers(instruction.guard)
    addresses = reads = guard
    for position, operand in enumerate(instruction.operands[count:]):
        if operand.kind in (MEMORY, CONSTANT, TENSOR, INSTRUCTION):
            bits = _address_registers(operand, 2 if opcode in _TWO_REGISTERS else 1)
            addresses |= bits if operand.kind == MEMORY else 0
        else:
            bits = _registers(operand, source_width(instruction, position))
            # The predicate of cp.async: whether a lane reads or writes zeros.
            addresses |= bits if opcode == "LDGSTS" and operand.kind == PRED else 0
        reads |= bits
    word = "BAR.RED" if opcode == "BAR" and instruction.has("RED") else opcode
    memories_read, memories_written = _memories(word)
    reads |= memories_read
    writes = _written(instruction, count) | memories_written
    if opcode in CONTROL or opcode in _SYNCHRONISING or opcode == "BMOV" or instruction.has(INITIALISES):
        roots = reads
    elif opcode in ADDRESSED:
        roots = addresses
    else:  # an opcode in no list may access shared memory if it executes
        roots = guard if may_be_counted(opcode) else 0
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
    if instruction.opcode in TENSOR_MEMORY:  # all but the data that STTM stores
        data = functools.reduce(operator.or_, (_registers(o) for o in instruction.operands if o.kind == REG), 0)
        return effects(instruction).reads & ~data
    if instruction.opcode in WGMMA and len(instruction.operands) > 1:
        wide = 4  # the two descriptors; that of A is unused if A is in registers
    elif instruction.opcode == "UTMALDG":  # target, barrier and coordinates
        wide = 2 + coordinates(instruction)
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    guard = _registers(instruction.guard)
    return functools.reduce(operator.or_, (_address_registers(operand, wide) for operand in memory), guard)


def order_reads(instruction: SassInstruction) -> int:
    """Return what decides whether an instruction orders accesses to shared memory, or what a copy reads there."""
    if instruction.opcode in WGMMA | TENSOR_MEMORY:
        return address_reads(instruction)
    reads = _registers(instruction.guard)
    if instruction.opcode in ("NOP", "ELECT"):  # what is left of a __syncwarp(), and who starts a copy
        return reads
    if instruction.opcode not in ORDERING or instruction.opcode in _TO_SHARED:
        return 0
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    if (
        instruction.opcode.startswith("UTMA") and memory
    ):  # the address in shared memory is the first register, the map two
        return reads | _address_registers(memory[0], 1) | _address_registers(memory[1], 2)
    for operand in memory[instruction.opcode != "UMEMSETS" :]:
        reads |= _address_registers(operand, 1) | _registers(instruction.operands[-1])
    return reads


# The memories that opcodes read and write as a whole.
_MEMORIES_READ = {
    SHARED: frozenset(("LDS", "ATOMS", "LD", "LDSM", "ATOM")),
    GLOBAL: frozenset(("LDG", "LD", "ATOMG", "ATOM")),
    LOCAL: frozenset(("LDL", "LD")),
    VOTED: frozenset(("B2R",)),
}
_MEMORIES_WRITTEN = {
    SHARED: frozenset(("STS", "ATOMS", "ST", "LDGSTS", "STSM", "ATOM", "ARRIVES")) | _TO_SHARED,
    GLOBAL: frozenset(("STG", "ST", "ATOMG", "ATOM", "RED", "REDG")) | _TO_GLOBAL,
    LOCAL: frozenset(("STL", "ST")),
    VOTED: frozenset(("BAR.RED",)),
}


@functools.lru_cache(maxsize=1024)  # opcodes
def _memories(word: str) -> tuple[int, int]:
    """Return the memories that an opcode reads and writes as a whole."""
    read, written = (
        sum(1 << memory for memory, opcodes in accessed.items() if word in opcodes)
        for accessed in (_MEMORIES_READ, _MEMORIES_WRITTEN)
    )
    return read, written


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
    """Return the registers of an operand, so many neighbours from its own on; of a predicate one, of PR all."""
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
