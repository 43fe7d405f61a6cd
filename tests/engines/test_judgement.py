"""What the judge says of kernels that do the work of another one, and of those that look as if they did."""

import json
from pathlib import Path

import pytest

import ncu_swizzle
from bench.attacks import results
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.engines import executed
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executed import ReadyTarget
from ncu_swizzle.engines.judgement import Judged
from ncu_swizzle.kernels.family import Target
from tests.support.marks import NEEDS_ALL
from tests.support.process import Typed

pytestmark = NEEDS_ALL
TOLD = results.TOLD
QUICK = "zeros"
KERNELS = [
    pytest.param(expected, each, id=each["name"], marks=() if each["name"] == QUICK else pytest.mark.slow)
    for expected in ("same", "cheat")
    for each in TOLD[expected]
]


@pytest.mark.parametrize(("expected", "each"), KERNELS)
def test_only_what_does_the_work_is_accepted(tmp_path: Path, expected: str, each: dict[str, str]) -> None:
    work = each.get("work", "")
    found = results.judged(tmp_path, results.source(each["body"], each.get("more", ""), work), work)
    assert (found.outcome is Judged.SAME) is (expected == "same"), found.reasons
    assert bool(found.reasons) is (expected == "cheat")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("right at first", "is 1.0, not"),
        ("by the clock", "out is not all known at n=256: CS2R.32"),
        ("a race", "RACE001 at after.cu:7"),
    ],
)
def test_the_reason_is_the_one(tmp_path: Path, name: str, said: str) -> None:
    (each,) = (each for each in TOLD["cheat"] if each["name"] == name)
    (reason,) = results.judged(tmp_path, results.source(each["body"], each.get("more", ""))).reasons
    assert said in reason


@pytest.mark.long
def test_the_same_kernels_get_the_same_verdict(tmp_path: Path) -> None:
    one, other = (results.judged(tmp_path, results.source("$WORK")) for _ in range(2))
    assert one == other
    first, near, *small = (case.problem["n"] for case in one.cases)
    assert first == 256
    assert 128 < near <= 288
    assert all(size <= 128 for size in small)
    assert one.costs.wavefronts[0] == one.costs.wavefronts[1] > 0
    assert one.costs.sectors[0] == one.costs.sectors[1] > 0


@pytest.mark.long
def test_where_the_first_kernel_does_not_run_the_described_size_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "DESCRIBED", results.DESCRIBED.replace("n // 32, n // 32", "8, 8"))
    one = results.judged(tmp_path, results.source("$WORK"))
    assert one.outcome is Judged.SAME, one.reasons
    assert len(one.cases) == 4
    assert all(case.problem["n"] >= 256 for case in one.cases)  # of fewer, so many blocks leave the buffers


@pytest.mark.long
def test_a_kernel_without_work_cannot_be_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(results.PARTS, "WORK", "out[a * n + b] = 1;")
    found = results.judged(tmp_path, results.source("$WORK"))
    assert found.outcome is Judged.UNKNOWN
    assert "depends on its inputs" in found.reasons[0]


@pytest.mark.long
@pytest.mark.parametrize(("body", "status"), [("$WORK", 0), ("out[a * n + b] = 0;", 1)])
def test_the_command_ends_with_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: str, status: int
) -> None:
    results.judged(tmp_path, results.source(body))  # writes the two
    typed = Typed(tmp_path, monkeypatch, capsys)
    compiled: list[str] = []
    compile_ = executed.compiled

    def counted(target: Target, settings: EmulationSettings) -> ReadyTarget:
        compiled.append(target.name)
        return compile_(target, settings)

    monkeypatch.setattr(executed, "compiled", counted)
    done = typed("judge before after --no-cache --json found.json")
    assert done.returncode == status
    assert compiled == ["before", "after"], "once each, for eight runs"
    assert ("type again: ncu-swizzle judge before after" in done.stderr) is bool(status)
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["outcome"] == ("refused" if status else "same")
    assert bool(found["reasons"]) is bool(status)


def test_outputs_of_a_kernel_as_arrays() -> None:
    out = ncu_swizzle.run("transpose-xor", problem={"n": 40})["out"]
    again = ncu_swizzle.run("transpose-plain", {"in": out}, problem={"n": 40})["out"]
    assert (ncu_swizzle.run("transpose-xor", {"in": again}, problem={"n": 40})["out"] == out).all()


def test_other_buffers_are_not_compared() -> None:
    with pytest.raises(UsageError, match="different buffers"):
        ncu_swizzle.judge("transpose-plain", "gemm-plain")
