"""References of users' own kernels: how they are called, and which mistakes are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels import __main__, fills, naming, output, project
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.project import specs
from tests.support.own_kernel import EXAMPLE, KERNEL, description, own
from tests.support.places import table
from tests.support.refusals import refused, unlike


def described(folder: Path, code: str, reference: str = "reference.py:fn") -> Family:
    """Return a family with the reference `code`."""
    own(folder, KERNEL.replace("block", f'reference = "{reference}"\nblock'))
    (folder / "reference.py").write_text(code, encoding="utf-8")
    (spec,) = specs(project.project_in(folder / "ncu-swizzle.toml"))
    return naming.family_of(folder / "my.cu", description(), (spec,))


def expected(family: Family) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    problem = family.problem()
    found = output.expected_outputs(family, problem, fills.inputs(family, problem, rng), rng)
    return {name: values for name, (_, values) in found.items()}


def test_a_reference_is_called_with_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def turn(x): return x.T", encoding="utf-8")
    for code in (
        "def fn(x): return x.T",
        "def fn(n, x): return {'y': x.reshape(n, n).T}",
        "def fn(inputs, problem, rng): return {'y': (..., inputs['x'].T)}",
        "import helper\ndef fn(x, unused=3): return helper.turn(x)",
    ):
        family = described(tmp_path, code)
        x = fills.inputs(family, family.problem(), np.random.default_rng(1))["x"]
        assert expected(family)["y"].tolist() == x.T.astype(float).tolist(), code


def test_a_module_s_expected_is_called_as_the_catalogue_s_are(tmp_path: Path) -> None:
    family = described(tmp_path, "def expected(i, p, r): return {'y': ((0,), i['x'][:, 0])}", "reference.py")
    assert expected(family)["y"].shape == (64,)
    inputs = fills.inputs(family, family.problem(), np.random.default_rng(1))
    shipped = replace(family, reference="ncu_swizzle.kernels.references.transpose")
    with pytest.raises(
        UsageError, match=r"reference ncu_swizzle\.kernels\.references\.transpose failed: KeyError: 'in'"
    ):
        output.expected_outputs(shipped, family.problem(), inputs, np.random.default_rng(1))


WRONG = table("kernels/descriptions.toml")["references"]


def test_a_reference_that_is_wrong_or_missing_is_told(tmp_path: Path) -> None:
    told = {code: rf"^UsageError: .*{said}(?s:.*)\n  try: ." for code, said in WRONG.items()}
    assert not unlike(told, lambda code: refused(lambda: expected(described(tmp_path, code))))
    family = described(tmp_path, "")
    (tmp_path / "reference.py").unlink()
    assert "reference.py does not exist" in refused(expected, family)


def test_the_example_s_reference_is_a_transpose() -> None:
    (spec,) = specs(project.project_in(EXAMPLE / "ncu-swizzle.toml"))
    family = naming.family_of(EXAMPLE / "my.cu", description(problem={"n": 32}), (spec,))
    x = fills.inputs(family, {"n": 32}, np.random.default_rng(1))["x"]
    assert expected(family)["y"].tolist() == x.T.astype(float).tolist()


def test_rows_of_zeros_are_right_or_wrong_and_nan_is_never_right() -> None:
    for out, right, error in (
        ([0, 0], [0, 0], 0), ([0, 1], [0, 0], np.inf), ([0, np.nan], [0, 0], np.inf), ([1, 1], [1, np.nan], np.inf),
    ):  # fmt: skip
        assert __main__.row_error(np.array([out, [1, 1]], float), np.array([right, [1, 1]], float)) == error, out
