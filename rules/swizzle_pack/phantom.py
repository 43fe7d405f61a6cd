"""PhantomConflicts: conflicts that the hardware counters report and the access pattern does not have."""

from __future__ import annotations

from swizzle_pack.facts import CONFLICTS, Facts, grouped
from swizzle_pack.finding import OK, Finding, Focus, listed

RULE = "PhantomConflicts"
MUCH = 2.0  # above this multiple of the excess, a counter mostly counts something else

# The counters, and the access kinds that each sees. None sees LDGSTS.BYPASS.
COUNTERS = (
    ("loads", f"{CONFLICTS}_op_ld.sum", ("LDS", "LDSM")),
    ("stores", f"{CONFLICTS}_op_st.sum", ("STS", "STSM")),
    ("atomics", f"{CONFLICTS}_op_atom.sum", ("ATOMS",)),
    ("wgmma", f"{CONFLICTS}_op_gmma.sum", ("HGMMA", "QGMMA", "IGMMA", "BGMMA")),
)


def decide(facts: Facts) -> list[Finding]:
    """Return one finding that names each counter that is mostly or entirely phantom."""
    kinds = grouped(facts.accesses(), lambda i: i.access)
    phantoms = []
    for name, metric, seen in COUNTERS:
        counted = facts.number(metric) or 0
        excess = sum(counts.excessive for kind, counts in kinds.items() if kind in seen)
        if counted > MUCH * excess and any(kind in kinds for kind in seen):
            phantoms.append((name, metric, int(counted), excess))
    if not phantoms or not facts.instructions:
        return []
    counters = listed(
        [f"{counted:,} for {name} (excessive wavefronts: {excess:,})" for name, _, counted, excess in phantoms]
    )
    return [
        Finding(
            RULE,
            OK,
            "Phantom Bank Conflicts",
            f"The hardware counters report bank conflicts: {counters}. They also count cycles in which an access lost "
            "arbitration for the L1 data banks to other traffic. Only the excessive wavefronts come from the "
            "addresses: no swizzle or padding removes the rest.",
            focus=tuple(
                Focus(metric, counted, "mostly lost arbitration", good=True) for _, metric, counted, _ in phantoms
            ),
        )
    ]
