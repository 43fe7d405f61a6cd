"""The child process that imports a user's file: what it refuses, and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.frontends import compiled, contract
from ncu_swizzle.frontends.contract import CompileRequest
from tests.support.imports import imported_by


def compile_text(folder: Path, text: str, function: str = "f", timeout_s: float = 60) -> None:
    """Have a function of this text compiled."""
    file = folder / "kernels.py"
    file.write_text(text, encoding="utf-8")
    compiled.compile_in_child(CompileRequest(file=str(file), function=function), timeout_s)


@pytest.mark.long
def test_a_file_that_fails_is_refused_with_the_line(work: Path) -> None:
    with pytest.raises(UsageError, match=r"kernels.py cannot be imported: line 2: ZeroDivisionError") as refused:
        compile_text(work, "x = 1\ny = x / 0\n")
    assert "python3" in refused.value.hint


@pytest.mark.long
def test_a_program_that_exits_is_refused(work: Path) -> None:
    with pytest.raises(UsageError, match="SystemExit: 3"):
        compile_text(work, "raise SystemExit(3)")


@pytest.mark.long
def test_what_is_not_a_kernel_is_refused_with_its_type(work: Path) -> None:
    with pytest.raises(UsageError, match=r"kernels.py::f is a function, not a kernel"):
        compile_text(work, "def f(): pass")


@pytest.mark.long
def test_of_a_class_an_object_is_asked_for(work: Path) -> None:
    with pytest.raises(UsageError, match=r"kernels.py::f is a class, and an object of it may be a kernel") as refused:
        compile_text(work, "class f: pass")
    assert "own = f()" in refused.value.hint
    assert refused.value.hint.endswith("kernels.py::own")


@pytest.mark.long
def test_a_name_that_is_not_there_is_refused_with_those_that_are(work: Path) -> None:
    with pytest.raises(UsageError, match=r"kernels.py has no f; its kernels: SOURCE") as refused:
        compile_text(work, "SOURCE = '__global__ void k() {}'\nOTHER = 3\n")
    assert refused.value.hint.endswith("kernels.py::SOURCE")


@pytest.mark.long
@pytest.mark.parametrize("package", contract.INSTALL)
def test_a_missing_library_is_named_with_its_command(package: str, work: Path) -> None:
    text = f"raise ModuleNotFoundError('No module named {package}', name='{package}.language')"
    with pytest.raises(EnvironmentLacking, match=f"needs {package}, which is not installed") as lacking:
        compile_text(work, text)
    assert lacking.value.hint == contract.INSTALL[package]


@pytest.mark.long
def test_another_missing_module_is_named(work: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="No module named 'nothing_of_the_kind'") as lacking:
        compile_text(work, "import nothing_of_the_kind")
    assert lacking.value.hint == f"install nothing_of_the_kind for {sys.executable}"


@pytest.mark.long
def test_a_file_that_never_ends_is_stopped(work: Path) -> None:
    with pytest.raises(TimeLimit, match=r"compiling kernels.py::f: .* still running after 2 s") as stopped:
        compile_text(work, "import time\ntime.sleep(600)", timeout_s=2)
    assert "--timeout" in stopped.value.hint


@pytest.mark.long
def test_a_process_that_dies_is_reported_with_its_last_lines(work: Path) -> None:
    with pytest.raises(ProgramFailed, match=r"ended with status 7; its last lines:\nlast words"):
        compile_text(work, "import os\nprint('last words', flush=True)\nos._exit(7)")


@pytest.mark.long
def test_a_file_that_profiles_while_it_is_imported_starts_no_further_process(work: Path) -> None:
    text = "import ncu_swizzle\nncu_swizzle.profile('kernel2', engine='recorded')\n"
    with pytest.raises(UsageError, match="profiles a kernel while it is imported") as refused:
        compile_text(work, text)
    assert "if __name__ == '__main__':" in refused.value.hint


@pytest.mark.long
def test_neighbours_are_imported_and_nothing_from_the_current_folder(work: Path) -> None:
    (work / "kernels").mkdir()
    (work / "kernels" / "helper.py").write_text("VALUE = 1", encoding="utf-8")
    (work / "elsewhere.py").write_text("VALUE = 1", encoding="utf-8")
    with pytest.raises(UsageError, match="is a int, not a kernel"):
        compile_text(work / "kernels", "from helper import VALUE as f")
    with pytest.raises(EnvironmentLacking, match="No module named 'elsewhere'"):
        compile_text(work / "kernels", "from elsewhere import VALUE as f")


@pytest.mark.long
def test_no_library_is_loaded_in_this_process() -> None:
    loaded = {name.partition(".")[0] for name in imported_by("import ncu_swizzle.commands.api")}
    assert not loaded & {"triton", "numba", "numba_cuda", "cuda"}
