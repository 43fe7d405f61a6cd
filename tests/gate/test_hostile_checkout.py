"""``ncu-swizzle lint`` of a checkout that nobody trusts: each entry of each project file tries to run a program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.kernels.git import commit_of
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import process
from tests.support.families import FAMILY
from tests.support.markers import PYTHON, program
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import KERNEL, TYPED, own
from tests.support.places import ROOT
from tests.support.recordings import Recorded

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


@pytest.mark.parametrize("entry", SETTINGS)
@pytest.mark.parametrize(
    ("file", "what"),
    [("ncu-swizzle.toml", "my.cu"), ("ncu-swizzle.toml", "tile"), ("pyproject.toml", "pyproject.toml")],
)
def test_no_entry_of_the_settings_runs_anything(entry: str, file: str, what: str, hostile: Path, marker: Path) -> None:
    own(hostile.parent).rename(hostile.parent / "outside.cu")
    (hostile / "options").write_text(f"-ccbin {hostile}/evil\n", encoding="utf-8")
    line = SETTINGS[entry].format(folder=hostile, marker=marker)
    text = KERNEL.replace('source = "my.cu"', line) if entry == "the source" else f"{KERNEL}{line}\n"
    (hostile / "ncu-swizzle.toml").unlink()
    text = text.replace("[kernel", "[tool.ncu-swizzle.kernel") if file == "pyproject.toml" else text
    (hostile / file).write_text(text, encoding="utf-8")
    done = lint(hostile, what)
    assert not marker.exists()
    assert done.returncode == 2, done.stdout + done.stderr
    assert file in done.stderr
    assert "kernel.tile" in done.stderr


@pytest.mark.parametrize("key", ["[family]", "[[variant]]"])
@pytest.mark.parametrize(
    "option", ['"-ccbin", "{folder}/evil"', '"-DX=`touch {marker}`"', '"--options-file={folder}/x"']
)
@pytest.mark.parametrize("how", ["kernels", "kernels/toy", "kernels/toy/plain.cu", "--catalog", "catalog ="])
def test_no_option_of_a_family_runs_anything(key: str, option: str, how: str, hostile: Path, marker: Path) -> None:
    folder = hostile / "kernels" / "toy"
    folder.mkdir(parents=True)
    (folder / "plain.cu").write_text("__global__ void toy_plain(float* x) { *x = 1; }\n", encoding="utf-8")
    given = option.format(folder=hostile, marker=marker)
    (folder / "family.toml").write_text(FAMILY.replace(key, f"{key}\noptions = [{given}]"), encoding="utf-8")
    if how == "catalog =":
        (hostile / "ncu-swizzle.toml").write_text('catalog = ["kernels"]\n', encoding="utf-8")
    arguments = [how] if "kernels" in how else ["toy-plain", *(["--catalog", "kernels"] if how == "--catalog" else [])]
    done = lint(hostile, *arguments)
    assert not marker.exists()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "kernels/toy/family.toml" in done.stderr


def test_the_hint_is_a_command_that_works(hostile: Path, marker: Path) -> None:
    (hostile / "ncu-swizzle.toml").write_text(f'{KERNEL}nvcc = ["-ccbin", "{hostile}/evil"]\n', encoding="utf-8")
    done = lint(hostile, "my.cu", "--max-degree", "2")
    assert "ncu-swizzle.toml [kernel.tile]: nvcc: -ccbin needs your trust" in done.stderr
    hint = done.stderr.partition("  try: ")[2].strip()
    assert hint == "ncu-swizzle lint my.cu --max-degree 2 --trust"
    assert not marker.exists()
    trusted = lint(hostile, *hint.split()[2:])
    assert trusted.returncode == 0, trusted.stderr
    assert marker.exists(), "it compiled with the checkout's own host compiler"


def test_the_command_line_may_pass_what_a_project_file_may_not(hostile: Path, marker: Path) -> None:
    (hostile / "ncu-swizzle.toml").unlink()
    done = lint(hostile, "my.cu", *TYPED, "--nvcc-option", f"-ccbin {hostile}/evil")
    assert done.returncode == 0, done.stderr
    assert marker.exists()


@pytest.mark.parametrize("command", ["list", "predict tile", "check tile", "compare tile", "profile tile", "run tile"])
def test_every_command_that_reads_project_files_holds_and_takes_trust(command: str, hostile: Path) -> None:
    (hostile / "ncu-swizzle.toml").write_text(f'{KERNEL}nvcc = ["-ccbin", "/x"]\n', encoding="utf-8")
    done = process.run(*command.split(), folder=hostile, env=process.environment(COLUMNS="300"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"  try: ncu-swizzle {command} --trust" in done.stderr
    again = process.run(*command.split(), "--trust", folder=hostile, env=process.environment(COLUMNS="300"))
    assert "needs your trust" not in again.stderr
    assert "No such option" not in again.stderr


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


def test_the_checkout_s_git_runs_nothing(hostile: Path, marker: Path) -> None:
    evil = f"{hostile}/evil"
    git(hostile, "init", "-q")
    (hostile / ".gitattributes").write_text("*.cu filter=evil\n", encoding="utf-8")
    git(hostile, "add", ".")
    git(hostile, "commit", "-qm", "One")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.external", "core.pager"):
        git(hostile, "config", key, evil)
    program(hostile / ".git" / "hooks" / "post-index-change", marker)
    os.utime(hostile / "my.cu")
    done = lint(hostile, "my.cu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not marker.exists()
    assert re.fullmatch("[0-9a-f]{12}", commit_of(hostile))


def test_a_repository_among_the_sources_is_not_taken_for_the_checkout_s(hostile: Path, marker: Path) -> None:
    """git takes any folder with HEAD, objects and refs for a repository, and clones hold such folders."""
    git(hostile, "init", "-q", "--bare", "bare")
    bare = own(hostile / "bare", KERNEL).parent
    git(bare, "config", "core.fsmonitor", str(hostile / "evil"))
    git(bare, "config", "core.worktree", str(bare))
    git(bare, "config", "core.bare", "false")
    done = lint(bare, "my.cu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not marker.exists()


def git(folder: Path, *arguments: str) -> None:
    who = {f"GIT_{role}_{what}": "someone" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    subprocess.run(command, capture_output=True, check=True, env={**os.environ, **who})


def test_a_folder_whose_name_is_a_command_is_refused(hostile: Path, marker: Path) -> None:
    folder = hostile / "`touch ..$(echo)`"
    done = lint(own(folder, KERNEL).parent, "my.cu")
    assert "to a shell, which may execute it" in done.stdout + done.stderr
    assert done.returncode in (2, 5)
    assert not marker.exists()


@pytest.mark.parametrize(
    "environment",
    [{"PATH": ".:bin::{PATH}"}, {"CUDA_HOME": "."}, {"CUDA_PATH": "."}, {"CUDA_HOME": "", "CUDA_ROOT": "."}],
    ids=" ".join,
)
def test_tools_are_not_taken_from_the_current_folder(
    environment: Mapping[str, str], hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = ("nvcc", "ptxas", "nvdisasm", "cicc", "gcc", "g++", "git", "ncu", "nvidia-smi")
    for folder in (hostile, hostile / "bin"):
        for tool in tools:
            program(folder / tool, marker)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(PATH=os.environ["PATH"]))
    done = lint(hostile, "my.cu")
    assert done.returncode == 0, done.stdout + done.stderr
    process.run("doctor", folder=hostile, env=process.environment())
    assert not marker.exists()
    monkeypatch.chdir(hostile)
    assert Toolchain().find(NVCC).is_absolute()
    assert all(found.path.is_absolute() for found in machine.candidates(System()))


def test_a_compiler_in_the_current_folder_must_be_named(
    hostile: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    program(hostile / "nvcc", marker)
    assert Toolchain(Path("nvcc")).find(NVCC) == Path("nvcc")
    with pytest.raises(EnvironmentLacking):
        Toolchain(Path("my.cu")).find(NVCC)


@pytest.mark.long
@pytest.mark.parametrize("line", ["lint my.cu", "list", "profile tile --engine emulated", "predict tile"])
def test_no_module_of_the_current_folder_is_imported(line: str, hostile: Path, marker: Path) -> None:
    """``python -m`` puts the current folder first on Python's path."""
    (hostile / "nvidia" / "cu99" / "bin").mkdir(parents=True)
    program(hostile / "nvidia" / "cu99" / "bin" / "nvcc", marker)
    done = process.started(*line.split(), folder=hostile, env=process.environment(COLUMNS="300"))
    assert "Traceback" not in done.stderr
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


