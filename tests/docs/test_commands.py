"""The documentation's commands: all can be typed, do what is said, and print what is shown."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from docs import examples
from ncu_swizzle import cli
from tests.support import process, typed_lines
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.places import ROOT
from tests.support.typed_lines import PAGES, TypedLine

SLOW = {"docs/your-kernels.md", "docs/fix.md", "docs/python-kernels.md"}  # their examples
LONG = {"README.md", "docs/cases/index.md", "docs/model.md", "docs/programs.md", "docs/learn/kernel2.md",
        "docs/learn/jonah.md", "docs/hopper.md", "docs/learn/cute.md", "docs/launches.md",
        "docs/learn/gemm.md"}  # fmt: skip
# What takes long because a whole family is emulated, or a sweep runs.
SLOW_TYPED = {"docs/ci.md", "docs/editor.md", "docs/emulated.md", "docs/fleet.md", "docs/sweep.md", "docs/profile.md",
              "docs/release.md", "docs/wavefronts.md"}  # fmt: skip
LONG_TYPED = {"README.md", "docs/index.md", "docs/gallery.md", "docs/python-kernels.md", "docs/your-kernels.md",
              "docs/agents.md", "docs/blackwell.md", "docs/cycles.md", "docs/describing-kernels.md", "docs/failures.md",
              "docs/files.md", "docs/fix.md", "docs/install.md", "docs/launches.md", "docs/model.md",
              "docs/programs.md", "docs/proof.md", "docs/races.md", "docs/learn/kernel2.md"}  # fmt: skip
LIBRARIES = {"serve mcp": "mcp", "serve lsp": "pygls", "--workers": "distributed", ".py": "triton"}
LANGUAGES = ("triton", "cutlass", "numba", "cuda.tile")
BESIDE = {  # what a page's commands name from its examples
    "docs/python-kernels.md": ("examples/python/tiles.py", "examples/python/references.py"),
    "docs/your-kernels.md": ("examples/first-hour/particles.cu",),
    "docs/proof.md": ("examples/proof/*.cu",),
}
DESCRIBED = {"docs/python-kernels.md": True, "docs/describing-kernels.md": False}  # by what the page says, by nothing
TO_DO = {  # what a reader puts in the place of each TODO that `init` writes: my.cu transposes
    'grid = "TODO"': 'grid = "2,2"', 'block = "TODO"': 'block = "32,8"', "TODO]:TODO": "64,64]:out", "TODO]": "64,64]",
    ":TODO": ":64",
}  # fmt: skip
ENDINGS = {  # what ends with another exit code than 0, because of what the folder holds
    (
        "docs/describing-kernels.md",
        "ncu-swizzle profile my.cu --engine emulated --config none",
    ): 2,  # it prints the launch
    ("docs/launches.md", "ncu-swizzle lint app.launches --sarif lint.sarif"): 1,
    ("docs/launches.md", "ncu-swizzle check app.launches --cubin app.cubin"): 1,
    ("docs/programs.md", "ncu-swizzle check ci/app.launches"): 1,
    ("docs/proof.md", "ncu-swizzle prove my.cu --against HEAD"): 2,  # which has no such file
    ("docs/programs.md", "ncu-swizzle check ci/app.launches --cubin app.cubin --sarif check.sarif"): 1,
}
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
PROGRAM: Any = typer.main.get_command(cli.command_line())
CODES = {name for name in NAMES if name.startswith("docs/rules/")}  # test_rules.py types the lines of theirs
ADDED = "CONTRIBUTING.md"  # whose commands are about a variant that it adds: below


def typed(name: str) -> list[TypedLine]:
    """Return what a page says to type without showing what that prints."""
    return [
        *(typed_lines.without_output(ROOT / name) if name not in CODES else ()),
        *typed_lines.within_text(ROOT / name),
    ]


def meant(words: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command that words name, its name, and the words after it."""
    command, name = PROGRAM, "ncu-swizzle"
    while words and words[0] in getattr(command, "commands", ()):
        name, *words = words
        command = command.commands[name]
    return command, name, words


def unknown_options(line: TypedLine) -> Iterator[str]:
    """Yield the options of a line that its command does not have, or its command if there is none of that name."""
    command, name, words = meant([word for word in line.words if "…" not in word])
    if hasattr(command, "commands") and words and words[0].islower():
        yield f"{line.text}: {words[0]}"
    parser = command.make_parser(command.make_context(name, [], resilient_parsing=True))
    options = {**parser._long_opt, **parser._short_opt}
    following = iter(words[: words.index("--")] if "--" in words else words)
    for word in following:
        flag, equals, _ = word.partition("=") if word.startswith("--") else (word[:2], word[2:], "")
        if word.startswith("-") and word != "-":
            if flag not in options:
                yield f"{line.text}: {flag}"
            elif options[flag].takes_value and not equals:
                next(following, None)


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_exist(name: str) -> None:
    shown = list(typed_lines.lines(ROOT / name))
    mentioned = [line for line in typed_lines.named(ROOT / name) if line.words[0] in PROGRAM.commands]
    assert [
        option
        for line in [*shown, *typed_lines.within_text(ROOT / name), *mentioned]
        for option in unknown_options(line)
    ] == []
    for line in shown:
        if "…" not in line.text:
            command, name, words = meant(line.words)
            command.make_context(name, words)


