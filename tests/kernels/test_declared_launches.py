"""Launches that a Python file declares, read without executing it."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.kernels.project import declared
from tests.support.places import DATA
from tests.support.refusals import refused, unlike

DECLARED = (DATA / "python" / "texts" / "triton" / "declared.py").read_text(encoding="utf-8")


def specs_of(folder: Path, text: str) -> tuple[object, ...]:
    file = folder / "kernels.py"
    file.write_text(text, encoding="utf-8")
    return declared(file)


def test_a_dictionary_describes_launches_as_a_project_file_does(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(f"raise SystemExit('executed')\n{DECLARED}", encoding="utf-8")
    turn, small = declared(file)
    assert (turn.name, turn.launch.entry, turn.source, turn.launch.grid) == ("turn", "turn", file, "n // BM, n // BN")
    assert [variant.name for variant in turn.variants] == ["turn-wide", "turn-narrow"]
    assert turn.variants[0].options == ("num_warps=8",)
    assert (small.launch.entry, small.launch.grid, small.launch.args[0]) == ("turn", "1,1", "x=float32[32,32]")


def test_a_file_without_one_declares_nothing(tmp_path: Path) -> None:
    for text in ("x = 1", "# NCU_SWIZZLE", "NCU_SWIZZLE: dict", "def f():\n    NCU_SWIZZLE = 3", "NCU_SWIZZLE = (", ""):
        assert specs_of(tmp_path, text) == ()
    assert declared(tmp_path / "none.py") == ()


def test_what_is_not_a_description_is_refused(tmp_path: Path) -> None:
    wrong = {
        "n = 4\nNCU_SWIZZLE = {'f': {'grid': n}}": "kernels.py:2: NCU_SWIZZLE is not a literal",
        "NCU_SWIZZLE = ['f']": "NCU_SWIZZLE is not a table",
        "NCU_SWIZZLE = {'f': 3}": r"\[NCU_SWIZZLE f\] is not a table",
        "NCU_SWIZZLE = {'f': {'gird': 3}}": "unknown key 'gird', did you mean 'grid'",
    }
    assert not unlike(wrong, lambda text: refused(specs_of, tmp_path, text))
