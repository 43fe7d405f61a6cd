"""``ncu-swizzle lint`` of a checkout that nobody trusts: each entry of each project file tries to run a program."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.machine import System
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.linting import LintOptions
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import process
from tests.support.marks import NEEDS_ALL, program
from tests.support.own_kernel import FAMILY, KERNEL, own
from tests.support.places import ROOT
from tests.support.recordings import Recorded
from tests.support.refusals import refused

pytestmark = NEEDS_ALL


def lint(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return process.run("lint", *arguments, folder=folder, env=process.environment(COLUMNS="300", **more))


SETTINGS = {
    "nvcc": 'nvcc = ["-ccbin", "{folder}/evil"]',
    "joined": 'nvcc = ["-ccbin={folder}/evil"]',
    "in one string": 'nvcc = ["-O3 --compiler-bindir {folder}/evil"]',
    "the host compiler's": 'nvcc = ["-Xcompiler", "-Wall,-wrapper,{folder}/evil"]',
    "ptxas's": 'nvcc = ["-Xptxas", "-v;touch {marker};"]',
    "a file of options": 'nvcc = ["-optf", "{folder}/options"]',
    "behind a value": 'nvcc = ["-maxrregcount", "-ccbin", "{folder}/evil"]',
    "a define": 'defines = {{ X = "$(touch {marker})" }}',
    "a define's name": 'defines = {{ "X=`touch {marker}`" = 1 }}',
    "a define's quote": "defines = {{ X = '\\\\\\\\\"; touch {marker}; echo \\\\\\\\\"' }}",
    "an include folder": 'include = ["`touch {marker}`"]',
    "std": 'std = "c++17 -ccbin {folder}/evil"',
    "a variant": 'variant = {{ a = {{ nvcc = ["-ccbin", "{folder}/evil"] }} }}',
    "a variant's define": 'variant = {{ a = {{ defines = {{ X = "`touch {marker}`" }} }} }}',
    "the source": 'source = "../outside.cu"',
}


def refusal(*files: str, catalog: str = "") -> str:
    """Return what keeps files of the current folder from being linted."""
    sources = CatalogOptions(catalog=(Path(catalog),)) if catalog else CatalogOptions()
    options = LintOptions(files=files, description=KernelDescription(sources=sources))
    return refused(lambda: list(linting.lint_kernels(options, EmulationSettings(cached=False))))


def test_no_entry_of_the_settings_runs_anything(hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    own(hostile.parent).rename(hostile.parent / "outside.cu")
    (hostile / "options").write_text(f"-ccbin {hostile}/evil\n", encoding="utf-8")
    for name, entry in SETTINGS.items():
        line = entry.format(folder=hostile, marker=marker)
        text = KERNEL.replace('source = "my.cu"', line) if name == "the source" else f"{KERNEL}{line}\n"
        Path("ncu-swizzle.toml").write_text(text, encoding="utf-8")
        said = refusal("my.cu")
        assert not marker.exists(), name
        assert re.match(r"(Untrusted|UsageError): .*ncu-swizzle\.toml .*kernel\.tile", said), (name, said)
    assert "ncu-swizzle.toml" in refusal("tile")
    Path("ncu-swizzle.toml").unlink()
    Path("pyproject.toml").write_text(text.replace("[kernel", "[tool.ncu-swizzle.kernel"), encoding="utf-8")
    assert re.match(r"(Untrusted|UsageError): .*pyproject\.toml .*kernel\.tile", refusal("pyproject.toml"))


def test_no_option_of_a_family_runs_anything(hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hostile)
    folder = hostile / "kernels" / "toy"
    folder.mkdir(parents=True)
    (folder / "plain.cu").write_text("__global__ void toy_plain(float* x) { *x = 1; }\n", encoding="utf-8")

    def give(key: str, option: str) -> None:
        text = FAMILY.replace(key, f"{key}\noptions = [{option.format(folder=hostile, marker=marker)}]")
        (folder / "family.toml").write_text(text, encoding="utf-8")

    for key in ("[family]", "[[variant]]"):
        for option in ('"-ccbin", "{folder}/evil"', '"-DX=`touch {marker}`"', '"--options-file={folder}/x"'):
            give(key, option)
            assert "kernels/toy/family.toml" in refusal("kernels"), (key, option)
    for file in ("kernels/toy", "kernels/toy/plain.cu"):
        assert "kernels/toy/family.toml" in refusal(file)
    assert "kernels/toy/family.toml" in refusal("toy-plain", catalog="kernels")
    Path("ncu-swizzle.toml").write_text('catalog = ["kernels"]\n', encoding="utf-8")
    assert "kernels/toy/family.toml" in refusal("toy-plain")
    assert not marker.exists()


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


@pytest.mark.long
def test_no_module_of_the_current_folder_is_imported(hostile: Path, marker: Path) -> None:
    """``python -m`` puts the current folder first on Python's path."""
    (hostile / "nvidia" / "cu99" / "bin").mkdir(parents=True)
    program(hostile / "nvidia" / "cu99" / "bin" / "nvcc", marker)
    environment = process.environment(COLUMNS="300")
    done = process.started("profile", "tile", "--engine", "emulated", folder=hostile, env=environment)
    assert done.returncode == 0, done.stderr
    assert not marker.exists()


@pytest.mark.long
def test_the_reader_s_process_imports_nothing_of_the_current_folder(
    hostile: Path, marker: Path, tmp_path: Path
) -> None:
    report = ROOT / "recordings" / "h100" / "attention" / "kernel1.ncu-rep"
    done = process.started("report", str(report), "--markdown", "-", folder=hostile,
                           env=process.environment(XDG_CACHE_HOME=str(tmp_path / "empty")))  # fmt: skip
    assert "Traceback" not in done.stderr
    assert not marker.exists()


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
