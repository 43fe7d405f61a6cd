"""StallShift: where warps wait, and which wait will be next once the conflicts are gone."""

from __future__ import annotations

from swizzle_pack.cost import WAITS, estimate
from swizzle_pack.facts import STALLED, Facts
from swizzle_pack.finding import OK, Finding, Focus, listed, percent

RULE = "StallShift"
TOP = 3
LEAST = 0.01  # share of the samples below which a reason is not worth naming
HEALTHY = frozenset({"selected", "not_selected"})

# Why a warp was not issuing, by the name of ncu's counter.
REASONS = {
    "barrier": "waits at a barrier for the other warps of its block",
    "branch_resolving": "waits until a jump's target is known",
    "dispatch_stall": "was picked, then held back by the dispatcher",
    "drain": "has ended and waits for its last writes to leave",
    "gmma": "waits for a warpgroup matrix multiplication (wgmma)",
    "imc_miss": "waits for a constant that was not in the cache",
    "lg_throttle": "the queue for global and local memory is full",
    "long_scoreboard": "waits for data from global or local memory",
    "math_pipe_throttle": "the arithmetic unit it needs, tensor cores included, is busy",
    "membar": "waits at a memory fence",
    "mio_throttle": "the queue for shared memory and special functions is full",
    "misc": "anything else",
    "no_instruction": "waits for its next instruction to be fetched",
    "no_instructions": "waits for its next instruction to be fetched",
    "not_selected": "was ready, another warp was picked: there is enough work",
    "selected": "no stall: it issued an instruction",
    "short_scoreboard": "waits for shared memory or another short answer; bank conflicts show here",
    "sleeping": "sleeps, as the program asked it to",
    "tex_throttle": "the queue for textures is full",
    "wait": "waits out the fixed latency of its previous instruction",
    "warpgroup_arrive": "waits for the other warps of its warpgroup",
}


def decide(facts: Facts) -> list[Finding]:
    """Return the top stall reasons, of a kernel that uses shared memory and was sampled."""
    stalls = facts.stalls()
    samples = sum(stalls.values())
    if not samples or not facts.total.wavefronts:
        return []
    waits = [(reason, count / samples) for reason, count in stalls.items() if reason not in HEALTHY]
    top = [(reason, share) for reason, share in waits[:TOP] if share >= LEAST]
    if not top:
        return []
    named = [f"{reason} {percent(share)} ({REASONS.get(reason, 'not known here')})" for reason, share in top]
    return [
        Finding(
            RULE,
            OK,
            "Where Warps Wait",
            f"Of all samples: {listed(named)}.{_next(facts, waits)}",
            focus=tuple(
                Focus(f"{STALLED}{reason}", stalls[reason], REASONS.get(reason, ""), True) for reason, _ in top
            ),
        )
    ]


def _next(facts: Facts, waits: list[tuple[str, float]]) -> str:
    """Say which reason surfaces when those that conflicts cause shrink."""
    excess = facts.total.excessive
    gain = estimate(facts, excess) if excess > 0 else None
    others = [reason for reason, _ in waits if reason not in WAITS]
    if gain is None or not others:
        return ""
    if gain.point < LEAST:
        return " The conflicts hold nothing up here: these waits will stay."
    return f" Once the conflicts are gone, {others[0]} will surface" + (
        f", and {gain.wall} will be the limit." if gain.wall else "."
    )
