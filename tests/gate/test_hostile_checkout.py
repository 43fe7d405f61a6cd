"""``ncu-swizzle lint`` of a checkout that nobody trusts: each entry of each project file tries to run a program."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import process
from tests.support.marks import NEEDS_ALL, program
from tests.support.own_kernel import KERNEL
from tests.support.recordings import Recorded

pytestmark = NEEDS_ALL


def lint(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return process.run("lint", *arguments, folder=folder, env=process.environment(COLUMNS="300", **more))


def test_a_fake_compiler_gets_the_options_in_one_word_each(hostile: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    nvcc = program(tmp_path / "bin" / "nvcc", tmp_path / "ran", f'printf "%s\\n" "$@" >> {log}')
    text = f'{KERNEL}nvcc = ["-maxrregcount 64", "-Xptxas", "-v", "-I inc"]\n'
    (hostile / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
    (hostile / "inc").mkdir(exist_ok=True)
    lint(hostile, "my.cu", "--nvcc", str(nvcc))
    words = log.read_text(encoding="utf-8").splitlines()
    assert {"-maxrregcount=64", "-Xptxas=-v", f"-I{hostile}/inc"} <= set(words)


# ---------------------------------------------------------------------------------------------- the folder itself


@pytest.mark.long
def test_tools_are_not_taken_from_the_current_folder(
    hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    for folder in (hostile, hostile / "bin"):
        for tool in ("nvcc", "ptxas", "nvdisasm", "cicc", "gcc", "g++", "git", "ncu", "nvidia-smi"):
            program(folder / tool, marker)
    path = f".:bin::{os.environ['PATH']}"
    for variables in (
        {"PATH": path}, {"CUDA_HOME": "."}, {"CUDA_PATH": "."}, {"CUDA_HOME": "", "CUDA_ROOT": "."},
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert Toolchain().find(NVCC).is_absolute(), variables
            assert all(found.path.is_absolute() for found in machine.candidates(System())), variables
    done = lint(hostile, "my.cu", PATH=path, CUDA_HOME=".", CUDA_PATH=".")
    assert done.returncode == 0, done.stdout + done.stderr
    process.run("doctor", folder=hostile, env=process.environment(PATH=path, CUDA_HOME="."))
    assert not marker.exists()


def test_a_compiler_in_the_current_folder_must_be_named(
    hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    program(hostile / "nvcc", marker)
    assert Toolchain(Path("nvcc")).find(NVCC) == Path("nvcc")
    with pytest.raises(EnvironmentLacking):
        Toolchain(Path("my.cu")).find(NVCC)


def test_a_line_table_s_names_are_not_opened(recorded: Recorded, tmp_path: Path) -> None:
    """A report, like a saved profile, can name any file as a source."""
    private = tmp_path / "private.txt"
    private.write_text("the secret of private.txt\n" * 50, encoding="utf-8")
    profile = recorded("kernel1")
    named = [replace(counts, stack=((str(private), 1), (str(private), 2))) for counts in profile.instructions]
    replace(profile, instructions=tuple(named)).save(tmp_path / "hostile.json")
    outputs = ("--out", "page.html", "--markdown", "page.md", "--json", "page.json", "--csv", "page.csv")
    done = process.run("report", "hostile.json", *outputs, folder=tmp_path, env=process.environment())
    assert done.returncode == 0, done.stderr
    written = [file.read_bytes() for file in tmp_path.glob("page.*")]
    assert len(written) == 4
    assert not any(b"the secret" in content for content in written)
