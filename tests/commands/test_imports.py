"""Starting stays fast because heavy packages are imported where they are used."""

from __future__ import annotations

import pytest

from tests.support.imports import HEAVY, imported_by


def test_the_command_line_and_its_help_load_nothing_heavy() -> None:
    assert not imported_by("import ncu_swizzle.cli") & HEAVY


@pytest.mark.long
def test_only_the_reader_loads_ncu_report_and_only_the_launching_program_loads_pycuda() -> None:
    jobs = ", ".join(f"ncu_swizzle.commands.{name}" for name in ("run_kernel", "run_program", "run_several"))
    assert not imported_by(f"import {jobs}, ncu_swizzle.render.terminal") & {"ncu_report", "pycuda", "torch"}
