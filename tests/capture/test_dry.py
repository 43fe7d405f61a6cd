"""``capture --dry``: programs run against the stand-in for CUDA's runtime; skipped without nvcc."""

import ctypes
import gzip
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench.attacks import capture_stress
from ncu_swizzle.base.errors import (
    EnvironmentLacking,
    NotComparable,
    NothingProfiled,
    ProgramFailed,
    TimeLimit,
    UsageError,
)
from ncu_swizzle.capture import dry, running
from ncu_swizzle.capture.launches import CapturedLaunch, Manifest, open_launches
from ncu_swizzle.commands import profile
from ncu_swizzle.commands.profile import Wanted
from ncu_swizzle.commands.run_program import UserProgram
from ncu_swizzle.cubin.names import demangle, function
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import captures, process
from tests.support.marks import NEEDS_ALL, executable
from tests.support.places import DATA
from tests.support.processes import processes_in

MEMORY_MIB = 64
RUNTIME = DATA / "runtime"


def built(source: Path, folder: Path, *options: str) -> None:
    """Compile a program to ``app`` in the folder."""
    words = options or ("-arch=sm_90", "-cudart", "shared")
    subprocess.run([str(Toolchain().find(NVCC)), *words, "-o", "app", str(source)], cwd=folder, check=True)


def captured(
    folder: Path, *argv: str, out: Path, name: str = "", count: int = 32, like: str = "h100", timeout_s: float = 60
) -> Manifest:
    wanted = Wanted(kernel_name=name, launch_count=count, memory_limit=MEMORY_MIB, dry=True, like=like)
    return profile.captured(UserProgram(argv, folder), wanted, Request(timeout_s=timeout_s), out)


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


@pytest.fixture(scope="module")
def misuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``app``, which does what else programs do."""
    folder = tmp_path_factory.mktemp("misuse")
    built(RUNTIME / "misuse.cu", folder)
    return folder


ENDED = "A process ended by _exit, exec or a signal: more may have been launched."
LOST = "2 launches were lost: the record is missing or incomplete (a full disk, or a kill)."
CUT = "A line of the recording is damaged and was left out."
MORE = (
    "Only the first 2 launches were captured; the program launched 5 more. -c N captures more, -k NAME selects others."
)


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    ("what", "count", "kept", "notes"),
    [
        ("fork", 32, 3, []),
        ("plain-fork", 32, 3, []),
        ("threads", 2000, 1600, []),
        ("first-launch", 32, 10, [ENDED.replace("A process", "5 processes")]),
        ("exec", 32, 3, [ENDED]),
        ("quit", 2, 2, [MORE, ENDED]),
        ("crash", 32, 2, [ENDED]),
        ("descriptors", 32, 2, []),
        ("descriptors-used-up", 32, 2, []),
        ("full-disk", 32, 1, [LOST, CUT, ENDED]),
        ("daemon", 32, 1, []),
    ],
)
def test_no_launch_is_lost_by_what_a_program_does(
    what: str, count: int, kept: int, notes: list[str], misuse: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.launches"
    folder = shutil.copytree(misuse, tmp_path / "run")
    manifest = captured(folder, "./app", what, out=out, count=count)
    assert len(manifest.launches) == kept
    assert [note for note in manifest.notes if not note.startswith("Contents")] == notes
    if what in ("fork", "plain-fork", "crash", "descriptors"):
        failed = process.command("lint", str(out), "--json", "-", folder=tmp_path)
        assert failed.returncode == 1, "one of them conflicts 32-way"
        assert "degree 32, at most 1 allowed" in failed.stdout
        with open_launches(out) as file:
            tables = [file.memory(launch.buffers[-1].contents.sha256) for launch in manifest.launches]
        assert len(set(tables)) == 2
    if what == "descriptors":
        assert (folder / "own.txt").read_bytes() == b""
    assert processes_in(folder) == [], "nothing is left running"


@pytest.mark.long
@NEEDS_ALL
def test_what_a_program_started_ends_at_its_time_limit(misuse: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(misuse, tmp_path / "run")
    with pytest.raises(TimeLimit, match="app was still running"):
        captured(folder, "./app", "hang", out=tmp_path / "x.launches", timeout_s=1)
    assert processes_in(folder) == []


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("name", ["a:b", "$ORIGIN", "a;b $LIB"])
def test_any_folder_for_temporary_files_will_do(
    name: str, misuse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    assert len(captured(misuse, "./app", "launch", out=tmp_path / "x.launches").launches) == 1
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.long
@NEEDS_ALL
def test_what_cannot_be_is_answered_as_a_gpu_does_and_the_rest_is_kept(tmp_path: Path) -> None:
    """tests/gpu holds answers.txt against a real one."""
    built(RUNTIME / "answers.cu", tmp_path)
    out = tmp_path / "x.launches"
    manifest = captured(tmp_path, "./app", "found.txt", out=out)
    assert (tmp_path / "found.txt").read_text(encoding="utf-8") == (RUNTIME / "answers.txt").read_text(encoding="utf-8")
    assert len(manifest.launches) == 6
    assert manifest.notes[0].startswith("17 launches were refused by CUDA: plain (cudaErrorInvalidValue)")
    with open_launches(out) as file:
        assert file.manifest == manifest, "the file can be read"


@pytest.mark.long
@NEEDS_ALL
def test_errors_have_nvidia_s_names_and_texts(tmp_path: Path) -> None:
    generated = {"device.h": running.header(running.H100, 13000), "missing.h": ""}
    ours = ctypes.CDLL(str(running.build(dry.SOURCE, tmp_path, "stand-in.so", generated=generated)))
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    libraries = [file for folder in folders for file in Path(folder).glob("cu13/lib/libcudart.so.13")]
    if not libraries:
        pytest.skip("CUDA's runtime is not installed as a package")
    theirs = ctypes.CDLL(str(libraries[0]))
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        for runtime in (ours, theirs):
            getattr(runtime, name).restype = ctypes.c_char_p
        known = [getattr(ours, name)(error) for error in range(1024)]
        assert len(set(known)) > 10
        for error, text in enumerate(known):
            assert text in (getattr(theirs, name)(error), b"unrecognized error code")


@pytest.mark.long
@NEEDS_ALL
def test_launches_kept_and_launches_noted_are_those_that_were_made(tmp_path: Path) -> None:
    """A short run of bench/attacks/capture_stress.py."""
    program = capture_stress.built(tmp_path)
    for seed in range(900, 906):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = capture_stress.run(program, folder, seed)
        assert run.wrong == ""
        assert run.begun > 0


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


def executed(folder: Path, *argv: str, out: Path) -> Manifest:
    wanted = Wanted(memory_limit=MEMORY_MIB, dry=True, execute=True)
    return profile.captured(UserProgram(argv, folder), wanted, Request(timeout_s=60), out)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``app``, which checks its results."""
    folder = tmp_path_factory.mktemp("results")
    built(RUNTIME / "results.cu", folder, "-arch=sm_90", "-lineinfo", "-cudart", "shared")
    return folder


