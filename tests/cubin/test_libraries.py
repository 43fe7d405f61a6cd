"""Headers of CUDA and of libraries, told from the user's files by their paths."""

from __future__ import annotations

from ncu_swizzle.cubin.lines import is_library, is_wmma
from tests.support.places import text

LIBRARIES, OWN = (part.splitlines() for part in text("cubin/paths.txt").split("\n\n"))


def test_headers_of_libraries_are_told_from_the_user_s_files() -> None:
    assert [file for file in (*LIBRARIES, *OWN) if is_library(file)] == [*LIBRARIES]
    assert [file for file in (*LIBRARIES, *OWN) if is_wmma(file)] == [LIBRARIES[0], LIBRARIES[5]]
