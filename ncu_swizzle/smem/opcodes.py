"""What each opcode of SASS does: one row per opcode. Everything else asks the row.

A new opcode is a row here and, if its results matter, an expression in `operations`; what accesses memory or a barrier
has a step that `operands.executes` registers instead. What opcodes cost is measured: `cycles.units` holds it by pipe.
An opcode without a row may do anything: its wavefronts are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from ncu_swizzle.base import codes


class Shared(Enum):
    """How an opcode uses shared memory, and what ncu counts for it."""

    NO = "no"  # it computes, moves registers, orders, or accesses other memories
    LANES = "lanes"  # each lane gives an address; ncu counts wavefronts
    GENERIC = "generic"  # the same, for the lanes whose generic address is in the block's own shared memory
    WGMMA = "wgmma"  # tiles through descriptors; ncu counts wavefronts by the shape
    TCGEN05 = "tcgen05"  # tiles read by Blackwell's tensor cores; what ncu counts is not known (docs/blackwell.md)
    UNCOUNTED = "uncounted"  # accesses for which ncu counts no wavefronts (docs/wavefronts.md)
    UNKNOWN = "unknown"


class Copy(Enum):
    """A copy that ends later, by what it moves."""

    NO = "no"
    ASYNC = "cp.async"  # of each lane, from global to shared memory
    BULK = "cp.async.bulk"  # .S.G, .G.S, or .S.S within a cluster
    TENSOR = "cp.async.bulk.tensor"
    STORE = "st.async, red.async"  # of each lane, to another block; an mbarrier counts it


class Memory(IntFlag):
    """Memories whose contents are followed, each as a whole."""

    SHARED = 1
    LOCAL = 2
    VOTED = 4  # what BAR.RED leaves for B2R
    GLOBAL = 8


READ, WRITE, ATOMIC = "reads", "writes", "updates"


class UnknownResult(NamedTuple):
    """Why a result is unknown, in words, and the code of what depends on it."""

    words: str
    code: str


_CONSTANT = UnknownResult("a constant that was not given", codes.LAUNCH)
_RETURNED = UnknownResult("what an atomic operation returns", codes.TIMING)


@dataclass(frozen=True, kw_only=True, eq=False)  # an opcode has one row: compared, and hashed, as such
class Opcode:
    """One row."""

    name: str
    shared: Shared = Shared.NO
    reads: Memory = Memory(0)
    writes: Memory = Memory(0)
    atomic: bool = False  # reads, changes and writes a word at once
    matrix: bool = False  # ldmatrix and stmatrix: a lane's address is that of a row
    copy: Copy = Copy.NO
    results: int = 1  # leading operands that are written; whether there are more depends on their kinds
    carries: bool = False  # the predicates after the result are carries, and written too
    data: bool = False  # its results are data, or what only the hardware knows: they need no emulation
    opaque: bool = False  # its results are unknown whatever it reads
    cause: UnknownResult | None = None  # why its results are unknown
    wide: tuple[str, ...] = ()  # modifiers with which its sources are pairs of registers; "": always
    stored: bool = False  # its source is as wide as the access
    control: bool = False  # may change which threads run: ends a basic block
    synchronises: bool = False  # decides when other threads go on, or what others may allocate
    arrives: bool = False  # arrives or waits at a barrier of warps, or at an mbarrier
    orders: bool = False  # orders accesses to shared memory, or reads it for a copy
    exchanges: bool = False  # reads registers of other lanes
    products: bool = False  # multiplies matrices whose fragments are in the registers of all lanes
    tensor: bool = False  # reads or writes Blackwell's tensor memory
    pipe: str = ""  # of a sub-core, as `cycles.units` names it

    @cached_property
    def modelled(self) -> bool:
        return self.shared is not Shared.UNKNOWN

    @cached_property
    def addressed(self) -> bool:
        """Whether lanes' addresses decide what it accesses in shared memory."""
        return self.shared in (Shared.LANES, Shared.GENERIC)

    @cached_property
    def may_be_counted(self) -> bool:
        """Whether ncu may count wavefronts for it."""
        return self.shared not in (Shared.NO, Shared.UNCOUNTED)

    @cached_property
    def always_accesses(self) -> bool:
        """Whether it is reported as an access to shared memory even if its address was never seen."""
        return self.may_be_counted and self.shared is not Shared.GENERIC

    @cached_property
    def tile(self) -> bool:
        """Whether it reads tiles in shared memory through descriptors."""
        return self.shared in (Shared.WGMMA, Shared.TCGEN05)

    @cached_property
    def global_access(self) -> bool:
        """Whether each lane gives an address in global memory."""
        return bool((self.reads | self.writes) & Memory.GLOBAL) and self.copy in (Copy.NO, Copy.ASYNC)

    @cached_property
    def local_access(self) -> bool:
        """Whether each lane gives an address in local memory, and nowhere else."""
        return self.reads | self.writes == Memory.LOCAL

    @cached_property
    def copies_to_shared(self) -> bool:
        """Whether it is a copy to shared memory whose address is not each lane's."""
        return self.copy in (Copy.BULK, Copy.TENSOR, Copy.STORE) and bool(self.writes & Memory.SHARED)

    @cached_property
    def names_pairs(self) -> bool:
        """Whether each of its address operands names two registers."""
        return self.copies_to_shared or self.shared is Shared.TCGEN05

    @cached_property
    def pairs(self) -> bool:
        """Whether its registers are pairs, whatever its modifiers."""
        return "" in self.wide

    @cached_property
    def untracked(self) -> bool:
        """Whether it acts on more than registers and memory: on tiles, mbarriers, copies, convergence barriers."""
        return self.tile or self.synchronises or self.shared in (Shared.UNCOUNTED, Shared.UNKNOWN)

    @cached_property
    def writes_only(self) -> bool:
        """Whether it writes only global memory.

        As blocks run in any order, loads never see what it writes: only where it writes matters.
        """
        return not self.reads and self.writes == Memory.GLOBAL

    @cached_property
    def forgets(self) -> bool:
        """Whether counting needs only the places that it writes: no load sees what it stores, or none is followed."""
        return self.writes_only or (self.matrix and bool(self.writes & Memory.SHARED))

    @cached_property
    def probed(self) -> bool:
        """Whether probes of tiles need its addresses."""
        tensor_load = self.copy is Copy.TENSOR and self.copies_to_shared
        return self.shared is Shared.WGMMA or self.tensor or tensor_load

    @cached_property
    def orders_warps(self) -> bool:
        """Whether it orders accesses of several warps, or copies."""
        return self.orders or self.arrives

    @cached_property
    def returns_words(self) -> bool:
        """Whether it brings words of memory into registers: a load, or an atomic operation that returns something."""
        return bool(self.results and self.reads & ~Memory.VOTED) and not self.matrix

    @cached_property
    def loads_shared(self) -> bool:
        """Whether it loads words of shared memory, if its address is there."""
        return self.addressed and self.does(Memory.SHARED) == READ and not self.matrix

    @cached_property
    def loads_only_shared(self) -> bool:
        """Whether it loads words of shared memory, and of no other."""
        return self.loads_shared and self.shared is Shared.LANES

    @cached_property
    def transfer(self) -> str:
        """What it moves between shared memory (SMEM) and what; empty if ncu counts no wavefronts, or not always."""
        if self.shared is Shared.WGMMA:
            return "SMEM→TC"
        if self.shared is not Shared.LANES:
            return ""
        if self.copy is Copy.ASYNC:
            return "GMEM→SMEM"
        return {READ: "SMEM→RF", WRITE: "RF→SMEM", ATOMIC: "in SMEM"}[self.does(Memory.SHARED)]

    @cached_property
    def conflict_code(self) -> str:
        """The code of a finding that it has bank conflicts."""
        if self.shared not in (Shared.LANES, Shared.WGMMA):
            return codes.CONFLICT
        if self.copy is Copy.ASYNC:
            return codes.COPY
        return codes.ATOMIC if self.atomic else codes.MATRIX if self.matrix or self.tile else codes.CONFLICT

    @cached_property
    def across_lanes(self) -> bool:
        """Whether it reads the registers of lanes that its guard does not select."""
        return self.control or self.products or self.exchanges

    def does(self, memory: Memory) -> str:
        """Return what it does to a memory: READ, WRITE or ATOMIC; empty if nothing."""
        if not (self.reads | self.writes) & memory:
            return ""
        return ATOMIC if self.atomic else READ if self.reads & memory else WRITE


