"""Kernels without a launch: found in what is built, with the blocks that sources and cubins tell of."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from ncu_swizzle.base.degrees import FREE
from ncu_swizzle.base.errors import BadFile, UsageError
from ncu_swizzle.engines import launchless
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.naming import Named
from ncu_swizzle.kernels.options import KernelDescription, LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support.marks import NEEDS_ALL

SOURCE = """
constexpr int WIDE = 4 * 32;
template <int N> __global__ void turn(float* y, const float* x) {
    __shared__ float t[N][N + 1];
    t[threadIdx.y][threadIdx.x] = x[threadIdx.y * N + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * N + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
__global__ void __launch_bounds__(64) bounded(float* y) { __shared__ float s[64]; s[threadIdx.x] = *y; *y = s[0]; }
__global__ void flat(float* y) { *y = 1; }
template <int N> void launch(float* y, const float* x, int blocks) { turn<N><<<blocks, dim3(N, N / 2)>>>(y, x); }
void run(float* y, const float* x, int n) {
    launch<32>(y, x, n);
    launch<16>(y, x, n);
    flat<<<n, WIDE>>>(y);
    flat<<<n, n>>>(y);
}
int main() {}
"""


@pytest.mark.long
@NEEDS_ALL
def test_blocks_are_read_from_sources_and_cubins(tmp_path: Path) -> None:
    source = tmp_path / "app.cu"
    source.write_text(SOURCE)
    file = launchless.of_source(KernelSpec(name="app", source=source, launch=LaunchOptions()), EmulationSettings())
    blocks = {kernel.name: [(shape.sizes, shape.certain) for shape in kernel.blocks()] for kernel in file.kernels}
    assert blocks == {
        "bounded": [((64, 1, 1), False)],
        "turn<16>": [((16, 8, 1), True)],
        "turn<32>": [((32, 16, 1), True)],
        "flat": [((128, 1, 1), True)],
    }
    assert list(blocks)[-1] == "flat"  # without shared memory
    assert [len(kernel.computed) for kernel in file.kernels] == [0, 0, 0, 1]
    assert [shape.sizes for shape in file.kernels[0].blocks((8, 4, 1))] == [(8, 4, 1)]


@pytest.mark.long
@NEEDS_ALL
def test_kernels_are_found_in_what_is_built(tmp_path: Path) -> None:
    (tmp_path / "app.cu").write_text(SOURCE)

    def nvcc(*words: str) -> None:
        subprocess.run([str(Toolchain().find(NVCC)), *words, "app.cu"], cwd=tmp_path, check=True)

    nvcc("-arch=sm_90", "-o", "app")
    nvcc("-arch=sm_90", "-dc", "-o", "unlinked.o")
    nvcc("-gencode=arch=compute_80,code=sm_80", "-c", "-o", "old.o")
    nvcc("-gencode=arch=compute_80,code=compute_80", "-fatbin", "-o", "virtual.fatbin")
    nvcc("-arch=sm_90", "-ptx", "-o", "app.ptx")
    with zipfile.ZipFile(tmp_path / "app.whl", "w") as wheel:
        wheel.write(tmp_path / "old.o", "app/_C.so")
    settings = EmulationSettings()
    for name, sm in (
        ("app", 90),
        ("unlinked.o", 90),
        ("old.o", 80),
        ("virtual.fatbin", 90),
        ("app.whl", 80),
        ("app.ptx", 90),
    ):
        file = launchless.of_built(tmp_path / name, settings)
        assert [kernel.name for kernel in file.kernels] == ["bounded", "turn<16>", "turn<32>", "flat"], name
        assert {kernel.binary.cubin.sm for kernel in file.kernels} == {sm}, name
        assert bool(file.notes) == (sm == 80), name
        turn = next(kernel for kernel in file.kernels if kernel.name == "turn<32>").judged((32, 8, 1))
        assert {access.verdict for access in turn.shapes[0].accesses} == {FREE}, name
        assert [kernel.name for kernel in launchless.of_built(tmp_path / name, settings, wanted="flat").kernels] == [
            "flat"
        ]
    assert {
        kernel.binary.cubin.sm for kernel in launchless.of_built(tmp_path / "old.o", settings, "sm_80").kernels
    } == {80}
    built = [str(tmp_path / name) for name in ("app", "app.ptx", "app.whl", "old.o", "unlinked.o", "virtual.fatbin")]
    (named,) = naming.resolve([str(tmp_path)], KernelDescription(), unlaunched=True)
    assert sorted(file.name for file in named.unlaunched) == built
    (tmp_path / "run.json").touch()
    (run,) = naming.resolve([str(tmp_path)], KernelDescription(), saved=True, unlaunched=True)
    assert run == Named(saved=tmp_path)
    with pytest.raises(UsageError, match="no kernel other"):
        launchless.of_built(tmp_path / "app", settings, wanted="other")
    with pytest.raises(BadFile, match="no kernel"):
        launchless.of_built(Path("/bin/true"), settings)
