"""The examples of the documentation print what is shown; the commands without output do what is said beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.support import process
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.places import ROOT
from tests.support.typed_lines import PAGES, TypedLine, filled, rows, typeable, without_output

SLOW = {"docs/your-kernels.md", "docs/fix.md", "docs/python-kernels.md"}
EMULATED = SLOW | {"docs/programs.md", "docs/launches.md"}
EXAMPLES = ("docs/model.md", "docs/your-kernels.md", "docs/fix.md", "docs/learn/kernel2.md", "docs/learn/cute.md",
            "docs/learn/jonah.md", "docs/learn/gemm.md", "docs/cases/index.md", "docs/hopper.md", "docs/programs.md",
            "docs/launches.md", "docs/python-kernels.md")  # fmt: skip
# What takes long because a whole family is emulated, or a sweep runs; and what needs more than `make test` installs.
LONG = {"README.md", "docs/ci.md", "docs/editor.md", "docs/emulated.md", "docs/fleet.md", "docs/sweep.md"}
LIBRARIES = {
    "README.md": ("mcp", "pygls", "pyarrow"),
    "docs/ci.md": ("pyarrow",),
    "docs/editor.md": ("pygls",),
    "docs/fleet.md": ("distributed", "cryptography"),
    "docs/python-kernels.md": ("triton", "cutlass", "numba", "cuda.core"),
}
ENDINGS = {  # what ends with another exit code than 0, because of what the folder holds
    "ncu-swizzle lint my.cu": {"docs/describing-kernels.md": 2},  # not described yet: it prints the launch
    "ncu-swizzle lint kernels/attention": {"README.md": 1},
    "ncu-swizzle lint app.launches --sarif lint.sarif": {"docs/launches.md": 1},
    "ncu-swizzle doctor": {"README.md": 3, "docs/index.md": 3},  # there is no GPU
    "ncu-swizzle check app.launches --rebuild 'nvcc -O3 -lineinfo app.cu'": {"docs/launches.md": 1},
    "ncu-swizzle check ci/app.launches": {"docs/programs.md": 1},
    "ncu-swizzle check ci/app.launches --rebuild 'nvcc -O3 -lineinfo app.cu' --sarif check.sarif": {
        "docs/programs.md": 1
    },
}
OWN = {
    "A": "mine.ncu-rep",
    "RUN": "mine.ncu-rep",
    "my-kernel": "turn",
    "my_kernel": "transpose_xor",
    "regex:softmax": "regex:strided",
    "kernels/attention": str(ROOT / "kernels" / "transpose"),  # a family that is emulated quickly
    "n=1024,2048,4096,8192": "n=1024,2048",  # which is enough of a sweep for a test
}
README = ROOT / "README.md"
TYPED = {page: [*without_output(page), *(rows(page) if page == README else ())] for page in PAGES}
WITHOUT_OUTPUT = [page for page, lines in TYPED.items() if lines]


def parameters(names: list[str], slow: set[str], emulated: set[str]) -> list[object]:
    """Return the pages with their marks."""
    marks = {name: [pytest.mark.slow] * (name in slow) + [NEEDS_ALL] * (name in emulated) for name in names}
    return [pytest.param(name, marks=marks[name], id=name) for name in names]


def test_every_page_with_an_example_is_here(script: Callable[[str], ModuleType]) -> None:
    assert set(EXAMPLES) == set(script("examples").PAGES)


@pytest.mark.parametrize("page", parameters(list(EXAMPLES), SLOW, EMULATED))
def test_examples_print_what_is_shown(
    page: str, script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork(argv: list[str], env: dict[str, str], cwd: Path, **_: bool) -> subprocess.CompletedProcess[str]:
        assert argv[1] == "-m"
        return process.run(*argv[3:], folder=cwd, env=env)

    for library in LIBRARIES.get(page, ()):
        pytest.importorskip(library, reason=f"needs {library}")
    examples = script("examples")
    text = (ROOT / page).read_text(encoding="utf-8")
    monkeypatch.setattr(examples, "subprocess", SimpleNamespace(run=fork))
    with examples.working_folder(examples.PAGES[page]) as folder:
        assert examples.refreshed(text, folder) == text, "python docs/examples.py brings the pages up to date"


@pytest.mark.long
def test_a_wrong_digit_is_noticed(script: Callable[[str], ModuleType]) -> None:
    examples = script("examples")
    text = (ROOT / "docs" / "learn" / "gemm.md").read_text(encoding="utf-8")
    block = text[text.index('```console\n$ ncu-swizzle explain "(64,64)') :].split("```\n\n", 1)[0]
    shown = f"{block}```\n"
    assert examples.refreshed(shown.replace("512", "513"), ROOT) == shown


@pytest.mark.parametrize(
    "page", parameters([page.relative_to(ROOT).as_posix() for page in WITHOUT_OUTPUT], LONG, {"README.md"})
)
@without_gpu
@NEEDS_ALL
def test_commands_do_what_is_said(page: str, desk: Path) -> None:
    for library in LIBRARIES.get(page, ()):
        pytest.importorskip(library, reason=f"needs {library}")
    lines = [line for line in TYPED[ROOT / page] if typeable(line)]
    assert lines or page in {"docs/install.md", "docs/rules.md"}
    if page == "docs/describing-kernels.md":
        (desk / "ncu-swizzle.toml").write_text("", encoding="utf-8")
    # Some systems know Python as python3 alone; the pages assume an active environment.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in lines:
        done = process.command(*filled(line.words, OWN, desk), folder=desk, env=process.environment(PATH=path))
        assert done.returncode == ending(line, page), f"{line.text}\n{done.stdout}{done.stderr}"


def ending(line: TypedLine, page: str) -> int:
    """Return the exit code of a line: what needs a GPU ends by saying that it lacks one."""
    if line.needs_gpu:
        return 4 if " capture " in line.text else 3
    command = " ".join(line.text.partition("  ")[0].split())
    return ENDINGS.get(command, {}).get(page, 0)


def test_what_needs_a_gpu_is_marked_as_such(desk: Path) -> None:
    """Without the words, such a command would have to succeed here."""
    done = process.command("profile", "kernel1", "--no-ncu", folder=desk)
    assert (
        done.returncode == ending(TypedLine("ncu-swizzle profile kernel1 --no-ncu", needs_gpu=True), "README.md") == 3
    )
