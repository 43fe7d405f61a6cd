"""A launch in one go: the command that is proposed works, and so does the entry that `ncu-swizzle init` writes."""

from __future__ import annotations

import json
import re
import shlex
import struct
import tomllib
from pathlib import Path

import pytest

from tests.support.marks import NEEDS_ALL
from tests.support.process import command
from tests.support.sources import LAUNCHABLE, NAMED


def proposed(stderr: str) -> list[str]:
    """Return the words of the command that an error proposes, without the program."""
    (line,) = re.findall(r"try: ncu-swizzle (.*)", stderr)
    return shlex.split(line)


@NEEDS_ALL
@pytest.mark.parametrize("name", LAUNCHABLE)
@pytest.mark.parametrize("typed", [("profile", "--engine", "emulated"), ("lint",)])
def test_a_source_alone_gives_a_command_that_works(name: str, typed: tuple[str, ...], launchable: Path) -> None:
    refused = command(typed[0], name, *typed[1:], folder=launchable)
    assert refused.returncode == 2
    assert "has no grid and no block" in refused.stderr
    words = proposed(refused.stderr)
    assert words[:2] == [typed[0], name]
    done = command(*words, folder=launchable)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "unknown" not in done.stdout


@NEEDS_ALL
@pytest.mark.parametrize("name", LAUNCHABLE)
def test_an_entry_is_written_and_works_at_once(name: str, launchable: Path) -> None:
    (launchable / "ncu-swizzle.toml").write_text('[check]\nbaseline = "none.json"  # kept\n')
    written = command("init", name, folder=launchable)
    assert written.returncode == 0, written.stderr
    text = (launchable / "ncu-swizzle.toml").read_text()
    assert text.startswith('[check]\nbaseline = "none.json"  # kept\n')
    (entry,) = tomllib.loads(text)["kernel"].values()
    assert entry["source"] == name
    for line in text.splitlines():
        if line.startswith(("grid", "block", "problem", "shared")):
            assert line.endswith("# guessed")
    following = re.search(r"then: ncu-swizzle (.*)", written.stdout)
    assert following
    assert command(*shlex.split(following[1]), folder=launchable).returncode in (0, 1)
    profiled = command("profile", name, "--engine", "emulated", folder=launchable)
    assert profiled.returncode == 0, profiled.stderr
    again = command("init", name, folder=launchable)
    assert again.returncode == 2
    assert "already describes" in again.stderr
    assert (launchable / "ncu-swizzle.toml").read_text() == text


@NEEDS_ALL
def test_what_is_typed_is_taken_over_and_the_rest_proposed(launchable: Path) -> None:
    sized = command(
        "profile", "turn.cu", "--grid", "n//32", "--problem", "n=64", "--engine", "emulated", folder=launchable
    )
    words = proposed(sized.stderr)
    assert "turn has no block" in sized.stderr
    assert words.count("--problem") == 1
    assert {"n//32", "n=64", "x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"} <= set(words)
    assert command(*words, folder=launchable).returncode == 0
    for size in ("n=300", "n=3000"):
        odd = command("lint", "flat.cu", "--problem", size, folder=launchable)
        done = command(*proposed(odd.stderr), folder=launchable)
        assert done.returncode in (0, 1), done.stderr
    launched = ("profile", "turn.cu", "--grid", "1", "--block", "32,32", "--engine", "emulated")
    some = command(*launched, "--arg", "x=float32[32,32]:ones", folder=launchable)
    words = proposed(some.stderr)
    assert "x=float32[32,32]:ones" in words
    assert "y=float32[32,32]:out" in words
    assert command(*words, folder=launchable).returncode == 0
    none = command("profile", "nothing.cu", "--grid=1", "--block=32", "--arg", "5", "--arg=6", folder=launchable)
    assert proposed(none.stderr) == ["profile", "nothing.cu", "--grid=1", "--block=32"]
    assert (
        command("init", "turn.cu", "--block", "32,32", "--shared", "64", "-D", "X=1", folder=launchable).returncode == 0
    )
    (entry,) = tomllib.loads((launchable / "ncu-swizzle.toml").read_text())["kernel"].values()
    assert (entry["block"], entry["shared"], entry["nvcc"]) == ("32,32", "64", ["-DX=1"])


@NEEDS_ALL
def test_every_kernel_of_a_file_gets_an_entry_of_its_own(work: Path) -> None:
    (work / "kernel1.cu").write_text(NAMED + "__global__ void kernel1(float* x) { *x = 1; }")
    (work / "sub").mkdir()
    done = command("init", "kernel1.cu", "--config", "sub/../new.toml", folder=work)
    assert done.returncode == 0, done.stderr
    kernels = tomllib.loads((work / "new.toml").read_text())["kernel"]
    assert {"plain", "structure", "none", "hidden", "fn-32-float-true", "fn-64-double-false"} <= kernels.keys()
    assert "kernel1" not in kernels, "a kernel of the catalogue has that name"
    assert kernels["structure"]["args"] == ["s=bytes:16"]
    assert not (work / "ncu-swizzle.toml").exists()
    linted = command("lint", "new.toml", folder=work)
    assert linted.returncode in (0, 1), linted.stdout + linted.stderr


@NEEDS_ALL
def test_a_file_that_is_not_toml_is_left_alone(launchable: Path) -> None:
    (launchable / "ncu-swizzle.toml").write_text("kernel = { }\n")  # a table that cannot be extended
    done = command("init", "flat.cu", folder=launchable)
    assert done.returncode == 2, done.stdout
    assert (launchable / "ncu-swizzle.toml").read_text() == "kernel = { }\n"
    elsewhere = re.search(r"--config \S+", done.stderr)
    assert elsewhere
    assert command("init", "flat.cu", *elsewhere[0].split(), folder=launchable).returncode == 0
    refused = command("init", "none.cu", folder=launchable)
    assert (refused.returncode, "does not exist" in refused.stderr) == (2, True)
    assert command("init", "flat.cu", "--config", "none", folder=launchable).returncode == 2


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
def test_a_struct_s_bytes_reach_the_kernel_however_it_is_described(work: Path) -> None:
    (work / "strided.cu").write_text(STRIDED)
    (work / "eight.bin").write_bytes(struct.pack("<iid", 8, 1, 1.0))
    (work / "one.bin").write_bytes(struct.pack("<iid", 1, 1, 1.0))
    launch = ("--grid", "1", "--block", "32", "--shared", "2048", "--arg", "y=float32[32]:out")
    lint = ("lint", "strided.cu", *launch[:-2])
    assert command(*lint, "--arg", "t=bytes:one.bin", *launch[-2:], folder=work).returncode == 0
    conflicting = command(*lint, "--arg", "t=bytes:eight.bin", *launch[-2:], folder=work)
    assert conflicting.returncode == 1
    assert "degree 8" in conflicting.stdout
    (work / "ncu-swizzle.toml").write_text(
        '[kernel.strided]\nsource = "strided.cu"\ngrid = 1\nblock = 32\nshared = 2048\n'
        'args = ["t=bytes:eight.bin", "y=float32[32]:out"]\n'
    )
    assert "degree 8" in command("lint", "strided.cu", folder=work).stdout
    profiled = command("profile", "strided.cu", "--engine", "emulated", "--json", "-", folder=work)
    assert {row["degree"] for row in json.loads(profiled.stdout)["accesses"]} == {8}
    short = command(*lint, "--arg", "t=bytes:15", *launch[-2:], folder=work)
    assert short.returncode == 2
    assert "t=bytes:16" in proposed(short.stderr)
