"""Functions in Python files, as they are named and described before anything is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels import limits, naming
from ncu_swizzle.kernels.arguments import UNKNOWN, overridden
from ncu_swizzle.kernels.family import LITERAL, Family
from tests.support.own_kernel import description
from tests.support.refusals import refused, unlike

ARGS = ("x=float32[n]", "y=float32[n]:out", "BM=32", "f=float32:1.5", "KIND=a:b", "n=n")


def test_a_function_is_named_after_its_file() -> None:
    names = {
        "my.py::fn": ("my.py", "fn"),
        "a/my.py::SOURCE::ns::fn<32>": ("a/my.py", "SOURCE::ns::fn<32>"),
        "my.cu": ("my.cu", ""),
        "my.py": ("my.py", ""),
        "my.py::": ("my.py::", ""),
        "ns::fn": ("ns::fn", ""),
    }
    for text, (file, name) in names.items():
        assert naming.split_name(text) == (Path(file), name)
        assert naming.is_kernel_file(text) is (bool(name) or text == "my.cu"), text


def described(folder: Path, args: tuple[str, ...] = ARGS, **more: object) -> Family:
    (folder / "my.py").write_text("raise SystemExit('it was imported')\n", encoding="utf-8")
    given = description(**{"entry": "fn", "grid": "n // BM", "args": args, "problem": {"n": 64}, **more})  # type: ignore[arg-type]
    return naming.family_of(folder / "my.py", given, ())


def test_arguments_are_buffers_numbers_and_literals_in_any_order(tmp_path: Path) -> None:
    family = described(tmp_path)
    kinds = {argument.name: (argument.dtype, argument.shape, argument.value) for argument in family.arguments}
    assert list(kinds) == ["x", "y", "BM", "f", "KIND", "n"]
    assert kinds["x"] == ("float32", ("n",), "")
    assert kinds["f"] == ("float32", (), "1.5")
    assert [kinds[name] for name in ("BM", "KIND", "n")] == [(LITERAL, (), text) for text in ("32", "a:b", "n")]
    assert [argument.output for argument in family.arguments][:2] == [False, True]
    assert family.launch.block == UNKNOWN


def test_a_variants_options_replace_arguments(tmp_path: Path) -> None:
    family = described(tmp_path, before=("BM=16",), after=("BM=64", "num_warps=8"))
    assert [kernel.options for kernel in family.kernels] == [("BM=16",), ("BM=64", "num_warps=8")]
    for kernel, value in zip(family.kernels, ("16", "64"), strict=True):
        arguments = {each.name: each.value for each in overridden(family, kernel.options)}
        assert arguments["BM"] == value


def test_a_wrong_argument_is_refused_before_anything_is_imported(tmp_path: Path) -> None:
    wrong = {
        ("float32[n]",): r"the argument 'float32\[n\]' has no name",
        ("BM=1", "BM=2"): "two arguments are called 'BM'",
        ("x=float32[n]", "x=3"): "two arguments are called 'x'",
        ("x=flot32[n]",): "unknown dtype 'flot32', did you mean 'float32'",
        ("x=float32[m]",): "there is no size 'm'",
    }
    assert not unlike(wrong, lambda args: refused(described, tmp_path, args))


def test_options_of_another_compiler_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="-O3 is for nvcc"):
        described(tmp_path, options=("-O3",))
    with pytest.raises(UsageError, match="fast is not NAME=VALUE"):
        described(tmp_path, tuning=("fast",))
    (tmp_path / "my.cu").write_text("__global__ void fn() {}", encoding="utf-8")
    with pytest.raises(UsageError, match="--option num_warps=4 is for a function in Python"):
        naming.family_of(tmp_path / "my.cu", description(entry="fn", grid="1", block="1", tuning=("num_warps=4",)), ())


def test_modules_beside_a_file_belong_to_its_sources(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    for name in ("my", "near", "pack/__init__", "pack/inner", "other", "pack/peer"):
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    (tmp_path / "my.py").write_text("import os, near\nfrom pack.inner import f\n", encoding="utf-8")
    (tmp_path / "pack" / "inner.py").write_text("from . import peer\n", encoding="utf-8")
    found = {path.relative_to(tmp_path).as_posix() for path, _ in limits.texts([tmp_path / "my.py"], [])}
    assert found == {"my.py", "near.py", "pack/inner.py", "pack/__init__.py", "pack/peer.py"}
    (tmp_path / "my.py").write_text("this is no Python", encoding="utf-8")
    assert [path.name for path, _ in limits.texts([tmp_path / "my.py"], [])] == ["my.py"]
