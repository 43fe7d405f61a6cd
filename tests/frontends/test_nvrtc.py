"""CUDA C++ in strings of a Python file, compiled by NVRTC without a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.process import run
from tests.support.python_kernels import NEEDS_CUDA_CORE, OURS, TURN
from tests.support.python_recordings import EXAMPLES

pytestmark = NEEDS_CUDA_CORE

LAUNCH = (*TURN, "--arg", "n=256", "--block", "32,8", "--config", "none")


def test_a_conflict_is_on_the_line_of_the_python_file_that_has_it(work: Path) -> None:
    shutil.copy(EXAMPLES / "cuda_sources.py", work)
    done = run("lint", "cuda_sources.py::TURN::turn<32>", *LAUNCH, folder=work)
    lines = (EXAMPLES / "cuda_sources.py").read_text(encoding="utf-8").splitlines()
    line = lines.index("        y[(j + row) * n + i] = tile[threadIdx.x][threadIdx.y + row];") + 1
    assert done.returncode == 1, done.stderr
    assert "LDS: degree 32" in done.stdout
    assert f"(cuda_sources.py:{line})" in done.stdout
    done = run("lint", "cuda_sources.py::TURN::turn<33>", *LAUNCH, folder=work)
    assert done.returncode == 0, done.stdout


HEADERS = '''
PREAMBLE = "#include <cuda_fp16.h>\\n#include <cooperative_groups.h>\\n#include <cuda/std/type_traits>\\n"
SOURCE = PREAMBLE + r"""
namespace my {
template <typename T> __global__ void turn(T* y) {
    __shared__ T tile[32][32];
    tile[threadIdx.x][0] = y[threadIdx.x];
    cooperative_groups::this_thread_block().sync();
    y[threadIdx.x] = tile[0][threadIdx.x];
}
}
"""
'''


def test_headers_of_cuda_are_found_and_lines_are_those_of_the_literal(work: Path) -> None:
    (work / "k.py").write_text(HEADERS, encoding="utf-8")
    launch = ("--grid", "1", "--block", "32", "--config", "none", "--arg")
    done = run("lint", "k.py::SOURCE::my::turn<__half>", *launch, "y=float16[32]", folder=work)
    assert done.returncode == 1, done.stderr
    assert "STS: degree 16" in done.stdout
    assert "(k.py:7)" in done.stdout
    done = run("lint", "k.py::SOURCE::my::turn", *launch, "y=float32[32]", folder=work)
    assert "k.py::SOURCE::my::turn<float>'" in done.stderr


def test_errors_say_what_to_type(work: Path) -> None:
    (work / "two.py").write_text("S = '__global__ void f() {}\\n__global__ void g(int n) {}'\n", encoding="utf-8")
    launch = ("--grid", "1", "--block", "32", "--config", "none")
    for words, said in (
        (("two.py::S", *launch), "two.py::S has 2 kernels: f, g\n  try: name one: "),
        (("two.py::S::f", *launch[:2], *launch[4:]), "has no block\n  try: --block 128"),
        (("two.py::S::g", *launch, "--arg", "n=fast"), "n is 'fast', which is not a number"),
        (("two.py::S::h", *launch), "two.py::S::h does not compile for sm_90"),
        (("two.py::S::f", *launch, "--option", "st=c++20"), "NVRTC has no option 'st', did you mean 'std'?"),
        (("two.py::S::g", *launch), "1 parameters, 0 arguments"),
    ):
        done = run("profile", *words, *OURS, folder=work)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
