"""The instruction mix: warp instructions executed, by class of SASS opcode.

The classes follow the instruction set tables of NVIDIA's "CUDA Binary Utilities". Shared-memory and tensor-core opcodes
are counted one by one: a swizzle must not change their number.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from ncu_swizzle.profiles.counts import NEVER as GUARD
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import Profile

TENSOR, SHARED, TMA = "Tensor cores", "Shared memory", "TMA"
PREDICATED_OFF = "Predicated off"  # the guard @!PT is always false, as on the LDS around LDGSTS
INTEGER, MOVE, CONTROL, OTHER = "Integer and logic", "Move and select", "Control", "Other"

# The first pattern that matches the start of an opcode gives its class.
_CLASSES: tuple[tuple[str, str], ...] = (
    (PREDICATED_OFF, rf"{GUARD} [\w.]+"),
    (TENSOR, r"[A-Z]*MMA|UTC\w*MMA"),
    (SHARED, r"LDSM?|STSM?|ATOMS|LDGSTS|STAS|REDAS"),
    (TMA, r"UTMA\w*|UBLK\w*"),
    ("Global and local memory", r"(LD|ST)[GL]?|ATOMG?|REDG?|CCTL\w*|SU(LD|ST|RED|ATOM)|TEX|TLD"),
    ("Constants", r"U?LDCU?"),
    ("Special functions", r"MUFU"),
    ("Conversion", r"U?[FI]2[FI]P?|F2FP|FRND"),
    (MOVE, r"U?MOVM?|IMAD\.MOV|C?S2U?R|U?R2P|U?P2R|R2UR|UP2UR|R2B|B2R|U?PRMT|U?SEL"),
    ("Cross-lane", r"SHFL|VOTEU?|MATCH|C?REDUX"),
    (CONTROL, r"BR[AX]U?|JM[PX]|CALL|RET|EXIT|BAR|BSSY|BSYNC|BREAK|BMOV|WARPSYNC|NOP|DEPBAR|LDGDEPBAR|SYNCS|ARRIVES|"
              r"FENCE|MEMBAR|ERRBAR|NANOSLEEP|YIELD|KILL|BPT|ELECT|ENDCOLLECTIVE|USETMAXREG|UCGABAR\w*|WARPGROUP|"
              r"ACQBULK|PREEXIT|UTCBAR"),
    ("Floating point", r"U?F(ADD|MUL|FMA|MNMX|SETP?|SEL|CHK|SWZADD)\w*|[HD](ADD|MUL|FMA|MNMX|SETP?)\w*"),
    (INTEGER, r"U?I(ADD|MAD|MUL|SETP|MNMX|ABS|SCADD|DP)\w*|U?LEA|U?P?LOP3?|U?SHF|U?SH[LR]|U?VI?(ADD|MNMX)\w*|"
              r"U?FLO|U?POPC|U?BREV|U?BMSK|U?SGXT|VABSDIFF\w*"),
)  # fmt: skip
# A dot, a digit or the end must follow, so that LD does not match LDGDEPBAR.
_PATTERNS = tuple((name, re.compile(f"(?:{pattern})(?:[.\\d]|$)")) for name, pattern in _CLASSES)
# In display order: what must stay the same, what address computation costs, the rest.
_FIRST = (TENSOR, SHARED, TMA, INTEGER, MOVE)
NAMES = (*_FIRST, *(name for name, _ in _CLASSES if name not in _FIRST), OTHER)


@dataclass(frozen=True)
class Mix:
    """Warp instructions executed, by full opcode; `known` says whether there are execution counts.

    `uncounted` has the instructions, by opcode, of which the emulator does not know how often they ran: the counts of
    those opcodes are what the others add up to, hence lower bounds.
    """

    opcodes: Counter[str]
    known: bool
    uncounted: Counter[str] = field(default_factory=Counter)

    @property
    def classes(self) -> Counter[tuple[str, str]]:
        """The counts by class; tensor-core, shared-memory and TMA opcodes also by their first word."""
        return _by_class(self.opcodes)

    @property
    def uncounted_classes(self) -> Counter[tuple[str, str]]:
        """The classes with uncounted instructions, and how many they have."""
        return _by_class(self.uncounted)

    def total(self) -> int:
        """Return all warp instructions executed."""
        return self.opcodes.total()


def _by_class(opcodes: Counter[str]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for opcode, number in opcodes.items():
        counts[key(opcode)] += number
    return counts


def count(profile: Profile) -> Mix:
    """Return a profile's instruction mix; an opcode that is in the code but never ran counts 0."""
    opcodes: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    counted = False
    for instruction in profile.instructions:
        opcode = guarded_opcode(instruction)
        opcodes[opcode] += instruction.executed or 0
        counted = counted or instruction.executed is not None
        if profile.engine == EMULATED and instruction.executed is None:  # ncu leaves out what never ran
            uncounted[opcode] += 1
    return Mix(opcodes, True, uncounted) if counted else Mix(Counter(), known=False)


def guarded_opcode(instruction: Instruction) -> str:
    """Return an instruction's opcode for `classify`, behind its guard if that is always false."""
    return f"{GUARD} {instruction.opcode}" if instruction.never else instruction.opcode


def classify(opcode: str) -> str:
    """Return the class of an opcode such as ``IMAD.MOV.U32``: a move, although IMAD is arithmetic."""
    return next((name for name, pattern in _PATTERNS if pattern.match(opcode)), OTHER)


def key(opcode: str) -> tuple[str, str]:
    """Return an opcode's class, and its first word if the class is counted by opcode."""
    name = classify(opcode)
    return name, opcode.partition(".")[0] if name in (TENSOR, SHARED, TMA) else ""