T = TypeVar("T")


class Registry(dict[str, T]):
    """Functions by opcode."""

    def register(self, *opcodes: str) -> Callable[[T], T]:
        """Return a decorator that registers a function for these opcodes."""

        def registered(function: T) -> T:
            self.update(dict.fromkeys(opcodes, function))
            return function

        return registered


def row(opcode: str) -> Opcode:
    """Return the row of an opcode; for one without a row, a row that says so."""
    return TABLE.get(opcode) or _unknown(opcode)


def opcodes_with(holds: Callable[[Opcode], bool]) -> list[str]:
    """Return the opcodes whose row satisfies a predicate."""
    return [each.name for each in TABLE.values() if holds(each)]


@cache
def _unknown(opcode: str) -> Opcode:
    return Opcode(name=opcode, shared=Shared.UNKNOWN)


def rows(names: str, **facts: object) -> tuple[Opcode, ...]:
    """Return identical rows for several opcodes."""
    return tuple(Opcode(name=name, **facts) for name in names.split())  # type: ignore[arg-type]


_LANES, _GENERIC, _UNCOUNTED = Shared.LANES, Shared.GENERIC, Shared.UNCOUNTED
_SHARED, _LOCAL, _VOTED, _GLOBAL = Memory.SHARED, Memory.LOCAL, Memory.VOTED, Memory.GLOBAL
_EVERY = _SHARED | _LOCAL | _GLOBAL

