"""Every count of every access as an H100 counted it, of the stress kernels and of kernels written in Python.

No compiler is needed: what was recorded has the cubins and their SASS.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from bench.oracles.counted import counted
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.explain import predict
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.kernels import catalog, fills, references
from ncu_swizzle.kernels.toolchain import NVDISASM, Toolchain
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from tests.support.marks import NEEDS_ALL, needs
from tests.support.places import DATA, RECORDED_STRESS, STRESS
from tests.support.python_kernels import launched, recorded
from tests.support.stress import KERNELS, NEEDS_RECORDING, Recordings, launch_of

# How often its loops go round is the hardware's.
UNKNOWN = {"atomics-spin"}
DEAR = {"bitonic", "division", "index-array", "loops-and-breaks", "narrow-types", "rotate", "scan", "sgemm-edges",
        "shape-1x1", "stmatrix-all", "switch-dense", "triangular", "vote-loop", "votes", "warp-roles",
        "wmma-tiles"}  # fmt: skip


def test_there_are_enough_of_them_and_each_has_a_reference() -> None:
    assert len(KERNELS) >= 40
    for family, kernel in KERNELS.values():
        problem, rng = family.problem(), np.random.default_rng(0)
        assert family.source(kernel).is_file()
        expected = references.expected_outputs(family, problem, fills.inputs(family, problem, rng), rng)
        assert expected.keys() == {argument.name for argument in family.arguments if argument.output}


@pytest.mark.long
@NEEDS_RECORDING
def test_what_was_recorded_is_what_is_here(recordings: Recordings) -> None:
    facts = json.loads((RECORDED_STRESS.parent / "facts.json").read_text(encoding="utf-8"))
    assert recordings.keys() == KERNELS.keys()
    assert facts["failed"] == {}
    for file, digest in facts["sources"].items():
        assert hashlib.sha256((STRESS / file).read_bytes()).hexdigest() == digest, f"{file}: record it again"


@NEEDS_RECORDING
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in DEAR)) for n in KERNELS])
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
def test_every_kernel_can_be_emulated_from_its_binary(recordings: Recordings) -> None:
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


NAMES = sorted(recorded()[0]["kernels"])


QUICK = ("softmax", "cuda-turn", "gluon-transpose-plain", "cutile-matmul-f16-64x64x32")
# Data decide whether a division takes its slow path, and with that which warps wait for each other: the share of
# figures that is known. Of those in UNSURE, some accesses to shared memory are unknown, too.
LESS_KNOWN = {"cutile-softmax": 0.7, "cutile-attention-128x64": 0.65, "cutile-attention-64x128": 0.8}
UNSURE = {"cutile-layer-norm": 0.1, "cutile-attention-64x128": 0.8}
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
    wrong = [access for access in row.accesses if not access.equal and not (access.unknown and name in UNSURE)]
    assert wrong == [], row.notes
    assert not row.figures["different"], "threads, predicated-on threads, sectors, tags, divergence"
    assert row.figures["equal"] >= {**LESS_KNOWN, **UNSURE}.get(name, 0.85) * row.figures.total()


FEW = ("sm_75", "sm_90", "sm_120")
OTHERS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_121")


def source(name: str) -> str:
    return (DATA / "engines" / f"{name}.cu").read_text(encoding="utf-8")


def counts(profile: Profile) -> dict[str, tuple[int | None, ...]]:
    totals: Counter[tuple[str, int]] = Counter()
    for one in profile.shared():
        for place, number in enumerate((one.executed, one.wavefronts, one.ideal)):
            assert number is not None, (one.sass, profile.notes)
            totals[one.access, place] += number
    return {access: tuple(totals[access, place] for place in range(3)) for access, _ in totals}


@NEEDS_ALL
@pytest.mark.parametrize("archs", [FEW, pytest.param(OTHERS, marks=pytest.mark.long)], ids=["few", "others"])
def test_an_architecture_that_was_not_measured_has_the_counts_of_sm_90_and_says_so(
    emulated: Callable[..., Profile], archs: tuple[str, ...]
) -> None:
    matrix = np.zeros((128, 128), np.float32)
    for arch in archs:
        profile = emulated(source("turn"), "turn", arch, [matrix, matrix, np.int32(128).tobytes()], (32, 8))
        assert counts(profile) == {"STS": (512, 512, 512), "LDS": (512, 16384, 512)}, arch
        mark = "" if arch.startswith("sm_90") else "rule measured on sm_90"
        assert profile.rule_from == mark, arch
        assert (f"turn: wavefronts: {mark}." in profile.notes) == bool(mark), arch
        assert (f"turn: wavefronts: {mark}." in compare([profile]).warnings) == bool(mark), arch
        (check, *_) = judge([profile], Policy()).checks
        assert check.message.endswith(f" allowed ({mark})" if mark else " allowed"), arch


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("name", [kernel.name for family, kernel in catalog.shipped() if family.never_run])
def test_kernels_that_never_ran_are_followed_to_their_end_and_have_their_degrees(name: str) -> None:
    target = catalog.shipped().target(name, {"n": 512})
    emulated = emulation.emulate_target(target, EmulationSettings(Toolchain()))
    assert not emulated.counts.tiles.misfits
    assert not emulated.counts.tiles.lacking
    assert emulated.counts.tiles.followed
    shared = [one for one in emulated.profile.shared() if not one.access.startswith("UTC")]
    for access, degree in target.kernel.degree.items():  # others have none
        assert degree == max((one.wavefronts or 0) / (one.ideal or 1) for one in shared if one.access == access)


SMALL = {
    "attention": {"batch": 1, "heads": 2, "seq": 192},
    "tma": {"n": 256},
    "wgmma": {"n": 768},
}  # odd multiples of the tiles
EARLY = ("wgmma-none", "wgmma-32", "wgmma-64", "wgmma-128", "wgmma-ring", "wgmma-wide", "wgmma-specialised")
TILED = [
    pytest.param(family.name, kernel.name, marks=[pytest.mark.slow] * (kernel.name in EARLY))
    for family, kernel in catalog.shipped().run()
    if not kernel.library and (kernel.arch or kernel.name.startswith("tma-stream"))
]


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(("family", "name"), TILED)
def test_the_emulator_counts_what_the_tiles_predict(family: str, name: str) -> None:
    target = catalog.shipped().target(name, SMALL[family])
    profile = emulation.emulate_target(target, EmulationSettings(Toolchain())).profile
    checks = predict.checked_against(predict.target_predictions(target), profile)
    assert {check.predicted.access: check.verdict for check in checks} == dict.fromkeys(target.kernel.degree, "equal")
