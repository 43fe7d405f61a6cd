"""Fixtures of the proofs' tests: a project of three units that include one header, in git."""

from pathlib import Path

import pytest

from tests.support.repositories import git

HEADER = """#pragma once
template <int N> struct Tile {
    float v[N][N];
    __device__ float &at(int row, int column) { return v[row][column]; }
};
inline int version() { return 7; }
"""
SOURCE = """#include "{header}"
#include <cstdio>
__global__ void NAME(float *p) {{
    __shared__ Tile<32> tile;
    tile.at(threadIdx.y, threadIdx.x) = p[threadIdx.x];
    __syncthreads();
    p[32 * threadIdx.y + threadIdx.x] = tile.at(threadIdx.x, threadIdx.y);
}}
int main() {{ NAME<<<1, dim3(32, 32)>>>(nullptr); printf("%s:%d %d", __FILE__, __LINE__, version()); }}
"""
COMMANDS = """[{"directory": "FOLDER", "file": "src/other.cu", "command":
    "nvcc -DNDEBUG -IFOLDER/build -IFOLDER/include -O3 --generate-code=arch=compute_90,code=[sm_90] -c src/other.cu"}]
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that commands are typed in, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def units(work: Path) -> Path:
    """Return a checkout: two units that use a tile of a header, one of which a build names, and a third unit."""
    for name, text in {
        "include/tile.cuh": HEADER,
        "src/own.cu": SOURCE.format(header="../include/tile.cuh").replace("NAME", "own"),
        "src/other.cu": '#include "generated.h"\n' + SOURCE.format(header="tile.cuh").replace("NAME", "other"),
        "src/comment.cu": "// not an #include of tile.cuh\n__global__ void comment() {}\n",
        "build/generated.h": "",
        "build/compile_commands.json": COMMANDS.replace("FOLDER", str(work)),
        ".gitignore": "build/\ncache/\n*.json\n*.smt2\n",
    }.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "x")
    return work


@pytest.fixture
def turns(work: Path) -> Path:
    """Return a folder with a transpose, and versions of it: right, with a use left out, and with other host code."""
    plain = (
        "__global__ void turn(const float *in, float *out, int n) {\n"
        "    __shared__ float tile[32][32];\n"
        "    int x = threadIdx.x, y = threadIdx.y;\n"
        "    for (int j = 0; j < 32; j += 8) tile[y + j][x] = in[(y + j) * n + x];\n"
        "    __syncthreads();\n"
        "    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[x][y + j];\n"
        "}\n"
        "int launches() { return 1; }\n"
    )
    left_out = plain.replace("tile[y + j][x]", "tile[y + j][x ^ (y + j)]")
    right = left_out.replace("tile[x][y + j]", "tile[x][(y + j) ^ x]")
    large = "__shared__ float tile[32][2048];"
    versions = {
        "large": plain.replace("__shared__ float tile[32][32];", large),
        "before": plain, "right": right, "wrong": left_out, "padded": plain.replace("[32][32]", "[32][33]"),
        "host": right.replace("return 1", "return 2"), "outside": plain.replace("tile[y + j][x]", "tile[y + j + 1][x]"),
    }  # fmt: skip
    for name, text in versions.items():
        (work / f"{name}.cu").write_text(text, encoding="utf-8")
    return work
