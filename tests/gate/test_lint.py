"""``lint``, and ``lint --against``: only what got worse since another commit fails."""

from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.cycles.simulated import Simulated, Span
from ncu_swizzle.emulate import run
from ncu_swizzle.emulate.contents import GlobalAccesses
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.gate import against, linting
from ncu_swizzle.gate.against import Base
from ncu_swizzle.gate.judge import LineAccesses, judge_lines
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.verdict import BOUNDS, Change, Check, Outcome, Place, Verdict
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.options import LintOptions
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.reports import EMPTY
from tests.support.repositories import TURN

FAIL, PASS, OPEN = Outcome.failed, Outcome.passed, Outcome.inconclusive
MOVED = f"// moved down\n\n{TURN}"
OTHER_LINE = TURN.replace("tile[c][r] =", "tile[c][r + 0] =")
WORSE = TURN.replace("tile[r][c]", "tile[c][r]")


# ---------------------------------------------------------------------------------------------- what got worse


def linted(text: str, STS: int | None = 32, LDS: int | None = 32, n: int = 32) -> KernelLint:  # noqa: N803
    """Return the lint of a version of TURN: the wavefronts of its store and of its load; `n` are ideal."""
    lines = text.splitlines()
    accesses = []
    for pc, (access, words, wavefronts) in enumerate((("STS", "= x[", STS), ("LDS", "= tile[", LDS))):
        place = Place("turn.cu", next(number for number, line in enumerate(lines, 1) if words in line))
        counted = Instruction(pc, access, access, access, executed=n, wavefronts=wavefronts, ideal=n)
        off = Instruction(16 + pc, access, access, access, executed=0, wavefronts=0, ideal=0)  # predicated off
        accesses.append(LineAccesses(access, place, (counted, off)))
    profile = replace(EMPTY, kernel=replace(EMPTY.kernel, name="turn"), problem={"n": n})
    checks = tuple(judge_lines(profile, accesses, linting.policy(LintOptions()), "", {}))
    return KernelLint(name="turn", checks=checks, lines=tuple(accesses), profile=profile)


def test_a_line_without_wavefronts_has_no_conflict_and_one_without_an_ideal_has_no_limit() -> None:
    for wavefronts, degree in ((0, 1.0), (3, float("inf"))):
        access = Instruction(0, "LDS", "LDS", "LDS", executed=1, wavefronts=wavefronts, ideal=0)
        assert LineAccesses("LDS", None, (access,)).degree == degree


def judged(now: str, kernel: KernelLint, then: str, *kernels: KernelLint, unknown: tuple[str, ...] = ()) -> Verdict:
    """Return the verdict on a kernel whose source, now in the current folder, was another text in ``main``."""
    Path("turn.cu").write_text(now, encoding="utf-8")
    return against.verdict(
        [kernel], Base(name="main", kernels=kernels, unknown=unknown, texts={"turn.cu": then.splitlines()})
    )


# The source and its lint in main, those now, the outcome and what is said.
COMPARED = {
    "the same": (TURN, linted(TURN, 1024), TURN, linted(TURN, 1024), PASS, "no worse: degree 32"),
    "fixed": (TURN, linted(TURN, 1024), TURN, linted(TURN), PASS, "none over its limit"),
    "new": (TURN, linted(TURN), TURN, linted(TURN, 1024), FAIL, "992 excessive wavefronts; in main, 0 excessive"),
    "better": (TURN, linted(TURN, 1024), TURN, linted(TURN, 64), PASS, "no worse: degree 2"),
    "one more": (TURN, linted(TURN, 1024), TURN, linted(TURN, 1025), FAIL, "degree 32.03"),
    "moved": (TURN, linted(TURN, 1024), MOVED, linted(MOVED, 1024), PASS, "no worse: degree 32"),
    "another line": (TURN, linted(TURN, 1024), OTHER_LINE, linted(OTHER_LINE, 1024), PASS, "no worse: degree 32"),
    "one more line": (TURN, linted(TURN, 1024), WORSE, linted(WORSE, 1024, 1024), FAIL, "turn, LDS: degree 32"),
    "unknown": (TURN, linted(TURN, None), TURN, linted(TURN, 1024), OPEN, "unknown in main: its wavefronts are"),
    "another size": (TURN, linted(TURN, 1024), TURN, linted(TURN, 2048, 64, n=64), PASS, "no worse: degree 32"),
    "worse at it": (TURN, linted(TURN, 1024), TURN, linted(TURN, 2049, 64, n=64), FAIL, "degree 32.02"),
}  # fmt: skip


