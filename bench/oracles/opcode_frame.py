"""The kernel around a sampled instruction: it sets all registers, and what lanes access, and stores them afterwards.

One warp. Rows of 32 words are loaded and stored: registers, predicates, uniform registers, shared memory. Addresses of
what accesses memory are made by the host, which puts them into the registers that the instruction names: 16 bytes for
each lane, in shared memory or in an array of its own.
"""

from __future__ import annotations

import functools
import io
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# Compilers use registers up to R252, and an H100 refuses R253: the two pointers are in front of it.
REGISTERS, UNIFORM, LANES, DATASETS = 244, 52, 32, 6
TO, FROM = 244, 246
PREDICATES, UPREDICATES, UNIFORMS, SHARED, ROWS = 250, 251, 256, 320, 384  # rows of what is stored, 32 words each
GLOBAL = -1  # in place of a row: the array that lanes access
SET = 256 + 60  # rows that are drawn together
PARAMETERS, GIVEN = 0x210, 0x220  # in constant bank 0: both pointers, then 60 words
STUB = """
struct Words { unsigned u[60]; };
extern "C" __global__ void k(float *in, float *out, Words w) {
    float r[244], stack[256];
    for (int i = 0; i < 256; i++) stack[i] = in[i * w.u[0]];
    #pragma unroll
    for (int i = 0; i < 244; i++) r[i] = in[i * 32 + threadIdx.x];
    #pragma unroll
    for (int n = 0; n < 6; n++)
        #pragma unroll
        for (int i = 0; i < 244; i++) r[i] = r[i] * r[(i + 7) % 244] + r[(i + 13) % 244];
    #pragma unroll
    for (int i = 0; i < 244; i++) {
        unsigned word = w.u[i % 60];
        out[i * 32 + threadIdx.x] = r[i] + __uint_as_float(word) + stack[word % 256];
    }
}
"""
Word = tuple[int, int]
EDGES = (
    0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
    0x00800000, 0x7F7FFFFF, 0x3C003C00, 0x7C00FC00, 0x00010001,
)  # fmt: skip

# ------------------------------------------------------------------------------------------ the kernel


def timed(word: Word, stall: int = 15, write: int = 7, read: int = 7, wait: int = 0) -> Word:
    """Return an instruction with other control bits: cycles, barriers that it sets, and those that it waits for."""
    control = stall | write << 5 | read << 8 | wait << 11
    return word[0], word[1] & ((1 << 41) - 1) | control << 41


NOP, EXIT = (0x7918, 0), (0x794D, 0x3800000)
WAIT = timed(NOP, wait=0x3F)


