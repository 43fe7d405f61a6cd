"""The emulated engine through the commands, compiler and all; skipped where CUDA's tools are not installed."""

import json
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, UnknownKernel, UsageError
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.engines import emulation, profiles
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels import catalog, device, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import reader
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, Profile
from ncu_swizzle.reports.options import Engine
from ncu_swizzle.reports.run_folder import load, load_profile
from tests.support import process
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.places import RECORDINGS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, env={**paths.child_environment(), "COLUMNS": "200"})


def counts(profile: Profile) -> dict[int, tuple[int | None, ...]]:
    """Return executions, wavefronts and ideal wavefronts of the accesses that ran, by offset."""
    first = profile.instructions[0].pc

    def of(one: Instruction) -> tuple[int | None, ...]:
        return one.executed, one.wavefronts, one.ideal

    return {one.pc - first: of(one) for one in profile.instructions if one.access and one.executed}


LONGER = [pytest.param(name, marks=pytest.mark.long) for name in ("transpose-sudoku", "vectors-16-swizzle", "kernel2")]
TURN = [np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32), struct.pack("<i", 32)]


# ---------------------------------------------------------------------------------------------- choosing


def test_auto_prefers_the_gpu_then_computing_then_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "_lacking", lambda request: "")
    assert profiles.choose_engine(Request()) == Engine("ncu")
    monkeypatch.setattr(profiles, "_lacking", lambda request: "no GPU")
    monkeypatch.setattr(Toolchain, "lacking", lambda self, *tools: "")
    assert profiles.choose_engine(Request()) == Engine("emulated", "no GPU", beside=True)
    monkeypatch.setattr(Toolchain, "lacking", lambda self, *tools: "nvdisasm was not found")
    chosen = profiles.choose_engine(Request())
    assert chosen.name == "recorded"
    assert "no GPU" in chosen.reason
    assert "nvdisasm was not found" in chosen.reason
    assert "ncu-swizzle[nvcc]" in chosen.reason
    assert profiles.choose_engine(Request(engine="emulated")) == Engine("emulated")


@pytest.mark.long
def test_a_library_kernel_cannot_be_emulated(work: Path) -> None:
    target = catalog.shipped().target("reference-gemm")
    with pytest.raises(UsageError, match="no source to emulate"):
        emulation.emulate_target(target)
    recalled = profiles.compute(target, Context(request=Request(), engine=Engine("emulated", beside=True), folder=work))
    assert recalled.engine == "recorded"


