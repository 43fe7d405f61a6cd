"""Files whose names are not UTF-8: found, compiled, shown and saved as text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.reports import run_folder
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import TYPED
from tests.support.process import environment


def run(folder: Path, *arguments: bytes, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable.encode(), b"-m", b"ncu_swizzle", *arguments],
        capture_output=True, check=False, cwd=folder, env=environment(**more),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((b"report", b"k\xff.ncu-rep", b"-o", b"p\xff.html", b"--json", b"j\xff.json"), 0),
        ((b"report", b"k\xff.ncu-rep", b"--csv", b"-"), 0),
        ((b"report", b"k\xff.ncu-rep", b"kernel1", b"--markdown", b"-", b"--engine", b"recorded"), 0),
        ((b"check", b"k\xff.ncu-rep", b"--allow-recorded", b"--junit", b"u\xff.xml", b"--sarif", b"s\xff"), 0),
        ((b"rules", b"apply", b"k\xff.ncu-rep"), 0),
        ((b"rules", b"install", b"--dest", b"r\xff"), 0),
        ((b"profile", b"kernel2", b"--engine", b"recorded", b"-o", b"run\xff"), 0),
        ((b"check", b"--save-baseline", b"kernel2", b"--engine", b"recorded", b"--baseline", b"b\xff.json"), 0),
        ((b"check", b"\xff\xfe"), 2),
        ((b"explain", b"\xff"), 2),
        ((b"\xff",), 2),
        ((b"list", b"--\xff"), 2),
        ((b"explain", b"\xff.csv", b"--op", b"ld.shared.b32"), 2),
        ((b"sweep", b"gemm", b"--problem", b"\xff=3"), 2),
        ((b"list", b"--catalog", b"\xff"), 2),
    ],
)
def test_names_that_are_not_utf_8(arguments: tuple[bytes, ...], status: int, odd: Path) -> None:
    done = run(odd, *arguments)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"\xff" not in done.stderr


def test_a_saved_report_names_its_origin_as_text(odd: Path) -> None:
    assert run(odd, b"report", b"k\xff.ncu-rep", b"--json", b"j.json").returncode == 0
    (profile,) = json.loads((odd / "j.json").read_text(encoding="utf-8"))["profiles"]
    assert profile["report"] == "k?.ncu-rep"


@NEEDS_ALL
def test_a_source_with_such_a_name_is_compiled_and_saved(odd: Path) -> None:
    words = [word.encode() for word in TYPED]
    for locale in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = run(odd, b"profile", b"m\xff.cu", *words, b"--engine", b"emulated", b"-o", b"o", b"-f", b"--json", b"j",
                   **locale)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads((odd / "j").read_text(encoding="utf-8"))
        (profile,) = run_folder.load(odd / "o").profiles
        (source,) = (file for file in profile.sources if file.endswith(".cu"))
        assert source == "m?.cu", "as the compiler calls it"
        assert any(instruction.file == source for instruction in profile.shared()), "its lines are found in it"
        assert run(odd, b"report", b"o").returncode == 0
