"""Python files linted by what they say of themselves; objects with sources; signatures; tuples."""

from __future__ import annotations

from pathlib import Path

from tests.support.process import run
from tests.support.python_kernels import NEEDS_CUDA_CORE, NEEDS_NUMBA, NEEDS_TRITON, OURS, TURN
from tests.support.python_texts import DECLARED, RAW, SIGNED


@NEEDS_TRITON
def test_a_file_that_declares_its_launches_is_linted_and_profiled_by_name(work: Path) -> None:
    (work / "kernels.py").write_text(DECLARED, encoding="utf-8")
    done = run("lint", "kernels.py", folder=work)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("pass")]
    assert passed == ["turn-wide:", "turn-narrow:", "small:"]
    done = run("profile", "kernels.py::small", "--engine", "emulated", folder=work)
    assert done.returncode == 0, done.stderr


@NEEDS_TRITON
def test_a_tuple_is_passed_number_by_number(work: Path) -> None:
    (work / "kernels.py").write_text(DECLARED, encoding="utf-8")
    arrays = ("--arg", "x=float32[4096]", "--arg", "y=float32[4096]:out")
    words = ("--grid", "4", *arrays, "--arg", "sizes=(4000, 7)", "--arg", "B=1024", *OURS)
    done = run("profile", "kernels.py::shifted", *words, folder=work)
    assert done.returncode == 0, done.stderr


@NEEDS_CUDA_CORE
def test_an_object_of_cupys_has_its_source_its_name_and_its_options(work: Path) -> None:
    (work / "raw.py").write_text(RAW, encoding="utf-8")
    words = (*TURN, "--arg", "n=256", "--block", "32,8", "--config", "none")
    done = run("lint", "raw.py::turn", *words, folder=work)
    assert done.returncode == 1, done.stdout + done.stderr
    line = next(number for number, text in enumerate(RAW.splitlines(), 1) if "= tile[threadIdx.x][row]" in text)
    assert "turn, LDS: degree 32" in done.stdout
    assert f"(raw.py:{line})" in done.stdout
    done = run("profile", "raw.py::odd", "--grid", "1", "--block", "1", *OURS, folder=work)
    assert done.returncode == 2
    assert "raw.py::odd has the option --maxrregcount=32, which is not passed on" in done.stderr


@NEEDS_NUMBA
def test_a_signature_does_not_make_numba_compile_at_import(work: Path) -> None:
    (work / "signed.py").write_text(SIGNED, encoding="utf-8")
    arrays = ("--arg", "x=float32[32,32]", "--arg", "y=float32[32,32]:out")
    done = run("lint", "signed.py::turn", "--grid", "1", "--block", "32,32", *arrays, "--config", "none", folder=work)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "LDS: degree 32" in done.stdout
