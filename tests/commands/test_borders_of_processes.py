"""Hostile text on the command line, in files, from ncu and from compilers: what a real process prints and writes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle import cli
from tests.support.fake_ncu import VERSION
from tests.support.hostile import ARGUMENT, CHECKS, EVERYTHING, NAME, check_terminal, outputs_below
from tests.support.process import command, environment, run, started

LIMIT_S = 120


def commands() -> list[list[str]]:
    """Return every command, and every command of a group."""
    groups = [(group.name, group.typer_instance) for group in cli.app.registered_groups]
    return [[str(each.name)] for each in cli.app.registered_commands] + [
        [str(name), str(each.name or getattr(each.callback, "__name__", ""))]
        for name, group in groups
        for each in group.registered_commands
    ]


def forged(text: str) -> list[str]:
    """Return the lines of stderr that pass for ours but were in an argument."""
    return [line for line in text.split("\n") if re.match(r"\s*(error|try|note): forged", line)]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_hostile_argument_of_any_command_is_shown_harmlessly(words: list[str], tmp_path: Path) -> None:
    for argument in (ARGUMENT, f"--{ARGUMENT}"):
        done = run(*words, argument, folder=tmp_path, env=environment(PATH="/nowhere", HOME=str(tmp_path)))
        check_terminal(done.stdout)
        check_terminal(done.stderr)
        assert forged(done.stderr) == []
        assert "Traceback" not in done.stderr
    for kind, text in outputs_below(tmp_path):
        CHECKS[kind](text)


def test_a_hostile_profile_goes_through_the_commands(hostile_profile: Path, tmp_path: Path) -> None:
    files = ("-o", "page.html", "--csv", "table.csv", "--markdown", "summary.md", "--json", "all.json")
    gate = ("--allow-recorded", "--junit", "x.xml", "--sarif", "x.sarif", "--json", "check.json")
    for words in (("report", *files), ("check", *gate), ("check", "--save-baseline"), ("rules", "apply")):
        done = command(*words, hostile_profile.name, folder=tmp_path)
        assert done.returncode in (0, 5), done.stderr  # 5: inconclusive
        check_terminal(done.stdout)
        check_terminal(done.stderr)
    hostile_profile.unlink()
    written = list(outputs_below(tmp_path))
    assert {kind for kind, _ in written} == {"html", "csv", "md", "json", "xml", "sarif"}
    for kind, text in written:
        CHECKS[kind](text)


@pytest.mark.long
def test_a_terminal_shows_colours_and_nothing_else(hostile_profile: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "ncu_swizzle", "report", hostile_profile.name, "-o", "page.html"]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path,
                          env=environment(TERM="xterm-256color")) as process:  # fmt: skip
        os.close(theirs)
        shown = _all_of(ours)
        assert process.wait(LIMIT_S) == 0
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[1m" in text, "rich's styles are kept"
    check_terminal(text)


def _all_of(terminal: int) -> bytes:
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # what a terminal says at the end
        pass
    os.close(terminal)
    return b"".join(parts)


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_any_encoding_of_the_terminal_will_do(encoding: str, hostile_profile: Path, tmp_path: Path) -> None:
    env = environment(PYTHONIOENCODING=encoding)
    page = ("-o", "page.html")
    words = {"latin-1": (hostile_profile.name, *page, "--json", "-"), "ascii": (hostile_profile.name, *page)}[encoding]
    shown = _raw("report", *words, folder=tmp_path, env=env)
    assert shown.returncode == 0, shown.stderr
    if encoding == "latin-1":
        CHECKS["json"](shown.stdout.decode())
    else:
        check_terminal(shown.stdout.decode("ascii"))
    missing = _raw("report", "no-µ→\udcff.json", folder=tmp_path, env=env)
    assert (missing.returncode, missing.stderr[:9]) == (2, b"error: no")


def _raw(*words: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    full = [sys.executable, "-m", "ncu_swizzle", *words]
    return subprocess.run(full, capture_output=True, check=False, cwd=folder, env=env)


def script(file: Path, output: str) -> Path:
    """Put a program at the path that prints its version, or else the output, and fails."""
    said = (output + "\n").encode(errors="surrogatepass")
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"if '--version' in sys.argv:\n    print({VERSION!r} + 'release 13.0, V13.0.88')\n"
        f"else:\n    sys.stdout.buffer.write({said!r})\n    sys.exit(3)\n",
        encoding="utf-8",
    )
    file.chmod(0o755)
    return file


def test_lines_of_ncu_are_quoted_harmlessly(tmp_path: Path) -> None:
    said = "\n".join(f"==ERROR== {part}" for part in EVERYTHING.split("\n")) + f"\n==PROF== {EVERYTHING}\n{EVERYTHING}"
    ncu = script(tmp_path / "bin" / "ncu", said)
    done = run("profile", "--ncu", str(ncu), "--engine", "ncu", "--", "true", folder=tmp_path, env=environment())
    assert done.returncode == 4
    assert "forged" in done.stderr
    check_terminal(done.stdout)
    check_terminal(done.stderr)
    assert forged(done.stderr) == []


def test_lines_of_a_compiler_are_quoted_harmlessly(tmp_path: Path) -> None:
    nvcc = script(tmp_path / "bin" / "nvcc", f"x.cu(3): error: {EVERYTHING}\n{EVERYTHING}")
    script(tmp_path / "bin" / "nvdisasm", "")
    (tmp_path / "x.cu").write_text("__global__ void f(float *x) {}\n", encoding="utf-8")
    described = ("--kernel", "f", "--grid", "1", "--block", "32", "--arg", "x=float32[32]:out")
    linted = run("lint", "x.cu", "--nvcc", str(nvcc), *described, folder=tmp_path, env=environment())
    assert "link" in linted.stdout
    assert "link" not in linted.stderr, "it is printed once"
    profiled = ("profile", "x.cu", "--engine", "emulated", "--nvcc", str(nvcc), *described)
    done = run(*profiled, folder=tmp_path, env=environment())
    assert "link" in done.stderr
    for printed in (linted, done):
        check_terminal(printed.stdout)
        check_terminal(printed.stderr)
        assert forged(printed.stderr) == []


def test_a_project_file_is_quoted_harmlessly(tmp_path: Path) -> None:
    quoted = "".join(f"\\U{ord(character):08x}" for character in EVERYTHING if not 0xD800 <= ord(character) < 0xE000)
    for text in (f'[[kernel]]\nname = "{quoted}"\nfile = "{quoted}"\n', f'["{quoted}"]\nx = 1\n',
                 f'[check]\n"{quoted}" = 1\n', f'[check]\nmax-degree = "{quoted}"\n'):  # fmt: skip
        (tmp_path / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        for words in (["list"], ["check", "kernel2"], ["lint", "x.cu"]):
            done = run(*words, folder=tmp_path, env=environment())
            check_terminal(done.stdout)
            check_terminal(done.stderr)
            assert forged(done.stderr) == []
            assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_process_is_as_the_tests_fork_it(tmp_path: Path) -> None:
    words = ("report", "missing" + NAME)
    alone = started(*words, folder=tmp_path, env=environment())
    check_terminal(alone.stderr)
    assert alone.stderr == command(*words, folder=tmp_path).stderr
