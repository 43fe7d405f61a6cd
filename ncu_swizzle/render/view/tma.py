"""Tiles that TMA writes into shared memory: which counters see those writes, and which do not.

Measured on an H100 with the family ``tma``, whose kernels write shared memory through TMA only: the counters listed
here as blind stay at zero, whatever the swizzle.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

BYTES = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
LOADS = ("UTMALDG", "UBLKCP")  # tensor and bulk copies

SEEING = ((BYTES, "bytes loaded by TMA"),)
BLIND = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", "store wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", "store bank conflicts, hardware"),
)


@dataclass(frozen=True)
class Counter:
    """One counter, whether it sees TMA's writes, and its value in each profile."""

    name: str
    meaning: str
    sees: bool
    values: tuple[str, ...]


def counters(comparison: Comparison) -> tuple[Counter, ...]:
    """Return the counters if any profile loads through TMA; nothing otherwise."""
    profiles = comparison.profiles
    if not any(_executed(profile) or profile.number(BYTES) for profile in profiles):
        return ()
    return (
        Counter("inst_executed", "TMA loads executed", True, tuple(text.count(_executed(p)) for p in profiles)),
        *(_counter(name, meaning, True, profiles) for name, meaning in SEEING),
        Counter(
            "memory_l1_wavefronts_shared",
            "TMA load wavefronts, source-level",
            False,
            tuple(_wavefronts(p) for p in profiles),
        ),
        *(_counter(name, meaning, False, profiles) for name, meaning in BLIND),
    )


def _counter(name: str, meaning: str, sees: bool, profiles: tuple[Profile, ...]) -> Counter:
    return Counter(name, meaning, sees, tuple(text.count(profile.number(name)) for profile in profiles))


def _executed(profile: Profile) -> int:
    return sum(i.executed or 0 for i in profile.instructions if i.opcode.startswith(LOADS))


def _wavefronts(profile: Profile) -> str:
    counted = [i.wavefronts for i in profile.instructions if i.opcode.startswith(LOADS) and i.wavefronts is not None]
    return text.count(sum(counted)) if counted else "no value"