def test_what_else_is_typed_exists() -> None:
    """Scripts of bench/ and targets of make; extras are in test_pages.py."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+|test-%):", makefile, re.MULTILINE))
    asked = set(re.findall(r"(?:^ {4}|`)make ([\w-]+)", text, re.MULTILINE))
    assert {target for target in asked - targets if not target.startswith("test-")} == set()
    for script, options in re.findall(r"python3 ((?:bench|recordings|tests)/[\w/]+\.py)([^`#\n]*)", text):
        assert (ROOT / script).is_file(), script
        sources = [file.read_text(encoding="utf-8") for file in (ROOT / script).parent.glob("*.py")]
        asked = re.findall(r"--[\w-]+", options)
        assert all(any(f'"{option}"' in source for source in sources) for option in asked), f"{script}{options}"


def test_every_console_block_is_run() -> None:
    """A block of kind console has to be on a page that docs/examples.py runs."""
    for name in NAMES:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert text.count("```console") == len(examples.BLOCK.findall(text)), f"{name}: a block without a command"
        assert "```console" not in text or name in examples.PAGES, f"{name}: add it to docs/examples.py"


# Lines that another program types: an agent, ncu, a workflow, which docs/ci.md also shows for a terminal.
OTHERS = {
    "claude mcp add ncu-swizzle -- ncu-swizzle serve mcp",
    "ncu --section-folder $(ncu-swizzle rules path) --section SwizzleConflicts ./app",
}


def spans(text: str, *forms: re.Pattern[str]) -> list[tuple[int, int]]:
    return [match.span() for form in forms for match in form.finditer(text)]


def test_no_command_line_is_printed_in_a_form_that_is_not_typed() -> None:
    """In a page's code every command is on a line that a test finds, whatever the block is called."""
    command = re.compile(rf"ncu-swizzle (?:{'|'.join(PROGRAM.commands)})\b")
    left = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        code, found = spans(text, typed_lines.CODE), spans(text, typed_lines.TYPED, typed_lines.CONSOLE)
        for match in command.finditer(text):
            at = match.start()
            if any(a <= at < b for a, b in code) and not any(a <= at < b for a, b in found):
                left.add(text[text.rfind("\n", 0, at) + 1 : text.index("\n", at)].strip())
    assert left == OTHERS


def marked(name: str, slow: Container[str], long: Container[str]) -> Any:
    """Return a page as pytest's parameter, in its tier."""
    return pytest.param(name, marks=[pytest.mark.slow] * (name in slow) + [pytest.mark.long] * (name in long))


@pytest.mark.parametrize("name", [marked(name, SLOW, LONG) for name in NAMES if name in examples.PAGES])
@NEEDS_ALL
def test_examples_print_what_is_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fork(argv: list[str], env: dict[str, str], cwd: Path, **_: bool) -> subprocess.CompletedProcess[str]:
        assert argv[1] == "-m"
        return process.run(*argv[3:], folder=cwd, env=env)

    for library in LANGUAGES if name == "docs/python-kernels.md" else ():
        pytest.importorskip(library, reason=f"needs {library}")
    text = (ROOT / name).read_text(encoding="utf-8")
    monkeypatch.setattr(examples, "subprocess", SimpleNamespace(run=fork))
    with examples.working_folder(examples.PAGES[name]) as folder:
        assert examples.refreshed(text, folder) == text, "python docs/examples.py brings the pages up to date"


def ending(name: str, line: TypedLine) -> int:
    """Return the exit code of a line: what needs a GPU ends by saying that it lacks one, and so does doctor."""
    if line.needs_gpu:
        return 4 if " capture " in line.text else 3
    command = " ".join(line.text.partition("  ")[0].split())
    return 3 if command == "ncu-swizzle doctor" else ENDINGS.get((name, command), 0)


@pytest.mark.parametrize(
    "name",
    [marked(name, SLOW_TYPED, LONG_TYPED) for name in NAMES
     if name != ADDED and any(not line.elsewhere for line in typed(name))],
)  # fmt: skip
@without_gpu
@NEEDS_ALL
def test_commands_do_what_is_said(name: str, tmp_path: Path) -> None:
    """What is typed is what the page shows, in a folder that has what it names."""
    desk = typed_lines.desk(tmp_path / "desk")
    for pattern in BESIDE.get(name, ()):
        for file in ROOT.glob(pattern):
            shutil.copy(file, desk)
    if name in DESCRIBED:
        described = re.findall(r"```toml\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
        (desk / "ncu-swizzle.toml").write_text("".join(described) if DESCRIBED[name] else "", encoding="utf-8")
    # Some systems know Python as python3 alone; the pages assume an active environment.
    environment = process.environment(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if name == "docs/rules.md":  # installs where ncu looks, as ncu has made it
        (desk / "Documents" / "NVIDIA Nsight Compute" / "2025.3.1" / "Sections").mkdir(parents=True)
        environment["HOME"] = str(desk)
    wrong = []
    for line in typed(name):
        missing = [library for word, library in LIBRARIES.items() if word in line.text and not find_spec(library)]
        if not missing and not line.elsewhere:
            done = process.command(*typed_lines.filled(line.words, desk), folder=desk, env=environment)
            for written in desk.glob("*.toml") if "init" in line.words else ():
                text = re.sub(
                    "|".join(map(re.escape, TO_DO)), lambda m: TO_DO[m[0]], written.read_text(encoding="utf-8")
                )
                written.write_text(text, encoding="utf-8")
            if done.returncode != ending(name, line):
                wrong.append(f"{line.text}\n{done.returncode}\n{done.stdout}{done.stderr}")
    assert not wrong, "\n".join(wrong)
