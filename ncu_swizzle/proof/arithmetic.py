"""Whether both versions compute alike, judged by their instructions: for results that cannot be compared.

A mapping changes how addresses are computed, which is done in integers. What a line computes in floating point and
with tensor cores, and what it stores to global memory, must stay as it was. How often it is unrolled may change.
"""

from __future__ import annotations

from collections import defaultdict

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.parse import SassInstruction, parse_instruction
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.proof.lines import Lines

FLOATING = "FADD FMUL FFMA FSEL FMNMX FSETP FSET FCHK MUFU FRND F2F F2FP F2I I2F I2FP DADD DMUL DFMA DSETP DMNMX"
HALVES = "HADD2 HMUL2 HFMA2 HMNMX2 HSET2 HSETP2 HMMA IMMA DMMA BMMA QMMA"
OTHERS = "SHFL VOTE MATCH REDUX POPC FLO BREV STG ATOMG RED REDG"
COMPUTING = frozenset(f"{FLOATING} {HALVES} {OTHERS}".split())


def unlike(before: Executable, after: Executable) -> Location | None:
    """Return a line of the old source that no longer computes what it did, or does more; None if there is none."""
    sources = before.emulated.profile.sources
    old = _computed(before, Lines.same(sources))
    new = _computed(after, Lines.between(sources, after.emulated.profile.sources))
    return next((line for line in sorted(old.keys() | new.keys()) if old[line] != new[line]), None)


def _computed(version: Executable, lines: Lines) -> defaultdict[Location, set[str]]:
    computed: defaultdict[Location, set[str]] = defaultdict(set)
    for instruction in map(parse_instruction, version.code.instructions):
        if instruction.opcode in COMPUTING and not instruction.never:
            computed[lines.first(version.stacks.get(instruction.offset, ()))].add(_what(instruction))
    return computed


def _what(instruction: SassInstruction) -> str:
    """Return an instruction with its constants, without registers."""
    constants = (word.strip(",") for word in instruction.text.split() if word[0].isdigit() or word[0] in "-+.")
    return " ".join((instruction.mnemonic, *constants))
