"""Lines of kernels written in Python: callers from Triton's cache; what CuTe DSL and Numba do not name."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.base.files import write_json
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import LineTable, Location, line_table
from ncu_swizzle.engines import reader
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.frontends.python_kernels import PythonLines
from ncu_swizzle.reports import container, remarks
from ncu_swizzle.reports.container import ModuleSource, ReportResult
from ncu_swizzle.reports.model import Profile
from tests.support import python_kernels as triton_caches
from tests.support.places import PROGRAMS
from tests.support.python_kernels import CACHED, HELPERS, SOURCE

Stack = tuple[Location, ...]
CUBIN = (CACHED / "turn_tiles.cubin").read_bytes()
LOAD, STORE = 16, 17  # lines of inlined_helpers.py, called in line 14 of inlined.py
INNERMOST, CALLED = {((HELPERS, STORE),)}, {((HELPERS, STORE), (SOURCE, 14))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder, empty but for a report of a Triton kernel; it is the current one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.ncu-rep").write_bytes(triton_caches.report())
    return tmp_path


def first(folder: Path) -> Profile:
    return reader.read(folder / "report.ncu-rep")[0]


def stacks(profile: Profile) -> set[Stack]:
    return {instruction.stack for instruction in profile.instructions if instruction.access}


def innermost(profile: Profile) -> list[str]:
    return [aside for aside in remarks.asides(profile) if aside.startswith(python_kernels.INNERMOST)]


def test_the_kernel_in_the_cache_has_the_machine_code_that_was_recorded() -> None:
    recorded = Cubin(container.inspect(PROGRAMS / "triton.ncu-rep").results[0].cubin, "recorded")
    assert Cubin(CUBIN, "cached").section(".text.turn_tiles") == recorded.section(".text.turn_tiles")


@pytest.mark.long
def test_without_the_cache_lines_are_the_innermost_and_that_is_said(folder: Path) -> None:
    turned, other = reader.read(folder / "report.ncu-rep")
    assert stacks(turned) == INNERMOST
    (aside,) = innermost(turned)
    assert "TRITON_CACHE_DIR" in aside
    assert not innermost(other)
    assert not remarks.about_counts(turned), "counts can be judged"


@pytest.mark.long
def test_callers_come_from_the_cache_wherever_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value, cache in (
        ("HOME", folder, ".triton/cache"),
        ("TRITON_CACHE_DIR", folder / "elsewhere" / "here", "elsewhere/here"),
        ("TRITON_HOME", folder / "home", "home/.triton/cache"),
        ("TORCHINDUCTOR_CACHE_DIR", folder / "inductor", "inductor/triton/0"),
    ):
        triton_caches.fill(folder / cache)
        with monkeypatch.context() as environment:
            environment.setenv("HOME", str(folder / "nobody"))
            environment.setenv(variable, str(value))
            profile = first(folder)
        assert stacks(profile) == CALLED, variable
        lines = {instruction.stack for instruction in profile.instructions}
        assert {((HELPERS, 11), (SOURCE, 12)), ((HELPERS, 11), (SOURCE, 13)), ((HELPERS, LOAD), (SOURCE, 14))} <= lines
        assert not innermost(profile)


def test_every_instruction_keeps_the_line_that_the_cubin_names(folder: Path) -> None:
    triton_caches.fill(folder / "cache")
    own = line_table(CUBIN, "turn_tiles")
    cached = python_kernels._read(CUBIN, "turn_tiles", folder / "cache" / "KEY" / "turn_tiles.cubin").lines
    offsets = range(0, len(Cubin(CUBIN, "cached").section(".text.turn_tiles")), 16)
    assert [cached.stack(offset)[0] for offset in offsets] == [own.stack(offset)[0] for offset in offsets]
    assert {len(cached.stack(offset)) for offset in offsets} == {1, 2}


def test_the_cache_s_ttgir_explains_conflicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton_caches.fill(folder / ".triton/cache")
    explained: list[tuple[str, bool]] = []

    def explain(profile: Profile, text: str, explicit: bool) -> Profile:
        explained.append((text, explicit))
        return profile

    monkeypatch.setattr(python_kernels, "with_layout_notes", explain)
    first(folder)
    assert explained == [((CACHED / "turn_tiles.ttgir").read_text(encoding="utf-8"), False)]


@pytest.mark.long
@pytest.mark.parametrize("lacking", [".ptx", ".cubin", "the same cubin", "the same lines"])
def test_a_cache_of_another_kernel_changes_nothing(folder: Path, lacking: str) -> None:
    kernel = triton_caches.fill(folder / ".triton/cache", lacking) / "KEY"
    if lacking == "the same cubin":
        (kernel / "turn_tiles.cubin").write_bytes(bytes([*CUBIN[:-1], CUBIN[-1] ^ 1]))
    if lacking == "the same lines":
        text = (kernel / "turn_tiles.ptx").read_text(encoding="utf-8")
        (kernel / "turn_tiles.ptx").write_text(text.replace(f".loc\t2 {STORE} ", ".loc\t2 5 "), encoding="utf-8")
    assert stacks(first(folder)) == INNERMOST


def test_a_kernel_under_another_file_s_name_is_found(folder: Path) -> None:
    kernel = triton_caches.fill(folder / ".triton/cache") / "KEY"
    for file in kernel.iterdir():
        file.rename(file.with_name(f"long_name{file.suffix}"))
    assert stacks(first(folder)) == CALLED


@pytest.mark.long
def test_what_the_facts_keep_needs_no_cache_and_is_checked(folder: Path) -> None:
    report = folder / "report.ncu-rep"
    cache = triton_caches.fill(folder / ".triton/cache")
    kernels = python_kernels.known_kernels(container.inspect(report).results)
    write_json(container.facts_path(report), python_kernels.as_facts(kernels))
    container.seal(report)
    before = reader.read(report)
    cache.rename(folder / "gone")
    assert reader.read(report) == before
    assert stacks(before[0]) == CALLED
    write_json(container.facts_path(report), {"callers": {"digest": [[0, ["file"]]]}})
    with pytest.raises(DamagedFile, match="callers"):
        first(folder)


KERNEL, HELPER = "/home/me/kernels.py", "/home/me/helpers.py"
TEXT = """from helpers import put

