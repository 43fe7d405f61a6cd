"""Functions of Numba's, compiled here without a GPU."""

import shutil
from pathlib import Path

import pytest

from tests.support.python_kernels import EXAMPLES, NEEDS_NUMBA, TEXTS, TURN, Linted, Profiled, Refused, line_of

pytestmark = [NEEDS_NUMBA, pytest.mark.long]

BLOCK = ("--block", "32,8")


def test_a_conflict_is_on_the_line_of_python_that_has_it(work: Path, linted: Linted) -> None:
    file = Path(shutil.copy(EXAMPLES / "numba_kernels.py", work))
    line = line_of(file, "y[j + row, i] = tile[cuda.threadIdx.x, row]")
    code, said = linted("numba_kernels.py::transpose_plain", *TURN, *BLOCK)
    assert (code, "LDS: degree 32" in said, f"(numba_kernels.py:{line})" in said) == (1, True, True), said
    code, said = linted("numba_kernels.py::transpose_padded", *TURN, *BLOCK)
    assert code == 0, said


def test_a_signature_does_not_make_numba_compile_at_import(work: Path, linted: Linted) -> None:
    shutil.copytree(TEXTS / "numba", work, dirs_exist_ok=True)
    arrays = ("--arg", "x=float32[32,32]", "--arg", "y=float32[32,32]:out")
    code, said = linted("signed.py::turn", "--grid", "1", "--block", "32,32", *arrays)
    assert (code, "LDS: degree 32" in said) == (1, True), said


def test_a_function_of_another_file_is_compiled_and_has_its_callers(work: Path, profiled: Profiled) -> None:
    shutil.copytree(TEXTS / "numba", work, dirs_exist_ok=True)
    profile = profiled("kernels.py::turn", *TURN, *BLOCK)
    stacks = {access.stack for access in profile.instructions if access.access == "STS"}
    assert stacks == {(("helpers.py", 6), ("kernels.py", 10))}


def test_what_numba_itself_inlines_has_its_own_lines_and_its_callers(work: Path, profiled: Profiled) -> None:
    shutil.copytree(TEXTS / "numba_nested", work, dirs_exist_ok=True)
    profile = profiled("kernels.py::turn", *TURN, *BLOCK)
    stacks = {access.access: access.stack for access in profile.instructions if access.access}
    assert stacks["STS"] == (("helpers.py", 7), ("helpers.py", 12), ("kernels.py", 14))
    assert stacks["LDS"] == (("kernels.py", 11), ("kernels.py", 17))


def test_an_array_of_a_structured_dtype_is_bytes_and_the_dtype_s_name(
    work: Path, profiled: Profiled, refused: Refused
) -> None:
    shutil.copytree(TEXTS / "numba", work, dirs_exist_ok=True)
    words = ("records.py::back", "--grid", "1", "--block", "32", "--arg", "out=float32[32]:out", "--arg")
    profile = profiled(*words, "p=uint8[32,12]", "--option", "p=particle")
    assert {access.stack for access in profile.shared()} == {(("records.py", 12),), (("records.py", 14),)}
    for typed, said in (
        (("p=particle[32]",), "--arg p=uint8[32,16] --option p=particle"),
        (("p=uint8[32,16]", "--option", "p=particle"), "--arg p=uint8[32,12]"),
        (("p=float32[32]", "--option", "p=Particle"), "--arg p=uint8[32,12]"),
        (("p=uint8[32,12]", "--option", "p=particl"), "its dtypes: particle, Particle\n  try: --option p=particle"),
    ):
        assert said in "\n  try: ".join(refused(*words, *typed))
