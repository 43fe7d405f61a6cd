"""What a kernel's file says, read in a process of its own; and the values that arguments become."""

import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.base.files import write_json
from ncu_swizzle.frontends import __main__ as child
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.contract import CompileRequest


def compile_text(folder: Path, text: str, timeout_s: float = 60) -> None:
    """Have the function f of this text compiled in a process of its own."""
    file = folder / "kernels.py"
    file.write_text(text, encoding="utf-8")
    contract.compile_in_child(CompileRequest(file=str(file), function="f"), timeout_s)


# What passes for a function of Triton's.
TRITONS = "class Kernel: fn = run = None\nKernel.__module__ = 'triton.runtime'\nA = Kernel()\nB = 3\n"
# What the file says, the error, and a part of its hint.
REFUSED: list[tuple[str, type[NcuSwizzleError], str, str]] = [
    ("raise SystemExit(3)", UsageError, "SystemExit: 3", "python3"),
    ("def f(): pass", UsageError, "kernels.py::f is a function, not a kernel", "decorated"),
    ("class f: pass", UsageError, "kernels.py::f is a class, and an object of it may be a kernel", "own = f()"),
    ("from helper import VALUE as f", UsageError, "is a int, not a kernel", "decorated"),
    (TRITONS, UsageError, "has no f; its kernels: A", "kernels.py::A"),
    ("import absent", EnvironmentLacking, "No module named 'absent'", f"install absent for {sys.executable}"),
    ("from elsewhere import f", EnvironmentLacking, "No module named 'elsewhere'", "install elsewhere"),
]


def test_what_cannot_be_compiled_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "elsewhere.py").write_text("f = 1", encoding="utf-8")  # beside the folder, in the current one
    for number, (text, error, said, hint) in enumerate(REFUSED):
        folder = (
            work / f"{number}"
        )  # of its own: bytecode of another text of the same second and size would be imported
        folder.mkdir()
        (folder / "helper.py").write_text("VALUE = 1", encoding="utf-8")
        (folder / "kernels.py").write_text(text, encoding="utf-8")
        request = CompileRequest(file=str(folder / "kernels.py"), function="f")
        write_json(work / contract.REQUEST, asdict(request))
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(work))])
        with pytest.raises(error) as refused:
            child.answer("compile", work)
        monkeypatch.undo()
        for name in ("kernels", "helper"):
            sys.modules.pop(name, None)
        assert said in str(refused.value), text
        assert hint in refused.value.hint, text


def test_a_missing_library_is_named_with_the_command_that_installs_it(work: Path) -> None:
    kernels = work / "kernels.py"
    assert contract.INSTALL.keys() == {"triton", "numba", "numba_cuda", "cutlass", "cuda.tile"}
    for library, command in contract.INSTALL.items():
        kernels.write_text(f"import {library}")
        lacking = contract.missing(ModuleNotFoundError(name=f"{library}.language"), kernels)
        assert isinstance(lacking, EnvironmentLacking)
        assert str(lacking) == f"kernels.py needs {library}, which is not installed"
        assert lacking.hint == command


@pytest.mark.long
def test_the_child_is_stopped_and_what_became_of_it_is_said(work: Path) -> None:
    with pytest.raises(UsageError, match=r"kernels.py cannot be imported: line 2: ZeroDivisionError"):
        compile_text(work, "x = 1\ny = x / 0\n")
    with pytest.raises(TimeLimit, match=r"compiling kernels.py::f: .* still running after 2 s") as stopped:
        compile_text(work, "import time\ntime.sleep(600)", timeout_s=2)
    assert "--timeout" in stopped.value.hint
    with pytest.raises(ProgramFailed, match=r"ended with status 7; its last lines:\nlast words"):
        compile_text(work, "import os\nprint('last words', flush=True)\nos._exit(7)")
    again = "import ncu_swizzle\nncu_swizzle.profile('kernel2', engine='recorded')\n"
    with pytest.raises(UsageError, match="profiles a kernel while it is imported") as refused:
        compile_text(work, again)
    assert "if __name__ == '__main__':" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128", 128),
        ("n // 2", 2048),
        ("-1", -1),
        ("1e-5", 1e-5),
        ("True", True),
        ("false", False),
        ("None", None),
        ("'n'", "n"),
        ("(1, 2)", (1, 2)),
        ("leaky_relu", "leaky_relu"),
        ("tl.float16", "half"),
        ("tl.nothing", "tl.nothing"),
        ("a.b", "a.b"),
    ],
)
def test_a_text_becomes_the_value_that_the_function_gets(text: str, value: Any) -> None:
    module = ModuleType("kernels")
    vars(module).update(tl=SimpleNamespace(float16="half"), leaky_relu=len)
    found = contract.literal(text, {"n": 4096}, module)
    assert found == value
    assert type(found) is type(value)


def test_a_grid_has_sizes_and_the_functions_own_integers() -> None:
    request = CompileRequest(file="kernels.py", function="f", grid=("n // BM", "2", "1"), sizes={"n": 4096})
    assert contract.grid(request, {"BM": 128, "flag": True, "name": "x"}) == (32, 2, 1)
    with pytest.raises(UsageError, match=r"grid: .* no size 'BM'"):
        contract.grid(request, {})
    with pytest.raises(UsageError, match=r"kernels.py::f has no grid") as refused:
        contract.grid(CompileRequest(file="kernels.py", function="f"), {})
    assert refused.value.hint == "--grid 128 gives it, one to three sizes"
