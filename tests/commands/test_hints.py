"""What an error says to type next works when it is typed."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from ncu_swizzle import cli
from ncu_swizzle.build.toolchain import Toolchain
from tests.support import hints
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.process import command
from tests.support.typed_hints import DESCRIBED, FILL, LINE, TypedHint

# Hints that nothing here can type: what stands for the reader's own word, and what other programs and machines answer.
PLACEHOLDER = re.compile(r"\b(PATH|SECONDS|NAME|SIZE|OPTIONS|FILE|KERNEL|PART|FAMILY|PROFILE|A=B|old_kernel)\b|…")
ELSEWHERE = re.compile(
    r"\b(pip install|apt-get|nvprune|ls|nvidia-smi|ulimit|on a GPU|compute-sanitizer|python3|ncu -o) ?"
)
MACHINES = ("ncu", "launch", "ncurep", "pack", "child", "sweep", "fleet")  # rooms that speak of GPUs, ncu and long runs
UNTYPED = (
    "--root names a folder that exists",  # of servers: tests/assistant starts them
    "start the server with --allow-run",
    "describe the kernel's launch and name its .cu file: ncu-swizzle init my.cu",  # test_init.py types it
    "name one kernel: ncu-swizzle fix {first.name}",  # takes the parser of the extra `fix`; tests/fix types the command
    "ncu-swizzle suggest shows a mapping for it",
    "git fsck says what is damaged",  # of another program; tests/history provokes them
    "git log shows the commits",
    "git log shows what they changed",
    "git merge-base {good.short} {bad.short} names one",
    "--grid 128 gives it, one to three sizes",  # of kernels in Python: tests/frontends types them, with the compilers
    "--arg {name}=float32[1024]",
    "other values with --arg",
    "--option num_warps=8 is for the compiler of a function",
    "--option num_warps=8",
    "--option num_warps=8 gives the block",
    "--nvcc-option is for a .cu file",
    "--block 128 gives it, one to three sizes",
    "--arg {argument.name}=64, or a shape for an array: --arg {argument.name}=float32[1024]",
    "--arg {argument.name}=64, or a shape for a pointer: --arg {argument.name}=float32[1024]",
    "{words} is the first; ncu-swizzle sweep compares them all",
    "--arg {triton_tensors.as_descriptor(described[1], tensor)}",
    "--option {argument.name}={known[0]}",
    "its elements as bytes: --arg {argument.name}=uint8[{shape}]",
    "if it is a dtype of the file, with 16 bytes: --arg {name}=uint8[{shape},16] --option {name}={dtype}",
    "--shared {whole}: what a kernel reads as its size is known of multiples of {256}",  # tests/gate types it
    "ncu-swizzle run {kernels[0].name}",  # needs a GPU
    "--config {file}, or --config none",  # of another user's file
    '--kernel "{qualified(demangle_all(cubin.kernels)[cubin.kernels[0]])}"',  # from Python only
    "--{what} {launch_limits.USUAL[what]}: one to three sizes, at most {_by(most)}",  # from Python only
    "--json - prints the plan as JSON",  # in place of --csv; tests/sweep types it
    "leave out --workers",  # a program needs a GPU
    "ncu-swizzle profile {launches[0]}",  # takes a capture; tests/commands type the command
    "use a smaller --problem, or fewer or smaller files",  # out of memory
    "use a smaller --problem",
    "ncu-swizzle rules path prints its folder: check the files there",
    "install it with ncu-swizzle rules install",
    "compile the kernel with nvcc 12 or 13",
    "name another path with -o, --html or --json",  # a disk that is full
    "profile it with ncu-swizzle profile",
    "does it use the GPU? --profile-from-start, --target-processes and --nvtx-include select what to profile",
    "check the filters: -k, -s, -c, --nvtx-include, --kernel-name-base",
    "git fetch origin, and name a branch, a tag or a commit; in a shallow clone, fetch that commit",
    "run lint --against in the checkout of your sources",
    "install ncu-swizzle again",
    "ncu-swizzle list shows what can be profiled",
    "ncu-swizzle profile measures them",
    "--request 0 to {access.requests - 1}",
    "--row 0 to {rows - 1}",
    "--code {', '.join(CODE)}",
    "--access row, column or ldmatrix",
    "ncu-swizzle profile -- ./app --size 4096",  # typed for another error
    "ncu-swizzle profile -- ./app",  # of a report without kernels; needs a GPU
    "ncu-swizzle capture -o app.launches -- ./app writes one",  # these need a GPU or a program that was built for them
    "ncu-swizzle capture -- ./app --size 4096",
    "ncu-swizzle capture --dry -- ./app names the program",
    "ncu-swizzle capture --memory also keeps what memory holds",
    "capture it on a machine with a GPU, without --dry; docs/launches.md lists what the stand-in has",
    "leave out -k, or run it by itself",
    "ncu-swizzle profile --capture -- ./app",
    "leave out -k to capture all of its kernels",
    "compile it with -arch=sm_{captured_with.sm}",
    "give a file that ncu-swizzle capture wrote",
    "--pad 1: one element after each row",
    "--pad 1",  # of sizes that only Python can pass
    "--copies 1",
    "a layout such as \"(8,8):(1,8)\", a kernel of ncu-swizzle list, or one of {', '.join(PICTURES)}",
    'a kernel of ncu-swizzle list, a layout such as "(8,8):(1,8)", a .csv file, or an expression in tid with --op, '
    "such as: predict 'tid * 8' --op ld.shared.b32",
)


def test_every_hint_to_type_is_typed_here() -> None:
    typed = {case.hint for case in DESCRIBED}
    rest = {
        text: module
        for text, module in hints.to_type().items()
        if text not in typed
        and text not in UNTYPED
        and not PLACEHOLDER.search(text)
        and not ELSEWHERE.search(text)
        and module.split(".")[1] not in MACHINES
        and "nvcc -" not in text
    }
    assert rest == {}, "add a case to tests/support/typed_hints.py"
    unknown = {*typed, *UNTYPED} - hints.hints().keys()
    assert unknown == set(), "no hint is spelled like this any more"


def commands() -> dict[str, set[str]]:
    """Return the options of each command, and of each command in a group."""
    found: dict[str, set[str]] = {}

    def add(name: str, group: object) -> None:
        found[name] = {flag for parameter in group.params for flag in (*parameter.opts, *parameter.secondary_opts)}  # type: ignore[attr-defined]
        for inner, part in getattr(group, "commands", {}).items():
            add(f"{name} {inner}".strip(), part)

    add("", typer.main.get_command(cli.app))
    return found


NCU = {"--section-folder", "--list-sections", "-cubin", "--cubin", "--ptx", "-arch", "-lineinfo", "-elf", "-xelf", "-l",
       "--facts", "-m", "--upgrade", "-p", "-DSWIZZLE", "-O3", "-cudart", "--compress-mode", "-a", "--help", "--size",
       "--sampling-interval"}  # fmt: skip


def test_every_option_and_command_in_a_hint_exists() -> None:
    every = commands()
    options = {flag for flags in every.values() for flag in flags}
    names = {name.split(" ")[0] for name in every if name}
    for text, module in hints.hints().items():
        for option in re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", text):
            assert option in options | NCU, (text, module)
        for name in re.findall(r"\bncu-swizzle ([a-z]+)", text):
            assert name in names | {"again"}, (text, module)


@NEEDS_ALL
@without_gpu
@pytest.mark.parametrize("case", DESCRIBED, ids=lambda case: case.hint[:60])
def test_a_hint_works_when_it_is_typed(case: TypedHint, hint_folder: Path) -> None:
    for name, text in case.files.items():
        (hint_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (hint_folder / name).write_text(text)
    if case.before:
        assert command(*case.before, folder=hint_folder).returncode == 0
    refused = command(*case.command, folder=hint_folder)
    assert refused.returncode in (1, 2, 3, 4, 5), refused.stdout
    hint = refused.stderr.partition("try: ")[2] or refused.stdout
    assert re.search(pattern_of(case.hint), hint) or LINE in case.typed, refused.stderr
    for part in case.typed:
        text = part.replace("WORK", str(hint_folder))
        if part == LINE:
            (line,) = re.findall(r"ncu-swizzle .*", hint.splitlines()[0])
            text = line
        elif not part.startswith("leave out"):
            assert text in hint, hint
        for placeholder, value in FILL.items():
            text = text.replace(placeholder, value)
        words = shlex.split(text)
        given = words[1:] if words[0] == "ncu-swizzle" else changed(case.command, words)
        done = command(*given, folder=hint_folder)
        first = refused.stderr.splitlines()[0] if refused.stderr else ""
        assert done.returncode != 2, (given, done.stderr)
        assert not first or first not in done.stderr, (given, done.stderr)


def pattern_of(hint: str) -> str:
    """Return a pattern for what a hint becomes when its expressions are filled in."""
    return "".join(".*" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{.*?\}(?!\)))", hint))


def changed(typed: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return a command with options replaced or added; --arg replaces the one of the same name, or else all."""
    if list(words[:2]) == ["leave", "out"]:
        at = typed.index(words[2])
        return [*typed[:at], *typed[at + 2 :]]
    new: list[tuple[str, ...]] = []
    for word in words:
        new = [*new, (word,)] if word.startswith("-") and len(word) > 1 and not word[1:2].isdigit() else [
            *new[:-1], (*new[-1], word)]  # fmt: skip
    names = {item[0] for item in new}
    arguments = {item[1].split("=")[0] for item in new if item[0] == "--arg"}
    present = {value.split("=")[0] for name, value in itertools.pairwise(typed) if name == "--arg"}
    kept: list[str] = []
    skip = False
    for word, following in zip(typed, [*typed[1:], ""], strict=True):
        if skip:
            skip = False
        elif word == "--arg" and arguments and arguments <= present:
            name = following.split("=")[0]
            kept += next((["--arg", item[1]] for item in new if item[1].split("=")[0] == name), [word, following])
            skip = True
        elif word.partition("=")[0] in names and word != "-f":
            skip = "=" not in word
        else:
            kept.append(word)
    added = [word for item in new if not (item[0] == "--arg" and arguments <= present) for word in item]
    return [*kept, *added]


@NEEDS_ALL
@pytest.mark.parametrize("hint", sorted(text for text in hints.hints() if "nvcc -" in text and "FILE.cu" in text))
def test_nvcc_takes_the_command_that_is_proposed(hint: str, hint_folder: Path) -> None:
    (line,) = re.findall(r"nvcc -.*FILE\.cu", hint)
    words = shlex.split(line.replace("FILE.cu", "turn.cu"))
    assert os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", shlex.join(["cd", str(hint_folder)]) + " && " + shlex.join(
        [str(Toolchain().find("nvcc")), *words[1:]])]) == 0  # fmt: skip
