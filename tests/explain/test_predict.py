"""Predictions: equal to what was recorded on an H100, for every catalogue kernel whose accesses are declared."""

from dataclasses import replace

import pytest

from ncu_swizzle.base.errors import BadProblem, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.smem import access
from tests.support.recordings import Recorded

CATALOG = catalog.shipped()
OWN = {family.name: [kernel.name for kernel in family.kernels if not kernel.library] for family, _ in CATALOG.run()}


LARGE = ("attention", "gemm", "wgmma")


@pytest.mark.parametrize("family", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in OWN])
def test_what_is_predicted_is_what_was_recorded(family: str, recorded: Recorded) -> None:
    for name in OWN[family]:
        predictions = predict.target_predictions(CATALOG.target(name))
        checks = predict.checked_against(predictions, recorded(name))
        assert {check.predicted.access for check in checks} == set(recorded(name).accesses), "no access is left out"
        unequal = [(check.predicted.access, check.verdict) for check in checks if not check.equal]
        assert unequal == [], name
        assert all(check.verdict.startswith("equal") for check in checks)


def test_differences_are_explained(recorded: Recorded) -> None:
    family, kernel = CATALOG.named("kernel1")
    predictions = predict.target_predictions(Target(family, kernel, family.problem()))
    by_access = {check.predicted.access: check for check in predict.checked_against(predictions, recorded("kernel1"))}
    assert {check.verdict for check in by_access.values()} == {"equal"}
    other = {check.predicted.access: check for check in predict.checked_against(predictions, recorded("kernel2"))}
    assert other["LDSM"].verdict.startswith("differs")
    assert not other["LDSM"].equal
    few = [one for one in predictions if one.access != "STS"]
    left_out = {check.predicted.access: check for check in predict.checked_against(few, recorded("kernel1"))}
    assert left_out["STS"].verdict.startswith("differs"), "an access that nobody declared is not overlooked"
    without = replace(recorded("kernel1"), instructions=())
    assert {check.verdict for check in predict.checked_against(predictions, without)} == {"not executed"}


def test_predictions_scale_with_the_problem() -> None:
    family, kernel = CATALOG.named("transpose-plain")
    small, large = (predict.target_predictions(Target(family, kernel, family.problem({"n": n}))) for n in (64, 128))
    assert [4 * (one.wavefronts or 0) for one in small] == [one.wavefronts for one in large]
    with pytest.raises(BadProblem, match="ends within a tile"):
        predict.target_predictions(Target(family, kernel, family.problem({"n": 100})))


def test_what_is_not_declared_is_refused() -> None:
    family, library = CATALOG.named("reference-attention")
    with pytest.raises(UsageError, match="library kernel"):
        tiles_of(Target(family, library, family.problem()))
    _, kernel = CATALOG.named("kernel1")
    with pytest.raises(UsageError, match="of the family other are not declared"):
        tiles_of(Target(replace(family, name="other"), kernel, family.problem()))
    with pytest.raises(UsageError, match="names no layout policy"):
        _ = catalog.KernelSource("nothing").policy
    with pytest.raises(UsageError, match="sum_rows"):
        catalog.KernelSource("nothing").argument("sum_rows")


# ---------------------------------------------------------------------------------------------- patterns


def test_expressions() -> None:
    rows = [
        ("tid", 32, list(range(32))),
        ("tid * 4 + 128", 32, [4 * i + 128 for i in range(32)]),
        ("(lane ^ warp) << 2", 64, [(i % 32 ^ i // 32) * 4 for i in range(64)]),
        ("tid / 8 % 2", 32, [i // 8 % 2 for i in range(32)]),
        ("lane < 4", 32, [1] * 4 + [0] * 28),
        ("-(~tid)", 32, [i + 1 for i in range(32)]),
        ("7", 32, [7] * 32),
    ]
    assert [access.evaluate(text, threads).tolist() for text, threads, _ in rows] == [values for _, _, values in rows]


def test_expressions_that_are_none() -> None:
    for text in (
        "", "tid +", "tid // 0", "tid % (tid - tid)", "tid << 99", "tid << -1", "bank", "open('x')", "tid ** 9", "1.5",
        "True", "9" * 30, "tid * 99999999999 * 99999999999", "(" * 300 + "tid" + ")" * 300, "[tid]",
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            access.evaluate(text)
        assert refused.value.hint, text


def test_whole_warps_of_one_block() -> None:
    for threads in (0, 16, 33, 2048):
        with pytest.raises(UsageError, match=str(threads)):
            access.evaluate("tid", threads)
