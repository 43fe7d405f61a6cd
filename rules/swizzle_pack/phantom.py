"""PhantomConflicts: what the hardware's conflict counters count and the access pattern does not have."""

from __future__ import annotations

from swizzle_pack import facts as known
from swizzle_pack.facts import CONFLICTS, Facts
from swizzle_pack.finding import OK, Finding, Focus, listed

RULE = "PhantomConflicts"
MUCH = 2.0  # a counter of more than this times the excess counts mostly something else

# The counters, and the access kinds that each one sees. LDGSTS past L1 is seen by none.
COUNTERS = (
    ("loads", f"{CONFLICTS}_op_ld.sum", ("LDS", "LDSM")),
    ("stores", f"{CONFLICTS}_op_st.sum", ("STS", "STSM")),
    ("atomics", f"{CONFLICTS}_op_atom.sum", ("ATOMS",)),
)


def decide(facts: Facts) -> list[Finding]:
    """Return one finding that names each counter that is mostly or wholly phantom."""
    kinds = known.by(facts.accesses(), lambda one: one.access)
    phantoms = []
    for name, metric, seen in COUNTERS:
        counted = facts.number(metric) or 0
        excess = sum(counts.excessive for kind, counts in kinds.items() if kind in seen)
        if counted > MUCH * excess and any(kind in kinds for kind in seen):
            phantoms.append((name, metric, int(counted), excess))
    if not phantoms or not facts.instructions:
        return []
    said = listed(
        [f"{counted:,} for {name} (excessive wavefronts: {excess:,})" for name, _, counted, excess in phantoms]
    )
    return [
        Finding(
            RULE,
            OK,
            "Phantom Bank Conflicts",
            f"The hardware counters say bank conflicts: {said}. They also count the cycles in which an access lost "
            "the arbitration for the L1 data banks to other traffic. Only the excessive wavefronts come from the "
            "addresses: no swizzle or padding will remove the rest.",
            focus=tuple(
                Focus(metric, counted, "mostly lost arbitration", good=True) for _, metric, counted, _ in phantoms
            ),
        )
    ]
