"""``ncu-swizzle report`` and the formats on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ncu_swizzle import cli
from ncu_swizzle.base import errors


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["report", *arguments])


@pytest.mark.long
def test_a_run_gets_its_page_again_byte_by_byte(saved_run: Path) -> None:
    assert command("run").exit_code == 0
    first = (saved_run / "report.html").read_bytes()
    done = command("run", "--markdown", "a.md", "--csv", "a.csv", "--json", "a.json")
    assert done.exit_code == 0
    assert "kernel2 removes all 1,886,388,224 excessive" in done.stdout
    assert "Written to run/report.html" in done.stdout
    assert (saved_run / "report.html").read_bytes() == first
    written = {name: Path(name).read_bytes() for name in ("a.md", "a.csv", "a.json")}
    command("run", "--markdown", "a.md", "--csv", "a.csv", "--json", "a.json")
    assert {name: Path(name).read_bytes() for name in written} == written


def test_single_profiles_make_a_page_too(saved_run: Path) -> None:
    done = command("run/kernel2.json", "run/kernel1.json", "-o", "page/x.html")
    assert done.exit_code == 0
    assert "<title>kernel2 → kernel1 · ncu-swizzle</title>" in Path("page/x.html").read_text(encoding="utf-8")
    assert command("run/kernel2.json").exit_code == 0
    assert Path("swizzle-out/report.html").is_file()
    assert not (saved_run / "report.html").exists()


@pytest.mark.parametrize(("option", "begins"), [("--markdown", "### kernel1"), ("--csv", "profile,"), ("--json", "{")])
@pytest.mark.usefixtures("saved_run")
def test_a_format_on_stdout_is_alone_there(option: str, begins: str) -> None:
    done = command("run", option, "-")
    assert done.stdout.startswith(begins)
    assert "Written to" not in done.stdout


@pytest.mark.usefixtures("saved_run")
def test_what_cannot_be_is_said_before_anything_is_written() -> None:
    done = command("kernel1")
    assert isinstance(done.exception, errors.BadFile)
    done = command("run", "--markdown", "-", "--csv", "-")
    assert isinstance(done.exception, errors.UsageError)
    assert not Path("run/report.html").exists()
    assert not Path("swizzle-out").exists()
