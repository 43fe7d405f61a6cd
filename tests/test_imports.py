"""Starting stays fast because heavy packages are imported where they are used."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"pandas", "numpy", "jinja2", "pygments", "pycuda", "ncu_report", "torch", "rich.console"}


def imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    assert not imported_by("import ncu_swizzle.cli") & HEAVY


def test_help_does_not_even_load_typer() -> None:
    statement = "sys.argv = ['ncu-swizzle', '--help']; from ncu_swizzle.__main__ import main; main()"
    assert not imported_by(statement) & {*HEAVY, "typer", "ncu_swizzle.cli"}


def test_only_the_reader_loads_ncu_report_and_only_the_launching_program_loads_pycuda() -> None:
    assert not imported_by("import ncu_swizzle.experiment, ncu_swizzle.terminal") & {"ncu_report", "pycuda", "torch"}