@pytest.mark.long
@NEEDS_ALL
def test_a_program_that_checks_its_results_gets_them(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = executed(results, "./app", "right", out=tmp_path / "x.launches")
    assert capsys.readouterr().out.strip() == "results: 0 wrong"
    assert [function(demangle(launch.kernel)) for launch in manifest.launches] == ["scale", "scale"]
    assert not any("no kernel ran" in note for note in manifest.notes)
    with pytest.raises(ProgramFailed, match=r"(?s)exited with status 1; its last lines:.*results: 1 wrong"):
        executed(results, "./app", "wrong", out=tmp_path / "x.launches")


@pytest.mark.long
@NEEDS_ALL
def test_what_a_program_may_not_read_is_refused_and_a_fault_is_named(results: Path, tmp_path: Path) -> None:
    for how, error, said in (
        ("unwritten", NotComparable, "1024 bytes at 0x.*memory that nothing wrote"),
        ("clock", NotComparable, "256 bytes at 0x.*: CS2R"),
        (
            "beyond",
            ProgramFailed,
            r"scale.*results.cu:1[567].*4 bytes right past the end of parameter \d \(1,024 bytes\)",
        ),
    ):
        with pytest.raises(error, match=said):
            executed(results, "./app", how, out=tmp_path / "x.launches")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@NEEDS_ALL
def test_races_of_what_is_executed_are_named(results: Path, tmp_path: Path) -> None:
    notes = executed(results, "./app", "race", out=tmp_path / "x.launches").notes
    assert [note for note in notes if re.match(r"reverse: \S*results.cu:27: thread .* at results.cu:26", note)], notes
    assert not any(note.startswith("scale:") for note in notes), notes


@pytest.mark.long
@NEEDS_ALL
def test_what_launches_find_is_what_an_h100_found(shared_programs: Path, tmp_path: Path) -> None:
    ours = executed(shared_programs, "./counting", out=tmp_path / "x.launches")
    with open_launches(captures.recorded("counting")) as file:
        theirs = file.manifest
    for here, there in zip(ours.launches, theirs.launches, strict=True):
        found = [
            [each.contents.sha256 for each in sorted(launch.buffers, key=lambda part: part.address)]
            for launch in (here, there)
        ]
        assert all(one == other for one, other in zip(*found, strict=True) if one), here.kernel
    assert ours.launches[2].contents == tuple(each for each in ours.launches[2].contents if each.sha256), "all is known"