def test_what_cannot_be_compiled_is_recalled_if_nothing_else_was_asked_for(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> str:
        raise EnvironmentLacking("nvcc needs a C++ compiler beside it", "apt-get install g++")

    monkeypatch.setattr(Toolchain, "compile", lacking)

    def compute(engine: Engine, problem: Mapping[str, int] | None = None) -> Profile:
        target = catalog.shipped().target("transpose-plain", problem or {})
        return profiles.compute(target, Context(request=Request(problem=problem or {}), engine=engine, folder=work))

    recalled = compute(Engine("emulated", beside=True))
    assert recalled.engine == "recorded"
    assert recalled.notes == ("transpose-plain is recorded, not computed: nvcc needs a C++ compiler beside it.",)
    with pytest.raises(EnvironmentLacking):
        compute(Engine("emulated"))
    with pytest.raises(EnvironmentLacking):  # recorded at another size
        compute(Engine("emulated", beside=True), {"n": 64})


# ---------------------------------------------------------------------------------------------- profiles


@pytest.mark.usefixtures("work")
@NEEDS_ALL
@pytest.mark.parametrize("name", ["transpose-plain", "tma-128", *LONGER])
def test_every_count_is_the_recorded_one(name: str) -> None:
    family, kernel = catalog.shipped().named(name)
    made = emulation.emulate_target(Target(family, kernel, family.problem()))
    recorded = reader.read(RECORDINGS / family.name / f"{name}.ncu-rep")[0]
    assert counts(made.profile) == counts(recorded)
    for metric in ("launch__grid_size", "launch__block_size", "launch__registers_per_thread", "launch__thread_count"):
        assert made.profile.metrics[metric] == recorded.metrics[metric]
    assert made.profile.total == recorded.total or made.profile.total.wavefronts == recorded.total.wavefronts
    own = f"kernels/{family.name}/{family.source(kernel).name}"  # the recording has the name that it had then
    stacks = {
        one.pc - recorded.instructions[0].pc: tuple((own if file.endswith(".cu") else file, n) for file, n in one.stack)
        for one in recorded.instructions
        if one.access
    }
    assert {one.pc: one.stack for one in made.profile.instructions if one.pc in stacks} == stacks


@NEEDS_ALL
def test_what_is_compiled_already_is_computed_wherever_it_is(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "_lacking", lambda request: "")
    asked = description(
        KernelDescription(sources=CatalogOptions(config="none")),
        entry="turn",
        grid="1",
        block="32,32",
        args=("x=float32[32,32]:random", "y=float32[32,32]:out", "n=int32:32"),
    )
    ((target,),) = naming.resolve([str(binary)], asked)
    engine = profiles.engine_for(target, Request())
    assert (engine.name, engine.beside) == ("emulated", False)
    assert "own.cubin is already compiled" in engine.reason
    assert profiles.engine_for(catalog.shipped().target("kernel2"), Request()) == Engine("ncu")


@NEEDS_ALL
@pytest.mark.skipif(not device.absent(), reason="about machines without a GPU")
def test_a_run_has_the_computed_profiles_and_the_recorded_reports(work: Path) -> None:
    done = run("profile", "transpose-xor", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "Computed, not measured" in done.stdout
    assert "share of samples (recorded)" in " ".join(done.stdout.split())
    assert "was 1." in done.stdout
    found = load(work / "out")
    assert [one.engine for one in found.profiles] == ["emulated", "emulated"]
    assert all(one.beside.startswith("recorded on NVIDIA H100") for one in found.profiles)
    names = {file.name for file in (work / "out").iterdir()}
    assert {"transpose-xor.cubin", "transpose-xor.ncu-rep", "transpose-xor.facts.json", "report.html"} <= names
    assert reader.read(work / "out" / "transpose-xor.ncu-rep")[0].engine == "recorded"


@NEEDS_ALL
def test_asked_for_it_gives_counts_alone_at_any_size(work: Path) -> None:
    done = run("profile", "transpose-plain", "--engine", "emulated", "--problem", "n=100", "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["engine"], found["speedup"]) == ("emulated", None)
    (profile,) = found["profiles"]
    assert profile["problem"] == {"n": 100}
    assert DURATION not in profile["metrics"]
    assert profile["beside"] == ""
    saved = load_profile(work / "swizzle-out" / "transpose-plain" / "transpose-plain.json")
    assert saved.grid == (4, 4, 1)
    # 16 blocks; in each, 8 warps by 4 steps. Stores are as wide as the warp, whatever is inside of the matrix.
    assert saved.accesses["STS"].executed == 16 * 8 * 4


# ---------------------------------------------------------------------------------------------- binaries


@NEEDS_ALL
def test_bad_binaries_and_launches_are_refused(work: Path, binary: Path) -> None:
    content = binary.read_bytes()
    (work / "cut.cubin").write_bytes(content[: len(content) // 2])
    (work / "text.cubin").write_text("no code")
    with pytest.raises(DamagedFile, match="is damaged"):
        launched(work / "cut.cubin", "turn", LaunchShape(grid=(1,), block=(32, 32)), TURN)
    with pytest.raises(BadFile, match="neither a cubin nor PTX"):
        launched(work / "text.cubin", "turn", LaunchShape(grid=(1,), block=(32, 32)), TURN)
    with pytest.raises(BadFile, match="does not exist"):
        launched(work / "none.cubin", "turn", LaunchShape(grid=(1,), block=(32, 32)), TURN)
    with pytest.raises(UnknownKernel, match=r"turned"):
        launched(binary, "turned", LaunchShape(grid=(1,), block=(32, 32)), TURN)
    with pytest.raises(UnknownKernel, match="has 2 kernels"):
        launched(binary, "", LaunchShape(grid=(1,), block=(32, 32)), TURN)
    with pytest.raises(UsageError, match="do not fit turn"):
        launched(binary, "turn", LaunchShape(grid=(1,), block=(32, 32)), TURN[:2])


@pytest.mark.long
@NEEDS_ALL
def test_an_address_beyond_shared_memory_is_the_programs_bug(binary: Path) -> None:
    with pytest.raises(MemoryFault, match=r"own\.cu:10: .*outside the block's .*thread \(.*\) of block \(0, 0, 0\)"):
        launched(binary, "beyond", LaunchShape(grid=(1,), block=(128,), shared=512), [np.zeros(128, np.float32)])
    launched(binary, "beyond", LaunchShape(grid=(1,), block=(128,), shared=2048), [np.zeros(128, np.float32)])