def address(low: int, constant: int) -> list[Word]:
    """Return what puts a pointer of bank 0 plus 4 bytes per lane (R0) into a register pair.

    LDC and ULDC alone read constants on an H100, whose other instructions have no such operand.
    """
    pointer = timed((constant // 4 << 40 | 0xFF << 24 | low << 16 | 0x7B82, 0xA00), write=0)  # LDC.64
    return [pointer, WAIT, timed((4 << 32 | low << 16 | 0x7825, 0x78E0000 | low))]


def load(register: int, row: int) -> Word:
    return timed((row * 128 << 40 | 0x3C << 32 | FROM << 24 | register << 16 | 0x7981, 0xC1E1900), write=0)


def store(register: int, row: int) -> Word:
    return timed((row * 128 << 40 | register << 32 | TO << 24 | 0x7986, 0xC10193C), read=1)


def uniform(register: int, constant: int, wide: bool = False) -> Word:
    return timed((constant // 4 << 40 | register << 16 | 0x7AB9, 0xA00 if wide else 0x800))


# ------------------------------------------------------------------------------------------ what accesses memory

SHARED_BYTES = (ROWS - SHARED) * 128  # that are set and stored, from RESERVED on
RESERVED = 0x400  # bytes of shared memory in front of a block's own
IN_SHARED, IN_GLOBAL, GLOBAL_BYTES = RESERVED + 0x1800, 0x400, 0x1000  # where lane 0 accesses them
# Local memory: rows of SHARED, LOCAL_WORDS of them from LOCAL on, below where the driver says that the stack begins.
STACK, LOCAL, IN_LOCAL, LOCAL_WORDS = 0x28, -0x300, -0x2E0, 32
STACK_HERE = 0xFFFDC0  # in place of what a driver says
STEP, IN_UNIFORM = 16, 0x100  # bytes from lane to lane; what uniform registers add
_SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
_GLOBAL = ("LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED", "REDG", "QSPC")
_LOCAL = ("LDL", "STL")
_IN_GLOBAL = re.compile(r"(?:desc\[UR(?P<desc>\d+)\])?\[R(?P<lanes>\d+)(?:\.64)?(?:\+(?P<plus>-?0x[0-9a-f]+))?\]")
_IN_SHARED = re.compile(r"\[(?:R(?P<lanes>\d+))?\+?(?:UR(?P<uniform>\d+|Z))?(?:\+(?P<plus>-?0x[0-9a-f]+))?\]")
# With one address for all lanes: their order does not matter.
_ALIKE = re.compile(r"LDS\b|ATOMS\.(ADD|MIN|MAX|AND|OR|XOR|POPC\.INC)\S* RZ,")


@dataclass(frozen=True)
class Access:
    """Which registers of a sample hold addresses, and what its texts add to them."""

    in_shared: re.Match[str] | None
    in_global: re.Match[str] | None
    in_local: re.Match[str] | None

    @classmethod
    def of(cls, text: str) -> Access | None:
        """Return how an instruction accesses memory; None if it does not, or in a way that is not sampled."""
        opcode = re.split(r"[. ]", re.sub(r"^@!?U?P\d ", "", text))[0]
        operands = text.split(opcode, 1)[1]
        in_global = _IN_GLOBAL.search(operands) if opcode in _GLOBAL else None
        in_shared = _IN_SHARED.search(operands) if opcode in _SHARED else None
        in_local = _IN_SHARED.search(operands) if opcode in _LOCAL else None
        if opcode == "LDGSTS":
            in_shared, in_global = _IN_SHARED.search(operands), _IN_GLOBAL.search(operands, operands.find("]"))
        if not (in_shared or in_global or in_local) or (opcode == "LDGSTS" and not (in_shared and in_global)):
            return None
        if in_local and (in_local["lanes"] is None or in_local["uniform"]):
            return None
        if in_shared and not in_shared["lanes"] and not re.search(_ALIKE, text):
            return None
        if in_shared and not -RESERVED <= int(in_shared["plus"] or "0", 16) <= 0x1800:
            return None
        return cls(in_shared, in_global, in_local)

    @property
    def descriptor(self) -> int | None:
        """The pair of uniform registers that the driver says how to set."""
        found = self.in_global["desc"] if self.in_global else None
        return None if found is None else int(found)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Rows that hold what the driver chose, and a sample does not change."""
        pair = () if self.descriptor is None else (UNIFORMS + self.descriptor, UNIFORMS + self.descriptor + 1)
        if self.in_local is None:
            return pair
        register, loaded = int(self.in_local["lanes"]), re.match(r"\S*\s+R(\d+),", self.in_local.string)
        return () if loaded and int(loaded[1]) <= register < int(loaded[1]) + 4 else (register,)

    def place(self, words: np.ndarray, given: np.ndarray, array: int) -> None:
        """Put addresses into the rows of registers, and among the words for uniform ones."""
        lanes = STEP * np.arange(LANES, dtype=np.int64)
        if self.in_shared:
            at = IN_SHARED - int(self.in_shared["plus"] or "0", 16)
            if (uniform := self.in_shared["uniform"]) not in (None, "Z"):
                own = IN_UNIFORM if self.in_shared["lanes"] else at
                given[int(uniform)], at = own, at - own
            if self.in_shared["lanes"]:
                words[int(self.in_shared["lanes"])] = at + lanes
        if self.in_global:
            at = array + IN_GLOBAL - int(self.in_global["plus"] or "0", 16) + lanes
            register = int(self.in_global["lanes"])
            words[register], words[register + 1] = at & 0xFFFFFFFF, at >> 32
        if self.in_local:  # the kernel does the same, with the stack of the driver
            words[int(self.in_local["lanes"])] = STACK_HERE + self.in_stack

    @property
    def in_stack(self) -> int:
        """What to add to where the stack begins."""
        assert self.in_local
        return IN_LOCAL - int(self.in_local["plus"] or "0", 16)


def stack_place(register: int, plus: int) -> list[Word]:
    """Return what puts an address in local memory into a register."""
    add = ((plus & 0xFFFFFFFF) << 32 | register << 24 | register << 16 | 0x7810, 0x7FFE0FF)
    return [timed((STACK // 4 << 40 | 0xFF << 24 | register << 16 | 0x7B82, 0x800), write=0), WAIT, timed(add), WAIT]


def local_rows(setting: bool) -> list[Word]:
    """Return what sets local memory from the rows of shared memory, or stores it to them; as `shared_rows`."""
    code, rows = stack_place(2, LOCAL), range(LOCAL_WORDS)
    if setting:
        code += [*[load(4 + row, SHARED + row) for row in rows], WAIT]
        code += [timed(((4 * row) << 40 | (4 + row) << 32 | 2 << 24 | 0x7387, 0x100800), read=1) for row in rows]
    else:
        code += [timed(((4 * row) << 40 | 2 << 24 | (4 + row) << 16 | 0x7983, 0x100800), write=0) for row in rows]
        code += [WAIT, *[store(4 + row, SHARED + row) for row in rows]]
    return [*code, WAIT]


def shared_place(register: int) -> list[Word]:
    """Return what puts 4 bytes per lane into a register; R0 holds the lane."""
    return [timed((4 << 32 | register << 16 | 0x7825, 0x78E00FF)), WAIT]  # IMAD.WIDE.U32 R, R0, 4, RZ


def load_shared(register: int, base: int, row: int) -> Word:
    return timed(((RESERVED + row * 128) << 40 | base << 24 | register << 16 | 0x7984, 0x800), write=0)


def store_shared(register: int, base: int, row: int) -> Word:
    return timed(((RESERVED + row * 128) << 40 | register << 32 | base << 24 | 0x7388, 0x800), read=1)


COPIED = [timed((0x79AF, 0), write=0), WAIT, timed((0x80000000791A, 0)), WAIT]  # LDGDEPBAR; DEPBAR.LE SB0, 0x0


def shared_rows(setting: bool) -> list[Word]:
    """Return what sets shared memory from its rows, or stores it to them; registers from 4 on are used."""
    code = [timed((0x7919, 0x2100), write=0), WAIT, *shared_place(2)]
    for first in range(0, ROWS - SHARED, 32):
        for row in range(first, first + 32):
            own = 4 + row - first
            code += [load(own, SHARED + row) if setting else load_shared(own, 2, row)]
        code += [WAIT]
        for row in range(first, first + 32):
            own = 4 + row - first
            code += [store_shared(own, 2, row) if setting else store(own, SHARED + row)]
        code += [WAIT]
    return code


WAYS = ("all", "without uniform predicates", "without uniform registers", "registers alone")


def program(sample: Word, way: str = WAYS[0], access: Access | None = None) -> bytes:
    """Return the machine code around an instruction; `way` is how much of the state is set and stored."""
    left_out = WAYS.index(way)
    memory = access is not None and access.in_shared is not None
    read_lane = timed((0x7919, 0x2100), write=0)  # S2R R0, SR_TID.X
    descriptor = uniform(60, 0x208, wide=True)
    code = [read_lane, WAIT, *address(FROM, PARAMETERS), *address(TO, PARAMETERS + 8), descriptor]
    code += shared_rows(setting=True) if memory else []
    code += local_rows(setting=True) if access is not None and access.in_local else []
    if left_out < 3:
        code += [load(0, PREDICATES), WAIT, timed((0x7F00007804, 0)), WAIT]  # R2P PR, R0, 0x7f
    for register in range(REGISTERS):  # a barrier counts to 63
        code += [load(register, register), *[WAIT] * (register % 32 == 31)]
    if left_out < 1:
        for number in range(7):  # UISETP.NE.AND UP, UPT, UR59, URZ, UPT
            compare = (0xFF3B00728C, 0xBF05270 | number << 17)
            code += [uniform(59, GIVEN + 4 * (UNIFORM + number)), WAIT, WAIT, timed(compare), WAIT]
    if left_out < 2:
        code += [uniform(register, GIVEN + 4 * register) for register in range(UNIFORM)] + [WAIT, WAIT]
    if access is not None and access.descriptor is not None:
        code += [uniform(access.descriptor, 0x208, wide=True), WAIT]
    if access is not None and access.in_local:
        code += stack_place(int(access.in_local["lanes"]), access.in_stack)
    write, read = sample[1] >> 46 & 7, sample[1] >> 49 & 7
    code += [WAIT, timed(sample, write=write, read=read, wait=0x3F), *[WAIT] * 12, descriptor, WAIT]
    code += COPIED if access is not None and access.in_shared and access.in_global else []
    for register in range(REGISTERS):
        code += [store(register, register), *[WAIT] * (register % 32 == 31)]
    code += [WAIT]
    if left_out < 3:
        code += [timed((0x7FFF007803, 0)), WAIT, store(0, PREDICATES)]  # P2R R0, PR, RZ, 0x7f
    if left_out < 1:
        code += [timed((0x7F3F3B7883, 0x8000000)), WAIT]  # UP2UR UR59, UPR, URZ, 0x7f
        code += [timed((59 << 32 | 240 << 16 | 0x7C02, 0x8000F00)), WAIT, store(240, UPREDICATES)]  # MOV R240, UR59
    for register in range(UNIFORM if left_out < 2 else 0):
        code += [timed((register << 32 | 1 + register << 16 | 0x7C02, 0x8000F00)), WAIT]
        code += [store(1 + register, UNIFORMS + register)]
    code += [WAIT, *shared_rows(setting=False)] if memory else []
    code += [WAIT, *local_rows(setting=False)] if access is not None and access.in_local else []
    return b"".join(struct.pack("<QQ", *word) for word in [*code, WAIT, timed(EXIT)])


def stub() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "stub.cu")
        source.write_text(STUB, encoding="utf-8")
        subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "-o", f"{folder}/stub.cubin", str(source)], check=True)
        return Path(folder, "stub.cubin").read_bytes()


def with_code(cubin: bytes, code: bytes) -> bytes:
    """Return the cubin with other machine code, and NOPs and EXITs behind it."""
    from elftools.elf.elffile import ELFFile  # where the rest is imported, it may be lacking

    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(".text.k")
    start, size = section["sh_offset"], section["sh_size"]
    if len(code) > size:
        raise SystemExit(f"the stub has {size} bytes of code, {len(code)} are needed")
    filled = code + struct.pack("<QQ", *timed(EXIT)) * ((size - len(code)) // 16)
    return cubin[:start] + filled + cubin[start + size :]


# ------------------------------------------------------------------------------------------ contents of registers


def contents(dataset: int, access: Access | None = None, array: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return what registers, predicates and memory hold, (ROWS, 32), and the words among the parameters, (60,).

    What is accessed gets addresses, in global memory behind `array`.
    """
    words, given = (each.copy() for each in _drawn(dataset))
    if access is not None:
        rows = [*range(ROWS - SHARED)]
        words[SHARED:] = np.roll(words[rows], 7, axis=0)
        access.place(words, given, array)
    return words, given


def array_before(dataset: int) -> np.ndarray:
    """Return what the array in global memory holds before a sample, as words."""
    return _drawn(dataset)[0][100 : 100 + GLOBAL_BYTES // 128].ravel()


@functools.cache
def _drawn(dataset: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(dataset)
    words = rng.integers(0, 1 << 32, (SET, LANES), dtype=np.uint32)
    given = rng.integers(0, 1 << 32, 60, dtype=np.uint32)
    edges = np.array(EDGES, np.uint32)
    if dataset == 1:
        words, given = (rng.normal(0, 100, each.shape).astype(np.float32).view(np.uint32) for each in (words, given))
    if dataset == 2:
        halves = rng.normal(0, 10, (*words.shape, 2)).astype(np.float16)
        words = halves.view(np.uint32)[..., 0]
    if dataset == 3:
        words, given = rng.choice(edges, words.shape), rng.choice(edges, 60)
    if dataset == 4:
        words, given = words % 70, given % 70
    if dataset == 5:  # doubles in even pairs
        doubles = rng.normal(0, 1000, (SET // 2, LANES)).view(np.uint64)
        words[0::2], words[1::2] = doubles & 0xFFFFFFFF, doubles >> 32
    given[UNIFORM : UNIFORM + 7] = rng.integers(0, 2, 7)  # what uniform predicates are
    return np.pad(words, ((0, ROWS - SET), (0, 0))), given


def before(words: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return all rows as they are stored if an instruction does nothing."""
    rows = words.copy()
    rows[PREDICATES] &= 0x7F
    rows[UPREDICATES] = sum(int(given[UNIFORM + number]) << number for number in range(7))
    rows[UNIFORMS : UNIFORMS + len(given)] = given[:, None]
    return rows