def put_here(x):
    x[0] = 1

@cuda.jit
def turn(x):
    def back(i):
        return x[i]
    put_here(x)
    put(x)
    back(3)
"""
NUMBA = "my::turn[abi:v1][abi:cw51cXTLSUwv1](Array<float, 2, C, mutable, aligned>)"
CUTE = "kernel_cutlass_turn_tensor_0"


def at(*lines: int, file: str = KERNEL) -> list[Stack]:
    return [((file, line),) for line in lines]


class PythonKernel:
    """A kernel whose line table has these stacks: which lines are believed, and the notes on it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, stacks: Sequence[Stack], function: str = "turn", demangled: str = ""
    ) -> None:
        table = LineTable.of_stacks([(16 * number, stack) for number, stack in enumerate(stacks)])
        monkeypatch.setattr(python_kernels, "line_table", lambda *_: table)
        result = ReportResult(function=function, demangled=demangled, source=ModuleSource(files={KERNEL: TEXT}))
        self.lines = PythonLines.of(result)
        self.notes = self.lines.lacking(result)

    def plausible_stack(self, *stacks: Stack, access: bool = True) -> list[Stack]:
        return [self.lines.plausible_stack(stack, access) for stack in stacks]


def test_a_line_outside_of_numba_s_kernel_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = PythonKernel(monkeypatch, at(7, 10, 40, 12), demangled=NUMBA)
    (note,) = kernel.notes
    assert 'inline="always"' in note
    assert kernel.plausible_stack(*at(4, 40, 7)) == [(), (), ()]
    assert kernel.plausible_stack(*at(9, 12)) == at(9, 12), "a function within the kernel"
    assert kernel.plausible_stack(*at(7), access=False) == at(7), "where it begins"
    assert not PythonKernel(monkeypatch, at(7, 10, 12), demangled=NUMBA).notes, "its line for what is before the kernel"
    assert PythonKernel(monkeypatch, at(7, 10, 7), demangled=NUMBA).notes


def test_lines_with_callers_without_source_and_of_other_kernels_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: Stack = ((HELPER, 40), (KERNEL, 11))
    (gone,) = at(400, file="/nowhere/gone.py")
    for lines, stack, demangled in (
        ([*at(7), called], called, NUMBA),
        ([gone], gone, NUMBA),
        (at(4, 40), *at(40), "turn(float*)"),
    ):
        kernel = PythonKernel(monkeypatch, lines, demangled=demangled)
        assert (kernel.plausible_stack(stack), kernel.notes) == ([stack], [])


def test_cute_dsl_s_callers_are_said_to_be_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    for inlined in (at(7, 10, 4), [*at(7), *at(3, file=HELPER)]):
        (note,) = PythonKernel(monkeypatch, inlined, CUTE).notes
        assert note.startswith("source lines end at inlined functions: CuTe DSL's cubin does not name their callers")
    one_function_or_callers: list[list[Stack]] = [at(7, 10, 12), [*at(7), ((HELPER, 3), (KERNEL, 11))], []]
    for known in one_function_or_callers:
        assert PythonKernel(monkeypatch, known, CUTE).notes == []
