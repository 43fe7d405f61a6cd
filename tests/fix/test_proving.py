"""Correct fixes are proved, and nothing else is: not what data decide, nor versions that are wrong in any way."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.results import Results
from ncu_swizzle.engines.emulation import EmulationSettings, executable
from ncu_swizzle.fix import proving, values
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.proving import prove, prove_version
from tests.support import fixes
from tests.support.fixes import (
    FIXES,
    PLAIN,
    REFUSED,
    XOR,
    OnceEmulated,
    adversaries,
    array,
    padded,
    specs,
    swizzled,
    with_text,
)
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL
TIERS = {
    "rows-transpose": (),
    "async-columns": (),
    "carved-matmul": pytest.mark.long,
    "ldmatrix-gemm": pytest.mark.long,
}
ADVERSARIES = adversaries()
LONG, SLOW = ("edges", "ticket", "blocks", "turned", "copies", "reduction"), ("queue", "list", "clock", "zeros")
MARKS = dict.fromkeys(LONG, "long") | dict.fromkeys(SLOW, "slow")
NAMED: dict[str, dict[str, tuple[str, Location | None]]] = {  # reasons, with their lines
    "copies": {"it waits for one copy fewer": (
        "synchronises by DEPBAR.LE SB0, 0x1, and the new kernel does not do so here", None,
    )},
    "turned": {
        "one block of 4,000 writes another column": ("writes tile[", ("turned.cu", 6)),
        "one block reads and writes an element more": ("block (7, 0, 0)", None),  # although the results are the same
    },
}  # fmt: skip


def refuted(proof: Proof, about: About = About.MEANING) -> Claim:
    """Return the claim that fails."""
    claim = proof.claim(about)
    assert claim.state is ClaimState.FAILED, claim
    return claim


@pytest.mark.parametrize("name", [pytest.param(name, marks=TIERS.get(name, pytest.mark.slow)) for name in FIXES])
def test_a_correct_fix_is_proved(name: str, tmp_path: Path, settings: EmulationSettings) -> None:
    before, after = fixes.apply(name, tmp_path)
    proof = prove(before, after, FIXES[name].moved, settings)
    assert proof.held, proof.obstacle
    assert [claim.about for claim in proof.claims] == [About.REBUILT, About.EXCESS, About.MEANING, About.RESOURCES]
    assert set(proof.after.moved.values()) == {0}
    assert all(proof.before.moved.values())
    accesses, results, others = proof.compared
    assert accesses.endswith(": the same")
    assert "unknown" not in results
    assert "no results" not in results
    assert others.startswith("other launches: not traced")
    if name == "carved-matmul":
        shared = proof.resources_before.shared_dynamic, proof.resources_after.shared_dynamic
        assert shared == (8192, 8192 + 128)
        assert "8,320 bytes of shared memory per block for 8,192" in proof.claims[-1].reason


@pytest.mark.long
def test_what_data_decide_cannot_be_proved(once_emulated: OnceEmulated) -> None:
    for name, (reason, file, line) in REFUSED.items():
        if name == "refused-registers":  # by what the patch costs
            continue
        kernel = once_emulated(name)
        outcome = proving.compare(kernel, kernel, [], 60)
        assert outcome.state is ClaimState.UNKNOWN, name
        assert outcome.reason.startswith(reason)
        assert outcome.line == (file, line)


def test_a_wrong_version_of_a_fix_is_refused(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    old, fix = once_emulated("rows-transpose"), FIXES["rows-transpose"]
    target, fixed = fixes.apply("rows-transpose", tmp_path)
    (subscript, mapped), *_ = fix.edits
    forgotten = with_text(target, fix.text(target).replace(mapped, subscript), tmp_path / "forgotten")
    claim = refuted(prove_version(old, forgotten, fix.moved, settings))
    assert claim.line == ("rows_transpose.cu", 11)
    assert "writes tile[" in claim.reason
    elsewhere = array("tile", 1024, 4, lambda i: swizzled(32)(i) ^ 1)
    refuted(prove_version(old, fixed, [elsewhere], settings))
    broken = with_text(target, "__global__ void transpose(int) { nothing }", tmp_path / "broken")
    proof = prove_version(old, broken, [], settings)
    assert proof.obstacle == refuted(proof, About.REBUILT)


@pytest.mark.long
def test_a_version_with_another_race_is_refused_and_one_with_the_same_race_is_not(
    tmp_path: Path, settings: EmulationSettings
) -> None:
    racing, moved = replace(settings, races=True), FIXES["rows-transpose"].moved
    target, fixed = fixes.apply("rows-transpose", tmp_path)
    old, new = (
        with_text(
            each, each.source.read_text(encoding="utf-8").replace("__syncthreads()", "__syncwarp()"), tmp_path / name
        )
        for each, name in ((target, "old"), (fixed, "new"))
    )
    claim = refuted(prove_version(executable(target, racing), new, moved, racing))
    assert claim.reason.startswith("it adds a hazard: RACE001, thread (1, 0, 0) reads byte 0x484")
    assert "writes at rows_transpose.cu:11" in claim.reason
    assert proving.added_hazard(executable(old, racing), executable(new, racing)) == ""


def test_a_fix_that_leaves_conflicts_is_refused_unless_they_are_allowed(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, old = specs()["rows-transpose"], once_emulated("rows-transpose")
    half = target.source.read_text(encoding="utf-8").replace("tile[32][32]", "tile[32][34]")
    moved = array("tile", 1024, 4, padded(32, 2), after=32 * 34)
    after = with_text(target, half, tmp_path)
    proof = prove_version(old, after, [moved], settings)
    assert proof.obstacle == refuted(proof, About.EXCESS)
    assert "tile still has" in proof.obstacle.reason
    allowed = replace(moved, least=proof.after.moved["tile"] or 0, reason="as little as possible")
    assert prove_version(old, after, [allowed], settings).held


@pytest.mark.long
def test_other_results_are_found_where_the_accesses_are_the_same(
    tmp_path: Path, settings: EmulationSettings, once_emulated: OnceEmulated
) -> None:
    target, fix, kernel = specs()["ldmatrix-gemm"], FIXES["ldmatrix-gemm"], once_emulated("ldmatrix-gemm")
    text = fix.text(target).replace("mma(sums[0], fa, fb[0], fb[2])", "mma(sums[0], fa, fb[2], fb[0])")
    claim = refuted(prove_version(kernel, with_text(target, text, tmp_path), fix.moved, settings))
    assert "of c, which block" in claim.reason
    itself = values.compare(kernel, kernel, [(0, 0, 0), (3, 1, 0)], 60)
    assert itself.complete
    assert itself.same == 2 * 32 * 32 * 4


@pytest.mark.parametrize("version", [0, 1], ids=["before", "after"])
def test_what_one_version_writes_or_loads_otherwise_is_found(
    version: int, once_emulated: OnceEmulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, results = once_emulated("rows-transpose"), values.results

    def compared(does: str = "written", **first: int) -> values.Values:
        """Compare the kernel with itself, but for the first byte that one of both writes or loads."""
        versions = itertools.cycle((0, 1))

        def changed(*asked: Any) -> Results:
            found = results(*asked)
            accesses = getattr(found, does)
            columns = {name: getattr(accesses, name).copy() for name in first}
            for name, column in columns.items():
                column[0] = first[name] if name == "known" else column[0] ^ first[name]
            return replace(found, **{does: replace(accesses, **columns)}) if next(versions) == version else found

        monkeypatch.setattr(values, "results", changed)
        return values.compare(kernel, kernel, [(0, 0, 0)], 60)

    assert (compared().complete, compared().same) == (True, 4096)
    assert (compared(known=0).same, compared(known=0).unknown) == (4095, 1)
    assert "and others differ" in compared(value=1).difference
    for name in ("who", "address"):
        assert "and others are not written by both versions" in compared(**{name: 1}).difference, name
    assert "kernel loads, and the" in compared("loads", address=1 << 20).difference


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=getattr(pytest.mark, MARKS[name]) if name in MARKS else ()) for name in ADVERSARIES],
)
def test_wrong_versions_are_not_proved_and_equal_ones_are(
    name: str, tmp_path: Path, settings: EmulationSettings
) -> None:
    adversary = ADVERSARIES[name]
    old = executable(adversary.target, settings)
    right = prove_version(old, adversary.right(tmp_path), adversary.moved, settings)
    assert right.held, right.obstacle
    versions = {what: adversary.version(what, tmp_path) for what in adversary.wrong}
    wrong = {what: prove_version(old, after, adversary.moved, settings) for what, after in versions.items()}
    assert [what for what, proof in wrong.items() if proof.held] == []
    assert all(proof.claim(About.REBUILT) or proof.claim(About.MEANING) for proof in wrong.values())
    if name == "turned":  # as many blocks as their number of accesses allows
        assert right.compared[1].startswith("258,048 bytes that 63 blocks write for random inputs")
    for what, (reason, line) in NAMED.get(name, {}).items():
        claim = refuted(wrong[what])
        assert reason in claim.reason
        assert line in (None, claim.line), what


@pytest.mark.long
def test_an_access_that_the_launch_does_not_execute_is_named(tmp_path: Path, settings: EmulationSettings) -> None:
    clock = ADVERSARIES["clock"]
    text = clock.target.source.read_text(encoding="utf-8")
    idle = text.replace("time[", "if (at < 0) y[0] = AT(0, at & 63);\n    time[")
    before = with_text(clock.target, idle, tmp_path / "before")
    after = with_text(clock.target, idle.replace(PLAIN, XOR), tmp_path / "after")
    claim = prove(before, after, clock.moved, settings).claim(About.MEANING)
    assert claim.state is ClaimState.UNKNOWN
    assert "does not execute" in claim.reason
    assert claim.line == ("clock.cu", 9)