def test_lint_runs_no_reference(hostile: Path, marker: Path) -> None:
    (hostile / "reference.py").write_text(PYTHON.format(marker=str(marker)), encoding="utf-8")
    (hostile / "ncu-swizzle.toml").write_text(f'{KERNEL}reference = "reference.py:expected"\n', encoding="utf-8")
    for line in (
        "lint my.cu",
        "list",
        "predict tile",
        "profile tile --engine emulated",
        "check tile --engine emulated",
    ):
        process.run(*line.split(), folder=hostile, env=process.environment())
        assert not marker.exists(), line


@pytest.mark.parametrize("form", ['#include "{file}"', '#line 1 "{file}"', '#define F "{file}"\n#include F'])
def test_what_a_source_includes_from_elsewhere_is_in_no_page(form: str, hostile: Path, tmp_path: Path) -> None:
    private = tmp_path / "private.txt"
    private.write_text("// the secret of private.txt\n", encoding="utf-8")
    source = hostile / "my.cu"
    source.write_text(form.format(file=private) + "\n" + source.read_text(encoding="utf-8"), encoding="utf-8")
    done = process.run(
        "profile", "tile", "--engine", "emulated", "-o", "out", folder=hostile, env=process.environment()
    )
    assert done.returncode == 0, done.stderr
    written = [file.read_bytes() for file in (hostile / "out").iterdir()]
    assert written
    assert not any(b"the secret" in content for content in (*written, done.stdout.encode(), done.stderr.encode()))


def test_a_line_table_s_names_are_not_opened(recorded: Recorded, tmp_path: Path) -> None:
    """A report, like a saved profile, can name any file as a source."""
    private = tmp_path / "private.txt"
    private.write_text("the secret of private.txt\n" * 50, encoding="utf-8")
    profile = recorded("kernel1")
    named = [replace(counts, stack=((str(private), 1), (str(private), 2))) for counts in profile.instructions]
    replace(profile, instructions=tuple(named)).save(tmp_path / "hostile.json")
    for how in (["--out", "page.html"], ["--markdown", "page.md"], ["--json", "page.json"], ["--csv", "page.csv"]):
        done = process.run("report", "hostile.json", *how, folder=tmp_path, env=process.environment())
        assert done.returncode == 0, done.stderr
        written = next(tmp_path.glob("page.*"))
        assert b"the secret" not in written.read_bytes()
        written.unlink()
