"""Which engine is chosen, and its profiles: what is unknown stays unknown, in totals, verdicts, pages and gates."""

import dataclasses
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, UnknownKernel, UsageError
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.engines import emulation, profiles, reader
from ncu_swizzle.engines.measured import MeasuredEngine
from ncu_swizzle.engines.profiles import EmulatedEngine, with_recording
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.gate import baseline
from ncu_swizzle.gate.baseline import Policy, Rule
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_REGRESSION, Outcome
from ncu_swizzle.kernels import catalog, naming, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.render import mix
from ncu_swizzle.reports import container, frames
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, MachineInfo, Profile
from ncu_swizzle.reports.options import EMULATED
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.places import RECORDINGS
from tests.support.recordings import Recorded
from tests.support.reports import spoiled
from tests.support.shown import with_metrics

COMPUTED = (WAVEFRONTS, IDEAL, EXECUTED)


def emulated(profile: Profile) -> Profile:
    """Return a recording as the emulated engine would give it: counts alone, offsets for addresses."""
    first = profile.instructions[0].pc
    kept = {name: m for name, m in profile.metrics.items() if name in COMPUTED or name.startswith("launch__grid_dim")}
    return dataclasses.replace(
        profile,
        engine=EMULATED,
        machine=MachineInfo(compute_capability="9.0", cuda=profile.machine.cuda),
        metrics=kept,
        instructions=tuple(dataclasses.replace(one, pc=one.pc - first, samples={}) for one in profile.instructions),
        errors={},
    )


def without(profile: Profile, access: str, **unknown: None) -> Profile:
    """Return an emulated profile that does not know one access's wavefronts."""
    sass = next(one.sass for one in profile.instructions if one.access == access)
    part = spoiled(profile, access, wavefronts=None, ideal=None, **unknown)
    note = f"{profile.kernel.name}: unknown wavefronts of the access {sass}: its address was loaded from memory."
    return with_metrics(dataclasses.replace(part, notes=(note,)), {WAVEFRONTS: None, IDEAL: None})


def test_a_total_with_an_unknown_is_unknown_and_the_others_are_not(recorded: Recorded) -> None:
    whole = emulated(recorded("kernel1"))
    part = without(whole, "STS")
    assert (whole.missing, whole.total.excessive) == ((), recorded("kernel1").total.excessive)
    assert {part.total.wavefronts, part.total.ideal, part.total.degree, part.accesses["STS"].wavefronts} == {None}
    assert part.accesses["LDSM"] == whole.accesses["LDSM"]
    stack = next(one.stack for one in part.instructions if one.access == "STS")
    assert part.lines[stack[0]].wavefronts is None


@pytest.mark.long
def test_times_from_a_recording_are_labelled(recorded: Recorded) -> None:
    pair = [with_recording(emulated(recorded(name)), recorded(name)) for name in ("kernel1", "kernel2")]
    for one, name in zip(pair, ("kernel1", "kernel2"), strict=True):
        assert one.engine == EMULATED
        assert one.beside == f"recorded on NVIDIA H100 80GB HBM3, {recorded(name).when[:10]}"
        assert one.duration_ns == recorded(name).duration_ns
        assert one.stalls == recorded(name).stalls
        assert [i.samples for i in one.instructions] == [i.samples for i in recorded(name).instructions]
    assert re.search(r"was 5\..* times as fast, recorded on NVIDIA H100 80GB HBM3, [\d-]+:", compare(pair).verdict)


def test_counts_are_never_taken_from_the_recording(recorded: Recorded) -> None:
    one = with_recording(without(emulated(recorded("kernel1")), "LDSM"), recorded("kernel1"))
    assert one.total.wavefronts is None
    assert not {WAVEFRONTS, IDEAL} & one.metrics.keys()
    assert DURATION in one.metrics
    assert any(name.startswith(STALLED) for name in one.metrics)


