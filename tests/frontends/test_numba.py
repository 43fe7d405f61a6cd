"""Functions of Numba's, compiled here without a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

from ncu_swizzle.reports import run_folder
from tests.support import inlined_texts
from tests.support.process import run
from tests.support.python_kernels import NEEDS_NUMBA, OURS, TURN
from tests.support.python_recordings import EXAMPLES

pytestmark = NEEDS_NUMBA

BLOCK = ("--block", "32,8", "--config", "none")


def test_a_conflict_is_on_the_line_of_python_that_has_it(work: Path) -> None:
    shutil.copy(EXAMPLES / "numba_kernels.py", work)
    done = run("lint", "numba_kernels.py::transpose_plain", *TURN, *BLOCK, folder=work)
    line = (
        (EXAMPLES / "numba_kernels.py")
        .read_text()
        .splitlines()
        .index("        y[j + row, i] = tile[cuda.threadIdx.x, row]")
    )
    assert done.returncode == 1, done.stderr
    assert "LDS: degree 32" in done.stdout
    assert f"(numba_kernels.py:{line + 1})" in done.stdout
    done = run("lint", "numba_kernels.py::transpose_padded", *TURN, *BLOCK, folder=work)
    assert done.returncode == 0, done.stdout


def test_a_function_of_another_file_is_compiled_and_has_its_callers(work: Path) -> None:
    (work / "kernels.py").write_text(inlined_texts.NUMBA, encoding="utf-8")
    (work / "helpers.py").write_text(inlined_texts.NUMBA_HELPERS, encoding="utf-8")
    done = run("profile", "kernels.py::turn", *TURN, *BLOCK, *OURS, "-o", "run", folder=work)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(work / "run").profiles
    stacks = {access.stack for access in profile.instructions if access.access == "STS"}
    assert stacks == {(("helpers.py", 6), ("kernels.py", 10))}


def test_what_numba_itself_inlines_has_its_own_lines_and_its_callers(work: Path) -> None:
    (work / "kernels.py").write_text(inlined_texts.NUMBA_NESTED, encoding="utf-8")
    (work / "helpers.py").write_text(inlined_texts.NUMBA_INLINED, encoding="utf-8")
    done = run("profile", "kernels.py::turn", *TURN, *BLOCK, *OURS, "-o", "run", folder=work)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(work / "run").profiles
    stacks = {access.access: access.stack for access in profile.instructions if access.access}
    assert stacks["STS"] == (("helpers.py", 7), ("helpers.py", 12), ("kernels.py", 14))
    assert stacks["LDS"] == (("kernels.py", 11), ("kernels.py", 17))


RECORDS = """import numpy as np
from numba import cuda, from_dtype

particle = np.dtype([("x", "f4"), ("mass", "f8")])
Particle = from_dtype(particle)


@cuda.jit
def back(p, out):
    tile = cuda.shared.array(32, Particle)
    t = cuda.threadIdx.x
    tile[t] = p[t]
    cuda.syncthreads()
    out[t] = tile[31 - t].x
"""


def test_an_array_of_a_structured_dtype_is_bytes_and_the_dtype_s_name(work: Path) -> None:
    (work / "k.py").write_text(RECORDS, encoding="utf-8")
    words = ("profile", "k.py::back", "--grid", "1", "--block", "32", *OURS, "--arg", "out=float32[32]:out", "--arg")
    done = run(*words, "p=uint8[32,12]", "--option", "p=particle", "-o", "run", folder=work)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(work / "run").profiles
    assert {access.stack for access in profile.shared()} == {(("k.py", 12),), (("k.py", 14),)}
    for typed, said in (
        (("p=particle[32]",), "--arg p=uint8[32,16] --option p=particle"),
        (("p=uint8[32,16]", "--option", "p=particle"), "--arg p=uint8[32,12]"),
        (("p=float32[32]", "--option", "p=Particle"), "--arg p=uint8[32,12]"),
        (("p=uint8[32,12]", "--option", "p=particl"), "its dtypes: particle, Particle\n  try: --option p=particle"),
    ):
        done = run(*words, *typed, folder=work)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr


def test_errors_say_what_to_type(work: Path) -> None:
    shutil.copy(EXAMPLES / "numba_kernels.py", work)
    for words, said in (
        ((*TURN, "--config", "none"), "transpose_plain has no block\n  try: --block 128"),
        ((*TURN[:4], *BLOCK), "transpose_plain lacks y\n  try: --arg y=float32[1024]"),
        ((*TURN[:4], "--arg", "y=fast", *BLOCK), "y is 'fast', which Numba cannot take"),
        ((*TURN, *BLOCK, "--option", "fastmth=True"), "Numba has no option 'fastmth', did you mean 'fastmath'?"),
        ((*TURN[:4], "--arg", "y=7", *BLOCK), "transpose_plain does not compile for sm_90"),
    ):
        done = run("profile", "numba_kernels.py::transpose_plain", *words, *OURS, folder=work)
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert "Traceback" not in done.stderr
