"""CUDA C++ in strings of a Python file, compiled by NVRTC without a GPU."""

import shutil
from pathlib import Path

import pytest

from tests.support.python_kernels import EXAMPLES, NEEDS_CUDA_CORE, TEXTS, TURN, Linted, Refused, line_of

pytestmark = [NEEDS_CUDA_CORE, pytest.mark.long]

LAUNCH = (*TURN, "--arg", "n=256", "--block", "32,8")
ONE = ("--grid", "1", "--block", "32")


def test_a_conflict_is_on_the_line_of_the_python_file_that_has_it(work: Path, linted: Linted) -> None:
    file = Path(shutil.copy(EXAMPLES / "cuda_sources.py", work))
    line = line_of(file, "y[(j + row) * n + i] = tile[threadIdx.x][threadIdx.y + row];")
    code, said = linted("cuda_sources.py::TURN::turn<32>", *LAUNCH)
    assert (code, "LDS: degree 32" in said, f"(cuda_sources.py:{line})" in said) == (1, True, True), said
    code, said = linted("cuda_sources.py::TURN::turn<33>", *LAUNCH)
    assert code == 0, said


def test_headers_of_cuda_are_found_and_lines_are_those_of_the_literal(work: Path, linted: Linted) -> None:
    file = Path(shutil.copy(TEXTS / "raw" / "headers.py", work))
    line = line_of(file, "tile[threadIdx.x][0] = y[threadIdx.x];")
    code, said = linted("headers.py::SOURCE::my::turn<__half>", *ONE, "--arg", "y=float16[32]")
    assert (code, "STS: degree 16" in said, f"(headers.py:{line})" in said) == (1, True, True), said
    _, said = linted("headers.py::SOURCE::my::turn", *ONE, "--arg", "y=float32[32]")
    assert "headers.py::SOURCE::my::turn<float>'" in said


def test_an_object_of_cupys_has_its_source_its_name_and_its_options(
    work: Path, linted: Linted, refused: Refused
) -> None:
    file = Path(shutil.copy(TEXTS / "raw" / "raw.py", work))
    line = line_of(file, "y[(blockIdx.x * 32 + row) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][row];")
    code, said = linted("raw.py::turn", *LAUNCH)
    assert (code, "turn, LDS: degree 32" in said, f"(raw.py:{line})" in said) == (1, True, True), said
    error, _ = refused("raw.py::odd", "--grid", "1", "--block", "1")
    assert "raw.py::odd has the option --maxrregcount=32, which is not passed on" in error
