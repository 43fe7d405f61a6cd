"""Tiles that TMA writes into shared memory, and wgmma reads there: which counters see that, and which do not.

Measured on an H100 with the family ``tma``, whose kernels write shared memory through TMA only: the counters listed
here as blind stay at zero, whatever the swizzle. Our section collects no counter of wgmma's own, which would take a
seventh pass beside TMA's bytes (bench/passes.py); a report that has them shows them, any other says that they are
unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

BYTES = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
LOADS = ("UTMALDG", "UBLKCP")  # tensor and bulk copies

WGMMA = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
SEEING = ((BYTES, "bytes loaded by TMA"),)
# By the instructions that they count: shown if these were executed, or if a report's counter is not 0.
FURTHER = (
    (
        ("UTMALDG",),
        "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum",
        "bytes loaded for several blocks of a cluster",
        "MULTICAST",
    ),
    (
        ("UTMASTG", "UBLKCP.G"),
        "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
        "bytes stored by TMA",
        "",
    ),
)
REQUESTS = ("smsp__l1tex_tmain_requests.sum", "requests to TMA")
OF_WGMMA = (
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", "wgmma wavefronts, hardware"),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum", "wgmma bank conflicts, hardware"),
)
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
        *_further(profiles),
        Counter(
            "memory_l1_wavefronts_shared",
            "TMA load wavefronts, source-level",
            False,
            tuple(_wavefronts(p) for p in profiles),
        ),
        *(_counter(name, meaning, False, profiles) for name, meaning in BLIND),
    )


def of_wgmma(comparison: Comparison) -> tuple[Counter, ...]:
    """Return wgmma's counters if any profile has wgmma; nothing otherwise."""
    profiles = comparison.profiles
    if not any(_ran(profile, WGMMA) for profile in profiles):
        return ()
    return (
        Counter("inst_executed", "wgmma executed, by warps", True, tuple(_sum(p, WGMMA, "executed") for p in profiles)),
        Counter(
            "memory_l1_wavefronts_shared",
            "wgmma wavefronts, source-level",
            True,
            tuple(_sum(p, WGMMA, "wavefronts") for p in profiles),
        ),
        *(_counter(name, meaning, True, profiles) for name, meaning in OF_WGMMA),
    )


def _further(profiles: tuple[Profile, ...]) -> Iterator[Counter]:
    for opcodes, name, meaning, modifier in FURTHER:
        if any(_ran(p, opcodes, modifier) or p.number(name) for p in profiles):
            yield _counter(name, meaning, True, profiles)
    if any(p.number(REQUESTS[0]) is not None for p in profiles):
        yield _counter(*REQUESTS, True, profiles)


def _ran(profile: Profile, opcodes: tuple[str, ...], modifier: str = "") -> bool:
    return any(i.executed and i.opcode.startswith(opcodes) and modifier in i.opcode for i in profile.instructions)


def _sum(profile: Profile, opcodes: tuple[str, ...], field: str) -> str:
    counts = [getattr(i, field) for i in profile.instructions if i.opcode.startswith(opcodes)]
    return text.count(None if None in counts else sum(counts))


def _counter(name: str, meaning: str, sees: bool, profiles: tuple[Profile, ...]) -> Counter:
    return Counter(name, meaning, sees, tuple(text.count(profile.number(name)) for profile in profiles))


def _executed(profile: Profile) -> int:
    return sum(i.executed or 0 for i in profile.instructions if i.opcode.startswith(LOADS))


def _wavefronts(profile: Profile) -> str:
    counted = [i.wavefronts for i in profile.instructions if i.opcode.startswith(LOADS) and i.wavefronts is not None]
    return text.count(sum(counted)) if counted else "no value"
