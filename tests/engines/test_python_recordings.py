"""Kernels written in Python: every access as an H100 counted it, from the cubins that their compilers made there."""

from typing import Any

import pytest

from ncu_swizzle.kernels.toolchain import NVDISASM
from tests.support.marks import needs
from tests.support.python_kernels import counted, launched, recorded

NAMES = sorted(recorded()[0]["kernels"])


def columns(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return ncu's columns besides those of shared memory; a library that the GPU's machine lacked has none."""
    found: dict[str, dict[str, int]] = facts["counts"].get("columns", {})
    return found


QUICK = ("softmax", "cuda-turn", "gluon-transpose-plain")
LONG = ("transpose-py-32x32", "matmul-f16-32x32x16", "numba-transpose")
TIERED = [pytest.param(n, marks=pytest.mark.long if n in LONG else pytest.mark.slow) for n in NAMES if n not in QUICK]


def test_outputs_with_a_reference_were_right() -> None:
    errors = {name: facts["errors"] for name, facts in recorded()[0]["kernels"].items() if facts["errors"]}
    assert {"matmul-persistent", "softmax", "layer-norm", "transpose-f16", "numba-matmul", "cuda-turn"} <= errors.keys()
    for name, by_output in errors.items():
        tolerances = {argument.name: argument.tolerance for argument in launched(name).family.arguments}
        assert all(error <= tolerances[output] for output, error in by_output.items()), name


def test_no_folder_of_the_machine_is_recorded() -> None:
    content, _ = recorded()
    accesses = [access for facts in content["kernels"].values() for access in facts["counts"]["accesses"]]
    files = {place[0] for *_, place in accesses if isinstance(place, list)}
    assert files
    assert {file for file in files if not file.startswith(("/tmp/ncu-swizzle/", "/site-"))} == set()


@needs(NVDISASM)
@pytest.mark.parametrize("name", [*QUICK, *TIERED])
def test_every_count_is_the_gpus(name: str) -> None:
    row = counted(name)
    assert [access for access in row.accesses if not access.equal] == [], row.notes
    assert not row.figures["different"], "threads, predicated-on threads, sectors, tags, divergence"
    assert row.figures["equal"] >= 0.85 * row.figures.total()