def test_other_code_than_was_recorded_gets_no_stalls_by_instruction(recorded: Recorded) -> None:
    other = emulated(recorded("transpose-xor"))
    one = with_recording(other, recorded("transpose-plain"))
    assert not any(i.samples for i in one.instructions)
    assert any("the code differs from the recording's" in note for note in one.notes)
    older = dataclasses.replace(other, machine=dataclasses.replace(other.machine, cuda="12.8 (V12.8.93)"))
    assert any("compiled with CUDA 12.8" in note for note in with_recording(older, recorded("transpose-xor")).notes)


def test_the_mix_is_a_lower_bound_where_some_count_is_unknown(recorded: Recorded) -> None:
    whole = emulated(recorded("kernel2"))
    assert frames.count(whole) == frames.count(recorded("kernel2"))
    part = without(whole, "STS", executed=None)
    counted = frames.count(part)
    assert counted.known
    assert dict(counted.uncounted) == {"STS": 1}
    built = mix.section(compare([whole, part]))
    assert built is not None
    rows = {row.name: row for row in built.rows}
    executed = whole.accesses["STS"].executed
    assert str(rows["STS"].counts[0]) == f"{executed:,}"
    assert str(rows["STS"].counts[1]).startswith("at least ")
    assert (rows["STS"].change, rows["LDSM"].change) == ("", "same")
    assert built.gaps == (f"1 of {len(part.instructions):,} instructions of kernel2 #2",)
    assert "same number of HMMA, LDGSTS, LDS and LDSM." in built.sentence


# ---------------------------------------------------------------------------------------------- gates


def test_what_could_not_be_computed_is_inconclusive_where_it_matters(recorded: Recorded) -> None:
    part = without(emulated(recorded("kernel2")), "STS")
    verdict = judge([part], Policy())
    assert verdict.outcome is Outcome.inconclusive
    assert "its address was loaded from memory" in str(verdict.checks[0])
    of_others = Policy(rules=(Rule(criterion=MAX_DEGREE, limit=1, access="LDSM"),))
    assert judge([part], of_others).outcome is Outcome.passed


def test_there_are_no_times_to_judge(recorded: Recorded) -> None:
    one = emulated(recorded("kernel2"))
    known = baseline.Baseline((baseline.entry_of([one]),))
    rules = Policy(rules=(Rule(criterion=MAX_REGRESSION, limit=5),), baseline=known.file)
    checks = judge([one], rules, known).checks
    assert [check.outcome for check in checks] == [Outcome.passed, Outcome.inconclusive]
    assert "computed: there are no durations" in str(checks[1])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_measured_baseline_says_nothing_of_computed_figures(recorded: Recorded, swapped: bool) -> None:
    measured = dataclasses.replace(recorded("kernel2"), engine="ncu")
    pair = [measured, emulated(recorded("kernel2"))]
    then, now = pair[::-1] if swapped else pair
    known = baseline.Baseline((baseline.entry_of([then]),))
    verdict = judge([now], Policy(baseline=known.file), known)
    assert verdict.outcome is Outcome.inconclusive
    assert "none: computed" in str(verdict.checks[0])


@pytest.mark.long
@pytest.mark.parametrize("name", ["cute-8x8-swizzled", "cute-columns-plain"])
def test_what_was_compiled_elsewhere_needs_no_headers_here(
    name: str, recorded: Recorded, recorded_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(header: str) -> Path:
        raise EnvironmentLacking(f"{header} is not installed", "")

    monkeypatch.setattr(toolchain, "locate", missing)
    family, kernel = catalog.shipped().named(name)
    assert family.headers
    (result,) = container.inspect(recorded_file(name)).results
    made = emulation.emulate_cubin(Target(family, kernel, family.problem()), result.cubin)
    counted = {access: total for access, total in recorded(name).accesses.items() if total.wavefronts}
    computed = {access: total for access, total in made.profile.accesses.items() if total.wavefronts}
    assert {access: dataclasses.replace(total, samples=0) for access, total in counted.items()} == computed


def counts(profile: Profile) -> dict[int, tuple[int | None, ...]]:
    """Return executions, wavefronts and ideal wavefronts of the accesses that ran, by offset."""
    first = profile.instructions[0].pc

    def of(one: Instruction) -> tuple[int | None, ...]:
        return one.executed, one.wavefronts, one.ideal

    return {one.pc - first: of(one) for one in profile.instructions if one.access and one.executed}


LONGER = ("tma-128", "transpose-sudoku", "vectors-16-swizzle", "kernel2")
TURN = [np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32), struct.pack("<i", 32)]


