"""Predictions: equal to what was recorded on an H100, for every catalogue kernel whose accesses are declared."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import BadFile, BadProblem, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.smem import access, lanes
from ncu_swizzle.smem.wavefronts import wavefronts
from tests.support.places import DATA
from tests.support.recordings import Recorded

CATALOG = catalog.shipped()
OWN = {family.name: [kernel.name for kernel in family.kernels if not kernel.library] for family, _ in CATALOG.run()}


@pytest.mark.parametrize("family", OWN)
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


def test_a_csv_of_addresses(tmp_path: Path) -> None:
    file = tmp_path / "lanes.csv"
    file.write_text(",".join(str(128 * i) for i in range(32)) + "\n" + ",".join(["0x80"] * 16 + [""] * 16) + "\n")
    (found,) = lanes.read(file, "ld.shared.b32")
    counted = wavefronts(found.op, found.addresses, found.active)
    assert counted.actual.tolist() == [32, 1]
    assert found.active.sum(axis=1).tolist() == [32, 16]
    assert found.measured is None
    headed = tmp_path / "headed.csv"
    headed.write_text(",".join(f"lane{i}" for i in range(32)) + "\n" + file.read_text(encoding="utf-8"))
    assert (lanes.read(headed, "ld.shared.b32")[0].addresses == found.addresses).all()


def test_a_csv_that_names_its_operations_and_measurements() -> None:
    file = DATA / "wavefronts_h100.csv.gz"
    found = {requests.op: requests for requests in lanes.read(file)}
    stores = found["st.shared.v4.b32"]
    assert stores.measured is not None
    counted = wavefronts(stores.op, stores.addresses, stores.active)
    assert (np.stack([counted.actual, counted.ideal], axis=1) == stores.measured).all()


def test_a_csv_says_where_copies_read(tmp_path: Path) -> None:
    file = tmp_path / "copies.csv"
    there, back = (" ".join(str(16 * lane) for lane in lanes_) for lanes_ in (range(32), reversed(range(32))))
    file.write_text(f"op,lane_addresses,source_addresses\ncp.async.cg.16,{there},{back}\n", encoding="utf-8")
    (found,) = lanes.read(file)
    assert found.source[0, :2].tolist() == [496, 480]


def test_a_csv_that_cannot_be_used(tmp_path: Path) -> None:
    rows = {
        "": "has no requests",
        "op,lane_addresses,source_addresses\ncp.async.cg.16," + "0 " * 32 + ",0 1\n": "2 source addresses",
        "1,2,3\n": "3 addresses instead of 32",
        ",".join(["0"] * 32) + "\n": "no operation",
        ",".join(["x"] * 32) + "\n" + ",".join(["y"] * 32): "invalid literal",
        "op,lane_addresses\nld.shared.b32,0 4 8\n": "3 addresses",
        "op,lane_addresses\nld.shared.b32\n": "row 2",
    }
    file = tmp_path / "bad.csv"
    for text, said in rows.items():
        file.write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match=said) as refused:
            lanes.read(file)
        assert refused.value.hint
    with pytest.raises(BadFile, match="does not exist"):
        lanes.read(tmp_path / "none.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"0," * 999)[:-9])
    with pytest.raises(BadFile, match="cannot be read"):
        lanes.read(tmp_path / "cut.csv.gz")
