"""Every count of every access as an H100 counted it, of the stress kernels and of kernels written in Python.

No compiler is needed: what was recorded has the cubins and their SASS.
"""

import hashlib
import json

import numpy as np
import pytest

from bench.counted import counted
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.kernels import fills, output
from ncu_swizzle.kernels.toolchain import NVDISASM
from tests.support.marks import needs
from tests.support.places import RECORDED_STRESS, STRESS
from tests.support.python_kernels import launched, recorded
from tests.support.stress import KERNELS, NEEDS_RECORDING, Recordings, launch_of

TOGETHER = pytest.mark.xdist_group("stress")  # the recording is read once
# How often its loops go round is the hardware's.
UNKNOWN = {"atomics-spin"}


def test_there_are_enough_of_them_and_each_has_a_reference() -> None:
    assert len(KERNELS) >= 40
    for family, kernel in KERNELS.values():
        problem, rng = family.problem(), np.random.default_rng(0)
        assert family.source(kernel).is_file()
        expected = output.expected_outputs(family, problem, fills.inputs(family, problem, rng), rng)
        assert expected.keys() == {argument.name for argument in family.arguments if argument.output}


@pytest.mark.long
@NEEDS_RECORDING
@TOGETHER
def test_what_was_recorded_is_what_is_here(recordings: Recordings) -> None:
    facts = json.loads((RECORDED_STRESS.parent / "facts.json").read_text(encoding="utf-8"))
    assert recordings.keys() == KERNELS.keys()
    assert facts["failed"] == {}
    for file, digest in facts["sources"].items():
        assert hashlib.sha256((STRESS / file).read_bytes()).hexdigest() == digest, f"{file}: record it again"


@NEEDS_RECORDING
@TOGETHER
@pytest.mark.parametrize("name", KERNELS)
def test_every_count_is_the_gpus(name: str, recordings: Recordings) -> None:
    profile, _, _ = recordings[name]
    first = profile.instructions[0].pc
    rows = {row.offset: row for row in emulate(*launch_of(name, recordings), exhaustive=True).rows}
    different = []
    for one in profile.instructions:
        if not one.access:
            continue
        row = rows[one.pc - first]
        found, counted = (row.executed, row.wavefronts, row.ideal), (one.executed, one.wavefronts, one.ideal)
        known = None not in found
        assert known or row.reason
        if found != counted and (known or name not in UNKNOWN):
            different.append(f"{one.sass} at {one.pc - first:#x}: {found}, on the GPU {counted}; {row.reason}")
    assert not different, "\n".join(different)


@pytest.mark.long
@NEEDS_RECORDING
@TOGETHER
def test_every_kernel_can_be_emulated_from_its_binary(
    recordings: Recordings,
) -> None:
    """Block class by block class; only what the hardware alone decides may stay unknown."""
    for name in KERNELS:
        check_emulated(name, emulate(*launch_of(name, recordings)))


def check_emulated(name: str, counts: Counts) -> None:
    assert counts.global_accesses.blocks, name
    assert not counts.global_accesses.lacking, name
    assert not counts.global_accesses.outside, f"{name}: a kernel that is right causes no alarm"
    touched = [row for row in counts.rows if row.access]
    assert touched
    if name in UNKNOWN:
        assert counts.unknown
        assert all(row.reason for row in counts.unknown)
    else:
        assert not counts.unknown, [(row.sass, row.reason) for row in counts.unknown]


# ------------------------------------------------------------------------------------- kernels written in Python


NAMES = sorted(recorded()[0]["kernels"])


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
def test_every_count_of_a_kernel_in_python_is_the_gpus(name: str) -> None:
    row = counted(name)
    assert [access for access in row.accesses if not access.equal] == [], row.notes
    assert not row.figures["different"], "threads, predicated-on threads, sectors, tags, divergence"
    assert row.figures["equal"] >= 0.85 * row.figures.total()