# ---------------------------------------------------------------------------------------------- choosing


def test_auto_prefers_the_gpu_then_computing_then_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredEngine, "lacking", lambda request: "")
    assert profiles.choose_engine(Request()) == MeasuredEngine()
    monkeypatch.setattr(MeasuredEngine, "lacking", lambda request: "no GPU")
    monkeypatch.setattr(Toolchain, "lacking", lambda self, *tools: "")
    assert profiles.choose_engine(Request()) == EmulatedEngine("no GPU", beside=True)
    monkeypatch.setattr(Toolchain, "lacking", lambda self, *tools: "nvdisasm was not found")
    chosen = profiles.choose_engine(Request())
    assert chosen.name == "recorded"
    assert [words for words in ("no GPU", "nvdisasm was not found", "[nvcc]") if words not in chosen.reason] == []
    assert profiles.choose_engine(Request(engine="emulated")) == EmulatedEngine()


@pytest.mark.long
def test_a_library_kernel_cannot_be_emulated(work: Path) -> None:
    target = catalog.shipped().target("reference-gemm")
    with pytest.raises(UsageError, match="no source to emulate"):
        emulation.emulate_target(target)
    recalled = EmulatedEngine(beside=True).profile(target, Context(request=Request(), folder=work))
    assert recalled.engine == "recorded"


@pytest.mark.long
def test_what_cannot_be_compiled_is_recalled_if_nothing_else_was_asked_for(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> str:
        raise EnvironmentLacking("nvcc needs a C++ compiler beside it", "apt-get install g++")

    monkeypatch.setattr(Toolchain, "compile", lacking)

    def compute(engine: EmulatedEngine, problem: Mapping[str, int] | None = None) -> Profile:
        target = catalog.shipped().target("transpose-plain", problem or {})
        return engine.profile(target, Context(request=Request(problem=problem or {}), folder=work))

    recalled = compute(EmulatedEngine(beside=True))
    assert recalled.engine == "recorded"
    assert recalled.notes == ("transpose-plain is recorded, not computed: nvcc needs a C++ compiler beside it.",)
    with pytest.raises(EnvironmentLacking):
        compute(EmulatedEngine())
    with pytest.raises(EnvironmentLacking):  # recorded at another size
        compute(EmulatedEngine(beside=True), {"n": 64})


# ---------------------------------------------------------------------------------------------- profiles


@pytest.mark.usefixtures("work")
@NEEDS_ALL
@pytest.mark.long
@pytest.mark.parametrize("name", ["transpose-plain", *LONGER])
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
    here = {one.pc: one.stack for one in made.profile.instructions if one.pc in stacks}
    if not Toolchain().version().startswith("13.0"):  # of an asm statement's lines, each release has its own
        here, stacks = ({pc: stack[1:] for pc, stack in each.items()} for each in (here, stacks))
    assert here == stacks


@NEEDS_ALL
def test_what_is_compiled_already_is_computed_wherever_it_is(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredEngine, "lacking", lambda request: "")
    asked = description(
        KernelDescription(sources=CatalogOptions(config="none")),
        entry="turn",
        grid="1",
        block="32,32",
        args=("x=float32[32,32]:random", "y=float32[32,32]:out", "n=int32:32"),
    )
    (target,) = naming.resolve([str(binary)], asked)[0].targets
    engine = profiles.engine_for(target, Request())
    assert isinstance(engine, EmulatedEngine)
    assert not engine.beside
    assert "own.cubin is already compiled" in engine.reason
    assert profiles.engine_for(catalog.shipped().target("kernel2"), Request()) == MeasuredEngine()


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
