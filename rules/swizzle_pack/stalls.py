"""StallShift: where warps stall, and which stall dominates once the conflicts are gone."""

from __future__ import annotations

from swizzle_pack.cost import WAITS, Estimate, estimate
from swizzle_pack.facts import FEW_SAMPLES, STALLED, Facts
from swizzle_pack.finding import FEW_SAMPLES_TAKEN, OK, Finding, Focus, listed, percent

RULE = "StallShift"
TITLE = "Where Warps Stall"
TOP = 3
LEAST = 0.01  # a reason with a smaller share of the samples is not named
HEALTHY = frozenset({"selected", "not_selected"})

# Why a warp did not issue, by the suffix of ncu's counter.
REASONS = {
    "barrier": "waiting at a barrier for the other warps of its block",
    "branch_resolving": "waiting for a branch target to resolve",
    "dispatch_stall": "selected, then held back by the dispatcher",
    "drain": "exited, waiting for its last memory writes to drain",
    "gmma": "waiting for a warpgroup matrix multiply (wgmma)",
    "imc_miss": "waiting for an immediate-constant cache miss",
    "lg_throttle": "the queue for global and local memory is full",
    "long_scoreboard": "waiting for data from global or local memory",
    "math_pipe_throttle": "the math pipe it needs (tensor cores included) is busy",
    "membar": "waiting at a memory fence",
    "mio_throttle": "the queue for shared memory and special functions is full",
    "misc": "anything else",
    "no_instruction": "waiting for its next instruction to be fetched",
    "no_instructions": "waiting for its next instruction to be fetched",
    "not_selected": "eligible, but another warp was selected: enough warps are ready",
    "selected": "not a stall: the warp issued an instruction",
    "short_scoreboard": "waiting for shared memory or another MIO operation; bank conflicts show up here",
    "sleeping": "sleeping, as the program requested",
    "tex_throttle": "the texture queue is full",
    "wait": "waiting out the fixed latency of its previous instruction",
    "warpgroup_arrive": "waiting for the other warps of its warpgroup",
}


def decide(facts: Facts) -> list[Finding]:
    """Return the top stall reasons of a sampled kernel that uses shared memory."""
    stalls = facts.stalls()
    samples = sum(stalls.values())
    if not samples or not facts.total.wavefronts:
        return []
    if samples < FEW_SAMPLES:
        return [Finding(RULE, OK, TITLE, _too_few(samples), code=FEW_SAMPLES_TAKEN)]
    waits = [(reason, count / samples) for reason, count in stalls.items() if reason not in HEALTHY]
    top = [(reason, share) for reason, share in waits[:TOP] if share >= LEAST]
    if not top:
        return []
    named = [f"{reason} {percent(share)} ({REASONS.get(reason, 'not documented')})" for reason, share in top]
    return [
        Finding(
            RULE,
            OK,
            TITLE,
            f"Of all {samples:,} samples: {listed(named)}.{_next(facts, waits)}",
            focus=tuple(
                Focus(f"{STALLED}{reason}", stalls[reason], REASONS.get(reason, ""), True) for reason, _ in top
            ),
        )
    ]


def _too_few(samples: int) -> str:
    taken = f"only {samples} warp samples were" if samples > 1 else "only one warp sample was"
    return f"Not known: {taken} taken, too few to say where warps stall. A larger problem gives more."


def _next(facts: Facts, waits: list[tuple[str, float]]) -> str:
    """Say which stall dominates once those caused by conflicts shrink."""
    excess = facts.total.excessive
    gain = estimate(facts, excess) if excess > 0 else None
    others = [reason for reason, _ in waits if reason not in WAITS]
    if not isinstance(gain, Estimate) or not others:
        return ""
    if gain.point < LEAST:
        return " The conflicts do not slow this kernel down: these stalls will stay."
    return f" Once the conflicts are gone, expect {others[0]} to dominate" + (
        f", with {gain.bottleneck} as the next bottleneck." if gain.bottleneck else "."
    )
