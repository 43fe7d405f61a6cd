"""``ncu-swizzle compare`` with reports of several kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ncu_swizzle import cli
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.reports import container, reader
from tests.support.pages import Page


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("files")
def test_compare_pairs_two_reports() -> None:
    status, text = command("report", "old.ncu-rep", "new.ncu-rep", "-o", "x.html", "--markdown", "x.md")
    assert status == 0
    assert "Only in new, not paired: 2 vectors_16_stride." in text
    assert "2 pairs, excessive wavefronts 16,252,928 → 16,252,928" in " ".join(text.split())
    assert "old → new" in Page(Path("x.html").read_text(encoding="utf-8")).text
    data = json.loads(command("report", "old.ncu-rep", "new.ncu-rep", "--pair", "0=2", "--json", "-")[1])
    assert [one["launch"] for one in data["kernels"]] == [[0, 2], [1, 0], [1]]
    one = json.loads(command("report", "old.ncu-rep", "new.ncu-rep", "-k", "regex:plain", "--json", "-")[1])
    assert one["labels"] == ["transpose_plain #1", "transpose_plain #2"]


@pytest.mark.long
@pytest.mark.usefixtures("files")
def test_one_kernel_against_a_report_finds_its_own() -> None:
    found = json.loads(command("report", "old.ncu-rep", "transpose-plain", "--json", "-")[1])
    assert [one["labels"] for one in found["kernels"]] == [["old", "transpose-plain"], ["old"]]


@pytest.mark.usefixtures("files")
def test_a_narrowed_report_is_one_kernel() -> None:
    status, text = command("report", "new.ncu-rep", "--launch", "1", "-o", "x.html", "--json", "-")
    assert status == 0
    assert json.loads(text)["labels"] == ["transpose_plain"]


def test_a_report_knows_the_sizes_of_its_launches(files: Path) -> None:
    found = container.inspect(files / "new.ncu-rep").results
    assert [(one.workload, one.grid, one.block) for one in found] == [
        ("kernel", profile.grid, profile.block) for profile in reader.read(files / "new.ncu-rep")
    ]


def test_a_run_s_rows_are_checked(files: Path) -> None:
    run = files / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kernel": "x", "profiles": [], "columns": ["x"], "rows": [["../evil.json"]]}')
    with pytest.raises(NcuSwizzleError, match="is damaged"):
        run_kernel.reopen([str(run)])
