"""Hostile text on the command line, in files and their names, in every field of every input; no output is harmed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle import cli
from ncu_swizzle.render import formats, terminal
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import Profile
from tests.support import writers
from tests.support.fake_ncu import VERSION
from tests.support.hostile import (
    ARGUMENT,
    CHECKS,
    EVERYTHING,
    STARTS,
    check_json,
    check_terminal,
    outputs_below,
    poisoned,
    text_fields,
    texts_in,
)
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import TYPED
from tests.support.process import Done, Typed, environment, run
from tests.support.writers import Made, Writer

ODD = os.fsdecode(b"k\xff")


def commands() -> list[str]:
    """Return every command, and every command of a group."""
    alone = [str(each.name) for each in cli.command_line().registered_commands]
    groups = [(group.name, group.typer_instance) for group in cli.command_line().registered_groups]
    return alone + [
        f"{name} {each.name or getattr(each.callback, '__name__', '')}"
        for name, group in groups
        for each in group.registered_commands
    ]


def harmless(done: Done) -> None:
    """Raise AssertionError if anything that was printed harms a terminal, or passes for ours but was quoted."""
    check_terminal(done.stdout)
    check_terminal(done.stderr)
    assert [line for line in done.stderr.split("\n") if re.match(r"\s*(error|try|note): forged", line)] == []
    assert "Traceback" not in done.stderr


def test_a_hostile_argument_of_any_command_is_shown_harmlessly(typed: Typed, work: Path) -> None:
    assert len(commands()) > 14
    for words in commands():
        for argument in (ARGUMENT, f"--{ARGUMENT}"):
            harmless(typed(words, argument, PATH="/nowhere", HOME=str(work)))
    for kind, text in outputs_below(work):
        CHECKS[kind](text)


def test_a_hostile_profile_goes_through_the_commands(typed: Typed, hostile_profile: Path, tmp_path: Path) -> None:
    typed.folder = tmp_path
    for words in (
        "report -o page.html --csv table.csv --markdown summary.md --json all.json",
        "check --allow-recorded --junit x.xml --sarif x.sarif --json check.json",
        "check --save-baseline",
        "rules apply",
    ):
        done = typed(words, hostile_profile.name)
        assert done.returncode in (0, 5), done.stderr  # 5: inconclusive
        harmless(done)
    hostile_profile.unlink()
    written = list(outputs_below(tmp_path))
    assert {kind for kind, _ in written} == {"html", "csv", "md", "json", "xml", "sarif"}
    for kind, text in written:
        CHECKS[kind](text)


@pytest.mark.long
def test_any_encoding_of_the_terminal_will_do(hostile_profile: Path, tmp_path: Path) -> None:
    def raw(encoding: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "ncu_swizzle", "report", *words]
        env = environment(PYTHONIOENCODING=encoding)
        return subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=env)

    page = (hostile_profile.name, "-o", "page.html")
    CHECKS["json"](raw("latin-1", *page, "--json", "-").stdout.decode())
    check_terminal(raw("ascii", *page).stdout.decode("ascii"))
    missing = raw("ascii", "no-µ→\udcff.json")
    assert (missing.returncode, missing.stderr[:9]) == (2, b"error: no")


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


@pytest.mark.long
def test_lines_of_ncu_and_of_a_compiler_are_quoted_harmlessly(typed: Typed, work: Path, tmp_path: Path) -> None:
    said = "\n".join(f"==ERROR== {part}" for part in EVERYTHING.split("\n")) + f"\n==PROF== {EVERYTHING}\n{EVERYTHING}"
    ncu = script(tmp_path / "bin" / "ncu", said)
    done = typed(f"profile --ncu {ncu} --engine ncu -- true")
    assert done.returncode == 4
    assert "forged" in done.stderr
    harmless(done)
    nvcc = script(tmp_path / "bin" / "nvcc", f"x.cu(3): error: {EVERYTHING}\n{EVERYTHING}")
    script(tmp_path / "bin" / "nvdisasm", "")
    (work / "x.cu").write_text("__global__ void f(float *x) {}\n", encoding="utf-8")
    described = f"x.cu --nvcc {nvcc} --kernel f --grid 1 --block 32 --arg x=float32[32]:out"
    linted = typed(f"lint {described}")
    assert "link" in linted.stdout
    assert "link" not in linted.stderr, "it is printed once"
    profiled = typed(f"profile {described} --engine emulated")
    assert "link" in profiled.stderr
    harmless(linted)
    harmless(profiled)


def test_a_project_file_is_quoted_harmlessly(typed: Typed, work: Path) -> None:
    quoted = "".join(f"\\U{ord(character):08x}" for character in EVERYTHING if not 0xD800 <= ord(character) < 0xE000)
    for text in (f'[[kernel]]\nname = "{quoted}"\nfile = "{quoted}"\n', f'["{quoted}"]\nx = 1\n',
                 f'[check]\n"{quoted}" = 1\n', f'[check]\nmax-degree = "{quoted}"\n'):  # fmt: skip
        (work / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        for line in ("list", "check kernel2", "lint x.cu"):
            harmless(typed(line))


NOT_UTF_8 = {
    f"report {ODD}.ncu-rep -o p{ODD}.html --json j.json": 0,
    f"check {ODD}.ncu-rep --allow-recorded --junit u{ODD}.xml --sarif s{ODD}": 0,
    f"rules apply {ODD}.ncu-rep": 0,
    f"profile tma-32 --engine recorded -o run{ODD}": 0,
    f"check --save-baseline tma-32 --engine recorded --baseline b{ODD}.json": 0,
    f"check {ODD}": 2,
    f"explain {ODD}": 2,
    ODD: 2,
    f"list --{ODD}": 2,
    f"explain {ODD}.csv --op ld.shared.b32": 2,
    f"sweep gemm --problem {ODD}=3": 2,
}


@pytest.mark.long
def test_names_that_are_not_utf_8(typed: Typed, odd: Path) -> None:
    typed.folder = odd
    for line, status in NOT_UTF_8.items():
        done = typed(line)
        assert done.returncode == status, (line, done.stderr)
        assert "\udcff" not in done.stdout + done.stderr
        harmless(done)
    (profile,) = json.loads((odd / "j.json").read_text(encoding="utf-8"))["profiles"]
    assert profile["report"] == "k?.ncu-rep", "its origin is text"


@NEEDS_ALL
@pytest.mark.long
def test_a_source_with_such_a_name_is_compiled_and_saved(odd: Path) -> None:
    words = ("profile", os.fsdecode(b"m\xff.cu"), *TYPED, "--engine", "emulated", "-o", "o", "-f", "--json", "j")
    env = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = run(*words, folder=odd, env=env)
    assert done.returncode == 0, done.stderr
    (profile,) = run_folder.load(odd / "o").profiles
    (source,) = (file for file in profile.sources if file.endswith(".cu"))
    assert source == "m?.cu", "as the compiler calls it"
    assert any(instruction.file == source for instruction in profile.shared()), "its lines are found in it"


GROUPS = 2  # of fields
KINDS = ("profiles", "verdict", "sweep", "catalog", "times", "diagnosis", "maps")
Inputs = dict[str, tuple[Any, Made]]


def check_all(made: Iterator[Writer]) -> None:
    for kind, write in made:
        CHECKS[kind](write())


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind == "profiles")) for kind in KINDS]
)
def test_hostile_text_harms_no_output(kind: str, inputs: Inputs) -> None:
    """In every field at once, and in some beside good text, so that everything is written that is written of that."""
    value, made = inputs[kind]
    check_all(made(lambda text: f"{STARTS[0]}{text}{EVERYTHING}", ()))
    fields = text_fields(value)
    for group in filter(None, (fields[first::GROUPS] for first in range(GROUPS))):
        check_all(made(lambda text: f"{STARTS[1]}{text}{EVERYTHING}", group))


def test_saved_profiles_and_json_keep_hostile_text_exactly(pair: tuple[Profile, ...]) -> None:
    hostile = poisoned(pair, lambda text: f"{text}{EVERYTHING}")
    for profile in hostile:
        text = profile.to_json()
        check_json(text)
        assert Profile.from_json(text) == profile
    whole = formats.to_json(writers.result_of(hostile))
    assert f"{pair[0].kernel.name}{EVERYTHING}" in set(texts_in(json.loads(whole)))


@pytest.mark.long
def test_styles_are_the_only_control_characters_on_a_terminal(pair: tuple[Profile, ...]) -> None:
    hostile = poisoned(pair, lambda text: f"{text}{EVERYTHING}")
    for kind, write in writers.profiles(hostile, styled=True):
        CHECKS[kind](write())
    (shown,) = {writers.printed(terminal.show, writers.result_of(hostile), styled=True)}
    assert "\x1b[1" in shown


def test_markup_in_a_name_is_text(pair: tuple[Profile, ...]) -> None:
    name = "[red]a[/] ns::x::f [/] \\"
    made = poisoned(pair[:1], lambda text: name, ["KernelId.name"])
    assert name in " ".join(writers.printed(terminal.show, writers.result_of(made)).split())
