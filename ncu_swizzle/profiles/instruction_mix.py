"""What kinds of instructions a kernel executes: SASS opcodes by class, counted in warps.

The classes follow the instruction set tables of NVIDIA's "CUDA Binary Utilities". Opcodes that access shared memory
and those of the tensor cores stay apart, one class each: they are what a swizzle must leave as they were.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ncu_swizzle.profiles.counts import NEVER as GUARD
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import Profile

TENSOR, SHARED, TMA = "Tensor cores", "Shared memory", "TMA"
NEVER = "Never carried out"  # the guard @!PT is always false, as on the LDS around LDGSTS
INTEGER, MOVE, CONTROL, OTHER = "Integer and logic", "Move and select", "Control", "Other"

# The first pattern that matches an opcode from its start gives its class.
_CLASSES: tuple[tuple[str, str], ...] = (
    (NEVER, rf"{GUARD} [\w.]+"),
    (TENSOR, r"[A-Z]*MMA|UTC\w*MMA"),
    (SHARED, r"LDSM?|STSM?|ATOMS|LDGSTS|STAS|REDAS"),
    (TMA, r"UTMA\w*|UBLK\w*"),
    ("Global and local memory", r"(LD|ST)[GL]?|ATOMG?|REDG?|CCTL\w*|SU(LD|ST|RED|ATOM)|TEX|TLD"),
    ("Constants", r"U?LDCU?"),
    ("Special functions", r"MUFU"),
    ("Conversion", r"U?[FI]2[FI]P?|F2FP|FRND"),
    (MOVE, r"U?MOVM?|IMAD\.MOV|C?S2U?R|U?R2P|U?P2R|R2UR|UP2UR|R2B|B2R|U?PRMT|U?SEL"),
    ("Between lanes", r"SHFL|VOTEU?|MATCH|C?REDUX"),
    (CONTROL, r"BR[AX]U?|JM[PX]|CALL|RET|EXIT|BAR|BSSY|BSYNC|BREAK|BMOV|WARPSYNC|NOP|DEPBAR|LDGDEPBAR|SYNCS|ARRIVES|"
              r"FENCE|MEMBAR|ERRBAR|NANOSLEEP|YIELD|KILL|BPT|ELECT|ENDCOLLECTIVE|USETMAXREG|UCGABAR\w*|WARPGROUP|"
              r"ACQBULK|PREEXIT|UTCBAR"),
    ("Floating point", r"U?F(ADD|MUL|FMA|MNMX|SETP?|SEL|CHK|SWZADD)\w*|[HD](ADD|MUL|FMA|MNMX|SETP?)\w*"),
    (INTEGER, r"U?I(ADD|MAD|MUL|SETP|MNMX|ABS|SCADD|DP)\w*|U?LEA|U?P?LOP3?|U?SHF|U?SH[LR]|U?VI?(ADD|MNMX)\w*|"
              r"U?FLO|U?POPC|U?BREV|U?BMSK|U?SGXT|VABSDIFF\w*"),
)  # fmt: skip
# A dot, a digit or the end has to follow, so that LD does not take LDGDEPBAR.
_PATTERNS = tuple((name, re.compile(f"(?:{pattern})(?:[.\\d]|$)")) for name, pattern in _CLASSES)
# The order to show them in: what must stay as it is, what addresses cost, the rest.
_FIRST = (TENSOR, SHARED, TMA, INTEGER, MOVE)
NAMES = (*_FIRST, *(name for name, _ in _CLASSES if name not in _FIRST), OTHER)


@dataclass(frozen=True)
class Mix:
    """Warp instructions that were executed, by opcode as written; `known` is whether ncu counted any."""

    opcodes: Counter[str]
    known: bool

    @property
    def classes(self) -> Counter[tuple[str, str]]:
        """The counts by class, and within tensor cores and shared memory by the opcode's first word."""
        counts: Counter[tuple[str, str]] = Counter()
        for opcode, executed in self.opcodes.items():
            counts[key(opcode)] += executed
        return counts

    def total(self) -> int:
        return self.opcodes.total()


def count(profile: Profile) -> Mix:
    """Return what a profile executed; an opcode that is in the code but never ran counts 0.

    Where the emulated engine does not know how often some instruction ran, nothing adds up: no count is known.
    """
    opcodes: Counter[str] = Counter()
    known = False
    for instruction in profile.instructions:
        opcodes[named(instruction)] += instruction.executed or 0
        known = known or instruction.executed is not None
    complete = profile.engine != EMULATED or all(one.executed is not None for one in profile.instructions)
    return Mix(opcodes, known) if complete else Mix(Counter(), known=False)


def named(instruction: Instruction) -> str:
    """Return an instruction's opcode as it is classified: with the guard where that is always false."""
    return f"{GUARD} {instruction.opcode}" if instruction.never else instruction.opcode


def classify(opcode: str) -> str:
    """Return the class of an opcode such as ``IMAD.MOV.U32``: here a move, for all that IMAD is arithmetic."""
    return next((name for name, pattern in _PATTERNS if pattern.match(opcode)), OTHER)


def key(opcode: str) -> tuple[str, str]:
    """Return an opcode's class, and its first word where opcodes of the class are told apart."""
    name = classify(opcode)
    return name, opcode.partition(".")[0] if name in (TENSOR, SHARED, TMA) else ""
