"""``check --history``: no more excess than in the last good run under the same conditions."""

import dataclasses
from pathlib import Path

from ncu_swizzle.gate.baseline import Baseline, Policy, parse_rule
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.tracks import entries, tracks
from ncu_swizzle.gate.verdict import Outcome, Verdict
from ncu_swizzle.reports.model import Profile
from tests.support.gate_profiles import Given, as_k, named, rows_of, run_of, unknown
from tests.support.recordings import Recorded

FOLDER = Path("h")


def judged(now: Profile, *given: Given, limits: tuple[str, ...] = (), allow_recorded: bool = False) -> Verdict:
    rules = tuple(parse_rule("max-regression", limit) for limit in limits)
    kept = Baseline(tuple(entries(tracks(rows_of(*given)))), FOLDER, history=True)
    return judge([now], Policy(rules=rules, allow_recorded=allow_recorded, history=FOLDER), history=kept)


def test_any_growth_of_any_access_kind_fails_and_nothing_else(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    assert judged(good, run_of(0, good)).outcome is Outcome.passed
    assert judged(good, run_of(0, bad)).outcome is Outcome.passed, "better"
    (check,) = judged(bad, run_of(0, good)).checks
    assert (check.outcome, check.criterion, check.origin) == (Outcome.failed, "history", "h")
    assert f"LDS has {bad.total.excessive:,} more" in check.message
    assert check.hint == "if this is intended: ncu-swizzle history add PROFILE… --accept"


def test_growth_of_one_kind_fails_even_if_another_shrank_by_more(recorded: Recorded) -> None:
    before = as_k(recorded("kernel1"))
    at = {kind: next(n for n, i in enumerate(before.instructions) if i.access == kind) for kind in ("LDSM", "STS")}
    instructions = list(before.instructions)
    fewer, more = instructions[at["LDSM"]], instructions[at["STS"]]
    instructions[at["LDSM"]] = dataclasses.replace(fewer, wavefronts=(fewer.wavefronts or 0) - 10)
    instructions[at["STS"]] = dataclasses.replace(more, wavefronts=(more.wavefronts or 0) + 10)
    (check,) = judged(dataclasses.replace(before, instructions=tuple(instructions)), run_of(0, before)).checks
    assert check.outcome is Outcome.failed
    assert "STS has 10 more" in check.message


def test_the_last_good_run_is_compared_with_not_the_last(recorded: Recorded) -> None:
    good, bad = as_k(recorded("transpose-xor")), as_k(recorded("transpose-plain"))
    assert judged(bad, run_of(0, good), run_of(1, bad)).outcome is Outcome.failed
    assert judged(bad, run_of(0, good), run_of(1, bad, accepted=True)).outcome is Outcome.passed
    assert judged(good, run_of(0, bad), run_of(1, unknown(good))).outcome is Outcome.passed


def test_unlike_machines_are_never_compared(recorded: Recorded) -> None:
    now = as_k(recorded("transpose-xor"))
    for machine in ({"gpu": "NVIDIA H200"}, {"ncu": "2024.1"}, {"clock_control": "base"}):
        (check,) = judged(now, run_of(0, as_k(recorded("transpose-xor"), **machine))).checks
        assert check.outcome is Outcome.inconclusive, machine
        assert "not comparable" in check.message
        assert "in the history" in check.message


def test_unlike_engines_and_kernels_are_never_compared_and_unknown_stays_unknown(recorded: Recorded) -> None:
    now = as_k(recorded("transpose-xor"))
    emulated, old = (dataclasses.replace(now, engine=engine) for engine in ("emulated", "recorded"))
    for before in (emulated, old, named(now, "other"), unknown(now)):
        verdict = judged(now, run_of(0, before), allow_recorded=True)
        assert verdict.outcome is Outcome.inconclusive
        assert "has no good run of it with the engine ncu" in verdict.checks[0].message
    assert judged(unknown(now), run_of(0, now)).outcome is Outcome.inconclusive
    assert judged(emulated, run_of(0, emulated)).outcome is Outcome.passed


def test_times_are_judged_if_asked_beyond_the_noise_of_both(recorded: Recorded) -> None:
    profile = recorded("transpose-xor")
    kept = run_of(0, as_k(profile, 2.0))
    assert judged(as_k(profile, 3.0), kept).outcome is Outcome.passed
    assert judged(as_k(profile, 2.15), kept, limits=("5",)).outcome is Outcome.passed
    verdict = judged(as_k(profile, 2.2), kept, limits=("5",))
    assert [check.criterion for check in verdict.deciding] == ["max-regression"]
