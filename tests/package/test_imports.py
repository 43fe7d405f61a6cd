"""What takes long to load, or is not there for everybody, is loaded by what needs it."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pandas", "numpy", "jinja2", "pygments", "pycuda", "ncu_report", "torch", "rich.console"}
OPTIONAL = {"triton", "numba", "numba_cuda", "cuda", "dask", "distributed", "tornado"}
OURS = {"ncu_swizzle.commands.api", "ncu_swizzle.reports"}
# A statement, and what it does not load; pytest itself loads pygments.
LIGHT = {
    "import ncu_swizzle": {*HEAVY, *OURS, "ncu_swizzle.base"},
    "import ncu_swizzle.pytest_plugin": {*HEAVY, *OURS, "rich", "typer"} - {"pygments"},
    "import ncu_swizzle.cli": HEAVY,
    "from ncu_swizzle import cli; import ncu_swizzle.commands.api": OPTIONAL,
    # Only the reader loads NVIDIA's module, and only the launching program PyCUDA.
    "from ncu_swizzle.commands import run_kernel, run_program": {"ncu_report", "pycuda", "torch"},
}


def imported_by(statement: str) -> set[str]:
    """Return the modules that are loaded when a statement was executed, by a process of its own."""
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", [pytest.param(each, marks=[pytest.mark.long] * ("commands" in each)) for each in LIGHT]
)
def test_an_import_loads_nothing_heavy(statement: str) -> None:
    assert not imported_by(statement) & LIGHT[statement]


NEEDED = {  # words, and what of what takes long they load
    "explain SW001": set(),
    "explain (8,8):(1,8)": {"numpy"},
    "lint none.ptx": {"numpy"},
    "list": {"numpy"},
}


@pytest.mark.long
@pytest.mark.parametrize("line", NEEDED)
def test_what_needs_no_tables_loads_none(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.ptx").write_text(".version 8.0\n.target sm_90\n.address_size 64\n")
    run = f"import contextlib, io; from ncu_swizzle import cli; sys.argv[1:] = {line.split()}"
    loaded = imported_by(f"{run}; exec('with contextlib.redirect_stdout(io.StringIO()): cli.main()')")
    assert "ncu_swizzle.commands.console" in loaded
    assert loaded & HEAVY <= {*NEEDED[line], "rich.console"}
