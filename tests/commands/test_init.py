"""A launch in one go: the command that is proposed works, and so does the entry that `ncu-swizzle init` writes."""

from __future__ import annotations

import json
import re
import struct
import tomllib
from pathlib import Path

import pytest

from tests.support.marks import NEEDS_ALL
from tests.support.process import Done, Typed
from tests.support.sources import LAUNCHABLE, NAMED


def proposed(done: Done) -> str:
    """Return the command that an error proposes, without the program."""
    (line,) = re.findall(r"try: ncu-swizzle (.*)", done.stderr)
    return str(line)


@NEEDS_ALL
@pytest.mark.parametrize("name", LAUNCHABLE)
def test_a_source_alone_gives_a_command_that_works(name: str, typed: Typed, launchable: Path) -> None:
    for line in (f"profile {name} --engine emulated", f"lint {name}"):
        refused = typed(line)
        assert refused.returncode == 2
        assert "has no grid and no block" in refused.stderr
        assert proposed(refused).split()[:2] == line.split()[:2]
    done = typed(proposed(refused))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "unknown" not in done.stdout
    assert (launchable / name).is_file()


@NEEDS_ALL
@pytest.mark.parametrize("name", ["flat.cu", "particles.cu"])
def test_an_entry_is_written_and_works_at_once(name: str, typed: Typed, launchable: Path) -> None:
    project = launchable / "ncu-swizzle.toml"
    project.write_text('[check]\nbaseline = "none.json"  # kept\n')
    written = typed(f"init {name}")
    assert written.returncode == 0, written.stderr
    text = project.read_text()
    assert text.startswith('[check]\nbaseline = "none.json"  # kept\n')
    (entry,) = tomllib.loads(text)["kernel"].values()
    assert entry["source"] == name
    for line in text.splitlines():
        if line.startswith(("grid", "block", "problem", "shared")):
            assert line.endswith("# guessed")
    following = re.search(r"then: ncu-swizzle (.*)", written.stdout)
    assert following
    assert typed(following[1]).returncode in (0, 1)
    assert typed(f"profile {name} --engine emulated").returncode == 0
    again = typed(f"init {name}")
    assert again.returncode == 2
    assert "already describes" in again.stderr
    assert project.read_text() == text


@NEEDS_ALL
def test_what_is_typed_is_taken_over_and_the_rest_proposed(typed: Typed, launchable: Path) -> None:
    sized = typed("profile turn.cu --grid n//32 --problem n=64 --engine emulated")
    words = proposed(sized).split()
    assert "turn has no block" in sized.stderr
    assert words.count("--problem") == 1
    assert {"n//32", "n=64", "'x=float32[n,n]:random'", "'y=float32[n,n]:out'", "n=int32:n"} <= set(words)
    assert typed(proposed(sized)).returncode == 0
    odd = typed("lint flat.cu --problem n=300")
    assert typed(proposed(odd)).returncode in (0, 1)
    some = typed("profile turn.cu --grid 1 --block 32,32 --engine emulated --arg x=float32[32,32]:ones")
    assert "'x=float32[32,32]:ones'" in proposed(some)
    assert "'y=float32[32,32]:out'" in proposed(some)
    assert typed(proposed(some), "-f").returncode == 0
    none = typed("profile nothing.cu --grid=1 --block=32 --arg 5 --arg=6")
    assert proposed(none) == "profile nothing.cu --grid=1 --block=32"
    assert typed("init turn.cu --block 32,32 --shared 64 -D X=1").returncode == 0
    (entry,) = tomllib.loads((launchable / "ncu-swizzle.toml").read_text())["kernel"].values()
    assert (entry["block"], entry["shared"], entry["nvcc"]) == ("32,32", "64", ["-DX=1"])


@NEEDS_ALL
def test_every_kernel_of_a_file_gets_an_entry_of_its_own(typed: Typed, work: Path) -> None:
    (work / "kernel1.cu").write_text(NAMED + "__global__ void kernel1(float* x) { *x = 1; }")
    (work / "sub").mkdir()
    done = typed("init kernel1.cu --config sub/../new.toml")
    assert done.returncode == 0, done.stderr
    kernels = tomllib.loads((work / "new.toml").read_text())["kernel"]
    assert {"plain", "structure", "none", "hidden", "fn-32-float-true", "fn-64-double-false"} <= kernels.keys()
    assert "kernel1" not in kernels, "a kernel of the catalogue has that name"
    assert kernels["structure"]["args"] == ["s=bytes:16"]
    assert not (work / "ncu-swizzle.toml").exists()
    assert typed("lint new.toml").returncode in (0, 1)


@NEEDS_ALL
def test_a_file_that_is_not_toml_is_left_alone(typed: Typed, launchable: Path) -> None:
    (launchable / "ncu-swizzle.toml").write_text("kernel = { }\n")  # a table that cannot be extended
    done = typed("init flat.cu")
    assert done.returncode == 2, done.stdout
    assert (launchable / "ncu-swizzle.toml").read_text() == "kernel = { }\n"
    elsewhere = re.search(r"--config \S+", done.stderr)
    assert elsewhere
    assert typed(f"init flat.cu {elsewhere[0]}").returncode == 0
    refused = typed("init none.cu")
    assert (refused.returncode, "does not exist" in refused.stderr) == (2, True)
    assert typed("init flat.cu --config none").returncode == 2


STRIDED = """
struct Tile { int stride; int rows; double scale; };
extern "C" __global__ void strided(Tile t, float* y) {
    extern __shared__ float s[];
    s[threadIdx.x * t.stride] = t.scale;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x * t.stride];
}
"""


@NEEDS_ALL
def test_a_struct_s_bytes_reach_the_kernel_however_it_is_described(typed: Typed, work: Path) -> None:
    (work / "strided.cu").write_text(STRIDED)
    (work / "eight.bin").write_bytes(struct.pack("<iid", 8, 1, 1.0))
    (work / "one.bin").write_bytes(struct.pack("<iid", 1, 1, 1.0))
    lint, out = "lint strided.cu --grid 1 --block 32 --shared 2048", "--arg y=float32[32]:out"
    assert typed(f"{lint} --arg t=bytes:one.bin {out}").returncode == 0
    conflicting = typed(f"{lint} --arg t=bytes:eight.bin {out}")
    assert (conflicting.returncode, "degree 8" in conflicting.stdout) == (1, True)
    short = typed(f"{lint} --arg t=bytes:15 {out}")
    assert (short.returncode, "t=bytes:16" in proposed(short)) == (2, True)
    (work / "ncu-swizzle.toml").write_text(
        '[kernel.strided]\nsource = "strided.cu"\ngrid = 1\nblock = 32\nshared = 2048\n'
        'args = ["t=bytes:eight.bin", "y=float32[32]:out"]\n'
    )
    assert "degree 8" in typed("lint strided.cu").stdout
    profiled = typed("profile strided.cu --engine emulated --json -")
    assert {row["degree"] for row in json.loads(profiled.stdout)["accesses"]} == {8}
