"""The command line without a GPU: the main job, reports, formats, help, and what mistakes lead to."""

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.reports import container, reader
from tests.support.process import Typed, command, environment

SCREEN = 40  # lines of a command's help, on 80 columns


@pytest.mark.long
def test_a_forked_command_is_as_any_other(work: Path) -> None:
    """Tests of other rooms fork commands from a process that has loaded everything."""
    words, env = ("explain", "nothing"), environment()
    started = [sys.executable, "-m", "ncu_swizzle", *words]
    alone = subprocess.run(started, capture_output=True, text=True, check=False, cwd=work, env=env)
    forked = command(*words, folder=work)
    assert alone.returncode == 2
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_what_a_report_and_a_run_say_of_their_launches_is_checked(files: Path) -> None:
    sizes = [
        (one.launch.workload, one.launch.grid, one.launch.block)
        for one in container.inspect(files / "new.ncu-rep").results
    ]
    assert sizes == [("kernel", each.grid, each.block) for each in reader.read(files / "new.ncu-rep")]
    run = files / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kernel": "x", "profiles": [], "columns": ["x"], "rows": [["../evil.json"]]}')
    with pytest.raises(NcuSwizzleError, match="is damaged"):
        run_kernel.reopen([str(run)])


# ---------------------------------------------------------------------------------------------- help and old names


def test_every_help_fits_a_screen_and_every_option_has_one(typed: Typed) -> None:
    overview = typed("--help").stdout
    assert overview == typed("").stdout
    assert "3  a GPU, ncu, a permission is missing" in overview
    names = re.findall(r"^  ([a-z]+) {2,}\S", overview, re.MULTILINE)
    assert len(names) == 13
    below = ("rules path", "rules apply", "serve mcp", "serve lsp")
    for line in ("", *names, *below):
        shown = typed(f"{line} --help").stdout.splitlines()
        assert 3 < len(shown) <= SCREEN, (line, len(shown))
        assert max(map(len, shown)) <= 80, line
    every = typed("profile --help-all").stdout
    for option in ("--kernel", "--shared", "-D", "-I", "--std", "--nvcc-option", "--before", "--after", "--config",
                   "--nvtx-include", "--clock-control"):  # fmt: skip
        assert option in every
    assert "--nvtx-include" not in typed("profile --help").stdout


# ---------------------------------------------------------------------------------------------- terminals


def seen_on_a_terminal(code: str) -> str:
    """Return what Python code writes to a terminal, without its control sequences."""
    ours, its = pty.openpty()
    env = environment(TERM="xterm", COLUMNS="80")
    with subprocess.Popen([sys.executable, "-c", code], stdin=its, stdout=its, stderr=its, env=env):
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_a_terminal_shows_how_far_ncu_is() -> None:
    code = (
        "from ncu_swizzle.commands import output\n"
        "from ncu_swizzle.engines.settings import Done\n"
        "with output.progress(): pass\n"
        "print('so far nothing')\n"
        "with output.progress() as move:\n"
        "    for part in (0, 0.4, 1): move('gemm [b]<1>', Done(part)); move('other', Done(part / 2))\n"
    )
    shown = seen_on_a_terminal(code)
    assert shown.startswith("so far nothing")
    assert re.search(r"gemm \[b\]<1> \S+ 100 %", shown)
    assert re.search(r"other +\S+ +50 %", shown)
