"""The pack's rules by name, and the finding for a report that lacks what they need."""

from __future__ import annotations

from collections.abc import Callable

from swizzle_pack import advice, cost, excess, partial, phantom, sectors, stalls
from swizzle_pack.facts import Facts, missing
from swizzle_pack.finding import FAILED, NOT_COLLECTED, WARNING, Finding

SECTION = "SwizzleConflicts"

DECISIONS: dict[str, Callable[[Facts], list[Finding]]] = {
    excess.RULE: excess.decide,
    cost.RULE: cost.decide,
    advice.RULE: advice.decide,
    partial.RULE: partial.decide,
    phantom.RULE: phantom.decide,
    stalls.RULE: stalls.decide,
    sectors.RULE: sectors.decide,
}


def decide(rule: str, facts: Facts) -> list[Finding]:
    """Return a rule's findings; only the first rule reports missing metrics. A failing rule becomes a finding."""
    try:
        lacking = missing(facts)
        if lacking:
            return [_incomplete(lacking)] if rule == excess.RULE else []
        return DECISIONS[rule](facts)
    except Exception as error:  # an exception would hide the other rules' findings
        return [Finding(rule, WARNING, rule, f"This rule failed: {type(error).__name__}: {error}", code=FAILED)]


def decide_all(facts: Facts) -> list[Finding]:
    """Return the findings of all rules, in reading order."""
    return [finding for rule in DECISIONS for finding in decide(rule, facts)]


def _incomplete(lacking: list[str]) -> Finding:
    return Finding(
        excess.RULE,
        WARNING,
        "Not Collected",
        f"The report lacks {' and '.join(lacking)}. Collect it with ncu --section-folder FOLDER --section {SECTION}; "
        "ncu-swizzle rules path prints FOLDER.",
        code=NOT_COLLECTED,
    )
