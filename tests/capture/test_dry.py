"""``capture --dry``: programs run against the stand-in for CUDA's runtime; skipped without nvcc."""

import ctypes
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.capture import dry, running
from ncu_swizzle.capture.launches import CapturedLaunch, Manifest, open_launches
from ncu_swizzle.commands import capture
from ncu_swizzle.commands.capture import Wanted
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.cubin.names import demangle, function
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import captures
from tests.support.marks import NEEDS_ALL, executable
from tests.support.places import DATA

MEMORY_MIB = 64
RUNTIME = DATA / "runtime"


def built(source: Path, folder: Path, *options: str) -> None:
    """Compile a program to ``app`` in the folder."""
    words = options or ("-arch=sm_90", "-cudart", "shared")
    subprocess.run([str(Toolchain().find(NVCC)), *words, "-o", "app", str(source)], cwd=folder, check=True)


def captured(folder: Path, *argv: str, out: Path, name: str = "", count: int = 32, like: str = "h100") -> Manifest:
    wanted = Wanted(kernel_name=name, launch_count=count, memory_limit=MEMORY_MIB, dry=True, like=like)
    return capture.captured(UserProgram(argv, folder), wanted, Request(timeout_s=60), out)


@pytest.mark.long
@NEEDS_ALL
def test_launches_and_copies_are_kept(shared_programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "app.launches"
    manifest = captured(shared_programs, "./counting", out=out)
    names = [function(demangle(launch.kernel)) for launch in manifest.launches]
    assert names == ["count", "permute", "permute"]
    assert (manifest.origin, manifest.machine.compute_capability, manifest.machine.gpu) == ("dry", "9.0", "")
    with open_launches(out) as file, open_launches(captures.recorded("counting")) as real:
        first, theirs = file.manifest.launches[0], real.manifest.launches[0]
        assert (first.grid, first.block, first.layout) == (theirs.grid, theirs.block, theirs.layout)
        rows = {row.offset: row for row in Replay(file).emulate(first).counts.rows}
        for offset, (_, *numbers) in captures.counts("counting")[0].items():
            row = rows[offset]
            assert [row.executed, row.wavefronts, row.ideal] == numbers, "what ncu counted on the H100"
        later = Replay(file).emulate(file.manifest.launches[1])
        assert later.counts.unknown, "what `count` would have written is unknown"


@pytest.mark.long
@NEEDS_ALL
def test_a_program_that_verifies_its_results_is_captured_up_to_there_and_filters_choose(
    shared_programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "app.launches"
    manifest = captured(shared_programs, "./several", "--size", "512", out=out)
    assert len(manifest.launches) == 6
    assert "several exited with status 1, as no kernel ran" in manifest.notes[0]
    assert len(captured(shared_programs, "./several", "--size", "512", out=out, name="turn", count=3).launches) == 3
    one = captured(shared_programs, "./counting", out=out, name="regex:^cou")
    assert [launch.kernel for launch in one.launches] == ["_Z5count4Task"]
    with pytest.raises(NothingProfiled):
        captured(shared_programs, "./counting", out=out, name="other")


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    ("program", "like", "arch"),
    [("queries", "h100", "sm_90"), ("occupancy", "h100", "sm_90"), ("occupancy", "b200", "sm_100")],
)
def test_device_queries_and_occupancy_are_as_the_gpu_and_nvidias_calculator_say(
    tmp_path: Path, program: str, like: str, arch: str
) -> None:
    built(RUNTIME / f"{program}.cu", tmp_path, f"-arch={arch}", "-cudart", "shared")
    manifest = captured(tmp_path, "./app", out=tmp_path / "x.launches", like=like)
    assert manifest.notes == (), "the program compares the answers, and ended with 0"


def known(launch: CapturedLaunch) -> set[tuple[int, int]]:
    """Return address and size of what is known."""
    return {(buffer.address, buffer.bytes) for buffer in launch.buffers if buffer.contents.sha256}


@pytest.mark.long
@NEEDS_ALL
def test_what_a_kernel_may_have_written_is_unknown(tmp_path: Path) -> None:
    built(RUNTIME / "memory.cu", tmp_path)
    out = tmp_path / "x.launches"
    launches = captured(tmp_path, "./app", out=out).launches
    first = launches[0].parameters[0].bytes
    given = int.from_bytes(first, "little")
    written = int.from_bytes(launches[0].parameters[1].bytes, "little")
    assert known(launches[0]) == set()
    assert known(launches[1]) == {(given + 16, 32)}
    assert known(launches[2]) == set()
    assert known(launches[3]) == {(given, 64), (written, 8)}
    box = int.from_bytes(launches[4].parameters[0].bytes, "little")
    inner = int.from_bytes(launches[5].parameters[0].bytes, "little")
    assert {(box, 8), (inner, 64)} <= known(launches[4])
    assert (inner, 64) not in known(launches[5]), "reached through a pointer in memory"
    with open_launches(out) as file:
        variables = [{part.name: part.contents for part in launch.variables} for launch in launches]
        fixed = {file.memory(one["fixed"].sha256) for one in variables}
        assert fixed == {b"\1\0\0\0\2\0\0\0"}, "no kernel writes constant memory"
        assert file.memory(variables[0]["counter"].sha256) == b"\7\0\0\0"
        assert variables[1]["counter"].why == "a kernel that did not run may have written it"
        assert file.memory(variables[6]["counter"].sha256) == b"\1\0\0\0"


@pytest.mark.long
@NEEDS_ALL
def test_ptx_and_every_compression(tmp_path: Path) -> None:
    text = "__global__ void tile(int *out) { __shared__ int t[64]; t[threadIdx.x] = 1; out[threadIdx.x] = t[0]; }\n"
    (tmp_path / "app.cu").write_text(text + "int main() { tile<<<1, 64>>>(0); return 0; }", encoding="utf-8")
    for mode in ("none", "speed", "size"):
        ptx = ("-gencode", "arch=compute_80,code=compute_80", f"--compress-mode={mode}", "-cudart", "shared")
        built(tmp_path / "app.cu", tmp_path, *ptx)
        (launch,) = captured(tmp_path, "./app", out=tmp_path / "x.launches").launches
        assert (launch.kernel, launch.block) == ("_Z4tilePi", (64, 1, 1))


@pytest.mark.long
@NEEDS_ALL
def test_what_cannot_be_captured_is_said(tmp_path: Path) -> None:
    out = tmp_path / "x.launches"
    built(RUNTIME / "lacking.cu", tmp_path)
    with pytest.raises(EnvironmentLacking, match="does not have cudaCreateChannelDesc") as error:
        captured(tmp_path, "./app", out=out)
    assert error.value.exit_code == 3
    built(RUNTIME / "crashing.cu", tmp_path)
    with pytest.raises(ProgramFailed, match="exited with status -"):
        captured(tmp_path, "./app", out=out)
    built(RUNTIME / "crashing.cu", tmp_path, "-arch=sm_90")
    executable(tmp_path / "script")
    for argv, says in (
        (("./app",), "CUDA's runtime is linked into ./app"),
        (("./script",), "is not a program but a script"),
        ((sys.executable,), "has no device code"),
        (("./nothing",), "is not an executable program"),
        ((), "no program follows --"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)):
            captured(tmp_path, *argv, out=out)
    assert not out.exists()


def test_functions_of_the_runtime_that_the_stand_in_has() -> None:
    assert {"cudaMalloc", "cudaLaunchKernel", "__cudaLaunchKernel_ptsz", "cudaMemcpyToSymbol"} <= dry.defined()
    assert "cudaMallocArray" not in dry.defined()


@pytest.mark.long
def test_tensor_maps_are_encoded_as_a_driver_did(tmp_path: Path) -> None:
    generated = {"device.h": running.header(running.B200, 13000), "missing.h": ""}
    built = running.build(dry.SOURCE, tmp_path, "libcudart.so.13", generated=generated, cached=False)
    library, checked = ctypes.CDLL(str(built)), 0
    with gzip.open(DATA / "tensor_maps_h100.jsonl.gz", "rt", encoding="utf-8") as lines:
        entries = [*map(json.loads, lines)]
    for one in entries:
        if one["status"] or one["pixels"]:
            continue
        content = ctypes.create_string_buffer(128)
        sizes, strides = ((ctypes.c_uint64 * 5)(*one[name]) for name in ("sizes", "strides"))
        box, steps = ((ctypes.c_uint32 * 5)(*one[name]) for name in ("box", "steps"))
        further = (one[name] for name in ("interleave", "swizzle", "promotion", "fill"))
        shape = one["dtype"], len(one["sizes"]), ctypes.c_void_p(one["address"])
        assert library.cuTensorMapEncodeTiled(content, *shape, sizes, strides, box, steps, *further) == 0
        assert content.raw.hex() == one["map"], one
        checked += 1
    assert checked > 150
