"""``ncu-swizzle lint --diff`` shows what ``--fix`` writes; what is written is no longer offered."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.marks import NEEDS_ALL
from tests.support.process import run

PATCHED = "+        tile[threadIdx.y + j]"


@NEEDS_ALL
def test_a_fix_is_shown_then_written_then_gone(fix_example: Path) -> None:
    source = fix_example / "turn.cu"
    before = source.read_bytes()
    shown = run("lint", "turn.cu", "--diff", "--sarif", "lint.sarif", folder=fix_example)
    assert shown.returncode == 1, shown.stderr
    assert PATCHED in shown.stderr
    assert _offered(fix_example)
    assert source.read_bytes() == before

    written = run("lint", "turn.cu", "--fix", "--diff", "--sarif", "lint.sarif", folder=fix_example)
    assert written.returncode == 0, written.stdout + written.stderr
    assert PATCHED in written.stderr
    assert "fixed turn.cu" in written.stderr
    assert not _offered(fix_example)
    assert source.read_bytes() != before


def _offered(folder: Path) -> bool:
    """Say whether a result of the SARIF file has a fix."""
    (log,) = json.loads((folder / "lint.sarif").read_text(encoding="utf-8"))["runs"]
    return any("fixes" in result for result in log["results"])