_MEMORY = (
    *rows("LDS", shared=_LANES, reads=_SHARED, data=True, cause=UnknownResult("what shared memory holds", codes.DATA)),
    *rows("LDSM", shared=_LANES, reads=_SHARED, matrix=True, exchanges=True, data=True, opaque=True),
    *rows("STS", shared=_LANES, writes=_SHARED, stored=True, results=0),
    *rows("STSM", shared=_LANES, writes=_SHARED, matrix=True, exchanges=True, results=0),
    *rows("ATOMS", shared=_LANES, reads=_SHARED, writes=_SHARED, atomic=True, stored=True, data=True, cause=_RETURNED),
    *rows(
        "LDGSTS", shared=_LANES, reads=_GLOBAL, writes=_SHARED, copy=Copy.ASYNC, results=0,
        cause=UnknownResult("data copied from global memory", codes.DATA),
    ),
    *rows(
        "LD", shared=_GENERIC, reads=_EVERY, data=True,
        cause=UnknownResult("data loaded through a generic address", codes.DATA),
    ),
    *rows("ST", shared=_GENERIC, writes=_EVERY, stored=True, results=0),
    *rows(
        "ATOM", shared=_GENERIC, reads=_SHARED | _GLOBAL, writes=_SHARED | _GLOBAL, atomic=True, stored=True, data=True,
        cause=_RETURNED,
    ),
    *rows("LDG", reads=_GLOBAL, data=True, cause=UnknownResult("data loaded from global memory", codes.DATA)),
    *rows("STG", writes=_GLOBAL, stored=True, results=0),
    *rows("ATOMG", reads=_GLOBAL, writes=_GLOBAL, atomic=True, data=True, cause=_RETURNED),
    *rows("RED", writes=_GLOBAL, atomic=True, results=0, data=True),
    *rows("REDG", writes=_GLOBAL, atomic=True, results=0),
    *rows("LDL", reads=_LOCAL, data=True, cause=UnknownResult("what local memory holds", codes.DATA)),
    *rows("STL", writes=_LOCAL, stored=True, results=0),
    *rows("LDC", data=True, cause=_CONSTANT, pipe="sfu"),
    *rows("ULDC", data=True, cause=_CONSTANT, pipe="uniform"),
    *rows("LDCU", cause=_CONSTANT),
    *rows("LDGMC TLD4 TMML TXD", data=True),
    *rows("TEX TLD TXQ SULD", data=True, opaque=True),
    *rows("SUATOM", data=True),
    *rows("SURED SUST", results=0),
    *rows("SUQUERY"),
    *rows("CCTL CCTLL CCTLT UBLKPF UTMAPF UTMACCTL USTGR", results=0),
)  # fmt: skip
_COPIES = (
    *rows(
        "UTMALDG", shared=_UNCOUNTED, reads=_GLOBAL, writes=_SHARED, copy=Copy.TENSOR, synchronises=True, arrives=True,
        results=0,
    ),
    *rows(
        "UTMASTG UTMAREDG", shared=_UNCOUNTED, reads=_SHARED, writes=_GLOBAL, copy=Copy.TENSOR, orders=True, results=0
    ),
    *rows(
        "UBLKCP UBLKRED", shared=_UNCOUNTED, reads=_SHARED | _GLOBAL, writes=_SHARED | _GLOBAL, copy=Copy.BULK,
        synchronises=True, orders=True, results=0,
    ),
    *rows(
        "STAS REDAS", shared=_UNCOUNTED, writes=_SHARED, copy=Copy.STORE, synchronises=True, arrives=True, results=0
    ),
    *rows(
        "ARRIVES", shared=_UNCOUNTED, writes=_SHARED, synchronises=True, arrives=True, results=0,
        cause=UnknownResult("when copies end", codes.TIMING),
    ),
    *rows(
        "SYNCS", shared=_UNCOUNTED, synchronises=True, arrives=True, data=True,
        cause=UnknownResult("how long a barrier in shared memory takes", codes.TIMING),
    ),
    *rows("UGETNEXTWORKID UTCBAR", shared=_UNCOUNTED, synchronises=True, arrives=True, results=0),
    *rows("UTCATOMSWS", synchronises=True),
    *rows("LDGDEPBAR UTMACMDFLUSH", orders=True, results=0),
    *rows("UMEMSETS", shared=Shared.UNKNOWN, orders=True),
    *rows("SYNCSU", shared=Shared.UNKNOWN, results=0),
)  # fmt: skip
_CONTROL = (
    *rows("BAR", control=True, arrives=True, writes=_VOTED, results=0),
    *rows("UCGABAR_ARV UCGABAR_WAIT", control=True, arrives=True, results=0),
    *rows(
        "BPT BRA BREAK BRX BRXU BSSY BSYNC ENDCOLLECTIVE EXIT JMP JMX JMXU KILL RET WARPSYNC", control=True, results=0
    ),
    *rows("CALL", control=True, results=0, cause=UnknownResult("what a called function returns", codes.NOT_EMULATED)),
    *rows(
        "BMOV", synchronises=True, data=True,
        cause=UnknownResult("which threads reconverge around a call", codes.TIMING),
    ),
    *rows("DEPBAR FENCE MEMBAR WARPGROUP", orders=True, results=0),
    *rows(
        """
        ACQBULK ACQSHMINIT CGAERRBAR ERRBAR NANOSLEEP NOP PMTRIG PREEXIT SETCTAID SETLMEMBASE USETSHMSZ UVIRTCOUNT
        UWARPGROUP YIELD
        """,
        results=0,
    ),
    *rows("USETMAXREG", cause=UnknownResult("when registers are free", codes.TIMING)),
    *rows("BREV", pipe="sfu"),
    *rows("GETLMEMBASE LEPC", data=True),
    *rows("QSPC", results=2),
    *rows("R2B RTT ULEPC"),
)  # fmt: skip
_TENSOR_CORES = (
    *rows("HGMMA QGMMA IGMMA BGMMA", shared=Shared.WGMMA, products=True, data=True, opaque=True, pipe="tensor"),
    *rows("HMMA IMMA BMMA DMMA OMMA QMMA", products=True, data=True, opaque=True, pipe="tensor"),
    *rows("UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCCP", shared=Shared.TCGEN05, tensor=True, results=0),
    *rows("UTCMXQMMA", shared=Shared.UNKNOWN, results=0),
    *rows("UTCSHIFT STTM", tensor=True, results=0),
    *rows("LDTM", tensor=True, data=True, opaque=True, cause=UnknownResult("what tensor memory holds", codes.DATA)),
)
_LANES_TOGETHER = (
    *rows("CREDUX SHFL VOTEU", exchanges=True),
    *rows("VOTE", exchanges=True, pipe="alu"),
    *rows("REDUX", exchanges=True, pipe="sfu"),
    *rows("ELECT", exchanges=True, results=2),
    *rows("MOVM", exchanges=True),
    *rows("MATCH", exchanges=True, wide=("U64",)),
    *rows("R2UR", exchanges=True, data=True, pipe="uniform"),
)
_INTEGERS = (
    *rows("IADD3", carries=True, wide=("64",), pipe="alu"),
    *rows("UIADD3", carries=True, wide=("64",), pipe="uniform"),
    *rows("IADD", carries=True, wide=("64",)),
    *rows("LEA", carries=True, pipe="alu"),
    *rows("ULEA", carries=True, pipe="uniform"),
    *rows("IMAD", carries=True, pipe="fma"),
    *rows("UIMAD", carries=True, pipe="uniform"),
    *rows("MOV", wide=("64",), pipe="alu"),
    *rows("UMOV", wide=("64",), pipe="uniform"),
    *rows("ISETP", wide=("U64", "S64"), results=2, pipe="alu"),
    *rows("UISETP", wide=("U64", "S64"), results=2, pipe="uniform"),
    *rows("PLOP3", results=2, pipe="alu"),
    *rows("UPLOP3", results=2, pipe="uniform"),
    *rows("VISET"),
    *rows("PSETP UPSETP", results=2),
    *rows("VIADD", pipe="fma"),
    *rows("IABS LOP3 PRMT SHF VIMNMX", pipe="alu"),
    *rows("SEL", wide=("64",), pipe="alu"),
    *rows("FLO POPC", pipe="sfu"),
    *rows("ULOP3 UPRMT USHF", pipe="uniform"),
    *rows("USEL", wide=("64",), pipe="uniform"),
    *rows("RPCMOV"),
    *rows("IMNMX UIMNMX", wide=("U64", "S64")),
    *rows("I2I I2IP", data=True),
    *rows(
        """
        BMSK IADD2 IADD32I IDP IDP4A IMUL IMUL32I ISCADD ISCADD32I LOP LOP32I MOV32I P2R R2P SGXT SHL SHR
        UBMSK UBREV UCLEA UFLO UIABS UIDP ULOP ULOP32I UP2R UP2UR UPOPC UR2P UR2UP USGXT USHL USHR UVIADD
        UVIADDMNMX UVIMNMX UVIMNMX3 UVOTE VABSDIFF VABSDIFF4 VIADDMNMX VIMNMX3
        """
    ),
)
_FLOATS = (
    *rows("DADD DFMA DMUL", wide=("",), data=True, pipe="fp64"),
    *rows("DMNMX FADD2 FFMA2 FMUL2", wide=("",), data=True),
    *rows("DSETP", wide=("",), results=2, data=True, pipe="fp64"),
    *rows("FSETP", results=2, data=True, pipe="alu"),
    *rows("HSETP2", results=2, data=True),
    *rows("UFSETP", results=2),
    *rows("FADD FFMA FMUL HADD2 HFMA2 HMUL2", data=True, pipe="fma"),
    *rows("F2FP FMNMX FSEL I2FP", data=True, pipe="alu"),
    *rows("F2F", wide=("",), data=True, pipe="sfu"),
    *rows("F2I", wide=("F64",), data=True, pipe="sfu"),
    *rows("I2F", wide=("U64", "S64"), data=True, pipe="sfu"),
    *rows("FRND", data=True, pipe="sfu"),
    *rows("MUFU", data=True, cause=UnknownResult("a hardware approximation", codes.NOT_EMULATED), pipe="sfu"),
    *rows("VHMNMX", data=True),
    *rows("F2IP FCHK FMNMX3 FSET FSWZADD HMNMX2 HSET2 UF2FP UFADD UFFMA UFMUL", data=True),
    *rows(
        """
        FADD32I FFMA32I FMUL32I HADD2_32 HFMA2_32 HMUL2_32 UF2F UF2I UF2IP UFMNMX UFRND UFSEL UFSET
        UI2F UI2FP UI2I UI2IP UMUFU
        """
    ),
)
_SPECIAL_REGISTERS = (
    *rows(
        "CS2R", data=True, cause=UnknownResult("a clock, or another counter of the hardware", codes.TIMING), pipe="alu"
    ),
    *rows("CS2UR", data=True),
    *rows("S2R", data=True, pipe="sfu"),
    *rows("S2UR", data=True, pipe="uniform"),
    *rows("B2R", reads=_VOTED),
)

ROWS = (
    *_MEMORY, *_COPIES, *_CONTROL, *_TENSOR_CORES, *_LANES_TOGETHER, *_INTEGERS, *_FLOATS, *_SPECIAL_REGISTERS,
)  # fmt: skip
TABLE = {each.name: each for each in ROWS}
