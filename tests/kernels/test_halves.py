"""Translation units: how a build says that they are compiled, and their two halves."""

import json
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, Untrusted
from ncu_swizzle.kernels import halves
from ncu_swizzle.kernels.halves import TranslationUnit, Tree
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_NVCC

CMAKE = (
    "/opt/cuda/bin/nvcc -forward-unknown-to-host-compiler -DN=32 -I{folder}/include -isystem {folder}/more -O3 "
    "-std=c++17 "
    '"--generate-code=arch=compute_80,code=[compute_80,sm_80]" -gencode arch=compute_90a,code=sm_90a -Xcompiler=-fPIC '
    "-G -lineinfo -MD -MT x.o -MF x.d -x cu -rdc=true -Xptxas -v -c {folder}/a.cu -o x.o"
)
HOST = "c++ -DX='1' -I include -Wall -std=c++20 -O2 -fPIC -o a.o -c {folder}/a.cu"


@pytest.mark.parametrize(
    ("command", "options", "archs"),
    [
        (
            CMAKE,
            "-DN=32 -I{folder}/include -isystem={folder}/more -O3 -std=c++17 -Xcompiler=-fPIC -rdc=true",
            ("sm_80", "sm_90a"),
        ),
        ("nvcc -arch=sm_86 -dc -o a.o a.cu", "-rdc=true", ("sm_86",)),
        ("nvcc --use_fast_math a.cu -c", "--use_fast_math", ("sm_90a",)),
        (HOST, "-DX=1 -I{folder}/include -std=c++20 -Xcompiler=-O2 -Xcompiler=-fPIC", ("sm_90a",)),
    ],
)
def test_what_a_build_passes_is_kept_if_it_changes_the_code(
    command: str, options: str, archs: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "compile_commands.json"
    entry = {"directory": str(tmp_path), "file": "a.cu", "command": command.format(folder=tmp_path)}
    file.write_text(json.dumps([entry]))
    ((source, unit),) = halves.of_commands(file)
    assert source == tmp_path / "a.cu"
    assert isinstance(unit, TranslationUnit), unit
    assert unit.options == tuple(options.format(folder=tmp_path).split())
    assert unit.archs == archs


def test_a_build_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "compile_commands.json"
    for words in (
        ["nvcc", "-ccbin", "./mine", "a.cu"],
        ["nvcc", "--options-file", "x", "a.cu"],
        ["g++", "-fplugin=x.so"],
    ):
        file.write_text(json.dumps([{"directory": ".", "file": "a.cu", "arguments": words}]))
        ((_, refused),) = halves.of_commands(file)
        assert isinstance(refused, Untrusted), words
    for text in ("{}", "[1]", "nonsense"):
        file.write_text(text)
        with pytest.raises(BadFile):
            list(halves.of_commands(file))


@pytest.mark.long
@NEEDS_NVCC
def test_halves_are_the_same_in_every_folder(tmp_path: Path) -> None:
    """Names of internal symbols have a digest of the path, __FILE__ the path itself: neither may show."""
    text = """#include <cstdio>
namespace { __device__ int hidden; __global__ void kernel(int *p) { *p = hidden; } }
static __device__ float table[4];
int main() { kernel<<<1, 1>>>(nullptr); cudaMemcpyToSymbol(table, "x", 2); std::printf("%s", __FILE__); }
"""
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.cu").write_text(text)
        unit = TranslationUnit(source=tmp_path / "one" / "a.cu", options=("-std=c++17",))
        made.append(halves.compiled(unit, "sm_90a", Toolchain(), Tree(folder, tmp_path / "one"), cached=False))
    assert made[0].ptx == made[1].ptx
    assert made[0].host == made[1].host
    assert "fatbinData:" not in made[0].host
    assert "hidden" in made[0].host
    assert [half.read.count(tmp_path / name / "a.cu") for half, name in zip(made, ("one", "two"), strict=True)] == [
        1,
        1,
    ]