def test_what_got_worse_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (then, before, now, kernel, outcome, said) in COMPARED.items():
        verdict = judged(now, kernel, then, before)
        assert verdict.outcome is outcome, name
        assert any(said in f"{check.kernel}, {check.access}: {check.message}" for check in verdict.checks), name
    assert judged(TURN, linted(TURN), TURN, linted(TURN, 1024, None)).changes == (
        Change("turn", "LDS", None, None, 32, 32), Change("turn", "STS", 1024, 32, 32, 32),
    )  # fmt: skip


def test_of_the_same_launch_it_is_said_what_a_change_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def taking(cycles: float, kernel: KernelLint) -> KernelLint:
        exact = Span(point=cycles, low=cycles, high=cycles)
        assert kernel.profile is not None
        return replace(kernel, profile=replace(kernel.profile, simulated=Simulated(cycles=exact, saved=exact)))

    before = taking(1000, linted(TURN))
    (said,) = judged(TURN, taking(1200, linted(TURN, 1024)), TURN, before).notes
    assert said.startswith("turn would take an estimated 20% more cycles on an H100 (")
    assert "than in main" in said
    for other in (taking(1000, linted(TURN)), taking(1200, linted(TURN, n=64)), linted(TURN)):
        assert judged(TURN, other, TURN, before).notes == ()


def test_a_kernel_that_was_not_there_is_judged_as_a_whole_and_of_one_that_was_not_run_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    now = linted(TURN, 1024)
    assert judged(TURN, now, "").checks == now.checks
    assert judged(TURN, now, "", linted(TURN, 1024), replace(now, name="other")).outcome is PASS
    (check,) = judged(TURN, now, "", unknown=("turn.cu of main was not judged",)).checks
    assert (check.outcome, check.message.rpartition("; ")[2]) == (
        OPEN,
        "unknown in main: turn.cu of main was not judged",
    )
    broken = KernelLint(name="turn", checks=(replace(now.checks[0], message="could not compile turn.cu"),))
    (check,) = judged(TURN, now, "", broken).checks
    assert (check.outcome, check.message.rpartition("; ")[2]) == (OPEN, "unknown in main: could not compile turn.cu")


def test_bounds_that_were_left_before_are_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def leaving(line: int) -> KernelLint:
        check = Check(outcome=FAIL, kernel="turn", criterion=BOUNDS, message="outside", place=Place("turn.cu", line))
        return replace(linted(TURN), checks=(check,))

    for now, then, outcome in ((6, 4, PASS), (6, 6, FAIL), (1, 4, FAIL)):
        (check,) = judged(MOVED, leaving(now), TURN, leaving(then)).checks
        assert check.outcome is outcome, (now, then)
        assert check.message == ("as in main: outside" if outcome is PASS else "outside")


# ----------------------------------------------------------------------------- what its command lines do not say


def test_without_a_compiler_nothing_is_judged(sources: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nothing can be compiled here"):
        list(linting.lint_kernels(["own.cu"], KernelDescription(), Request(nvcc=sources / "nowhere")))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max-degree is 0\.5"):
        linting.policy(LintOptions(max_degree=("0.5",)))
    with pytest.raises(UsageError, match="unknown access kind 'LDX'"):
        linting.policy(LintOptions(max_degree=("LDX=2",)))


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_no_note_is_lost_for_the_words_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch is said, whatever the kernel is called and whatever the reason says."""
    launch = description(grid="1", block="32", args=("y=float32[32]:out",))
    for why in ("the block at (0, 0, 0) ended", "a branch on an unknown value"):
        monkeypatch.setattr(run, "global_accesses", lambda *_, why=why: GlobalAccesses(lacking=why))
        (kernel,) = linting.lint_kernels(["known.cu"], launch, Request(no_cache=True))
        assert f"sum_unknown: the bounds of global accesses were not checked: {why}." in kernel.notes
