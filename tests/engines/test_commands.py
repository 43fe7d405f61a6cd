"""Which engine is chosen, and what it computes of sources and binaries; its commands are in tests/data/sessions."""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, UnknownKernel, UsageError
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.engines import emulation, profiles
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.kernels import catalog, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import reader
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Engine
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.places import RECORDINGS


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
    assert [words for words in ("no GPU", "nvdisasm was not found", "[nvcc]") if words not in chosen.reason] == []
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


# ---------------------------------------------------------------------------------------------- binaries


@NEEDS_ALL
def test_bad_binaries_and_launches_are_refused(work: Path, binary: Path) -> None:
    shape = LaunchShape(grid=(1,), block=(32, 32))
    (work / "cut.cubin").write_bytes(binary.read_bytes()[:1000])
    (work / "text.cubin").write_text("no code")
    for file, kernel, parameters, error, said in (
        (work / "cut.cubin", "turn", TURN, DamagedFile, "is damaged"),
        (work / "text.cubin", "turn", TURN, BadFile, "neither a cubin nor PTX"),
        (work / "none.cubin", "turn", TURN, BadFile, "does not exist"),
        (binary, "turned", TURN, UnknownKernel, "turned"),
        (binary, "", TURN, UnknownKernel, "has 2 kernels"),
        (binary, "turn", TURN[:2], UsageError, "do not fit turn"),
    ):
        with pytest.raises(error, match=said):
            launched(file, kernel, shape, parameters)


@pytest.mark.long
@NEEDS_ALL
def test_an_address_beyond_shared_memory_is_the_programs_bug(binary: Path) -> None:
    with pytest.raises(MemoryFault, match=r"own\.cu:10: .*outside the block's .*thread \(.*\) of block \(0, 0, 0\)"):
        launched(binary, "beyond", LaunchShape(grid=(1,), block=(128,), shared=512), [np.zeros(128, np.float32)])
    launched(binary, "beyond", LaunchShape(grid=(1,), block=(128,), shared=2048), [np.zeros(128, np.float32)])
