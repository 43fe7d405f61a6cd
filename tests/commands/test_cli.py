"""The command line without a GPU: the main job, formats, help, what mistakes lead to, and how failures end."""

import contextlib
import errno
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import GateFailed, InternalError, NcuSwizzleError, NotWritable, error_of_system, shortened
from ncu_swizzle.commands import output, run_kernel
from ncu_swizzle.engines import reader
from ncu_swizzle.reports import container
from tests.support.places import ROOT
from tests.support.process import Typed, environment, started

SCREEN = 40  # lines of a command's help, on 80 columns


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


def test_every_help_fits_a_screen_and_every_option_has_one(typed: Typed) -> None:
    overview = typed("--help").stdout
    assert overview == typed("").stdout
    assert "3  a GPU, ncu, a permission is missing" in overview
    names = re.findall(r"^  ([a-z]+) {2,}\S", overview, re.MULTILINE)
    assert len(names) == 15
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


LONG = 200_000


def python(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, where its temporary files go too."""
    env = environment(TMPDIR=str(folder), **more)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)


def broken(folder: Path, statement: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``ncu-swizzle list`` after a statement that breaks it."""
    code = (
        "import sys; from ncu_swizzle.kernels import naming; import ncu_swizzle.commands.tools\n"
        f"def fails(*arguments, depth=0, **more):\n    {statement}\n"
        "naming.catalogue = fails\n"
        "sys.argv = ['ncu-swizzle', 'list', '--config', 'none']\n"
        "from ncu_swizzle.__main__ import main; sys.exit(main())"
    )
    return python(code, folder, **more)


MOMENTS = {
    "as modules load": "sys.meta_path.insert(0, Now)",
    "as commands are declared": "import typer.main; typer.main.get_command = now",
    "as the command runs": "from ncu_swizzle.kernels import naming; naming.catalogue = now",
    "at the end": "import atexit; atexit.register(now)",
}


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_signal_ends_a_command_with_a_word_at_any_moment(moment: str, tmp_path: Path) -> None:
    for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "hung up")):
        code = (
            "import os, sys, time\n"
            f"def now(*_, **__): os.kill(os.getpid(), {int(number)}); time.sleep(0.05)\n"
            "class Now:\n    find_spec = staticmethod(lambda name, *_: now() if name == 'ncu_swizzle.cli' else None)\n"
            f"{MOMENTS[moment]}\n"
            "sys.argv = ['ncu-swizzle', 'list', '--config', 'none']\n"
            "from ncu_swizzle.__main__ import main; sys.exit(main())"
        )
        done = python(code, tmp_path)
        over = moment == "at the end"
        expected = (0, "") if over else (128 + number, f"{word}: nothing was written\n")
        assert (done.returncode, done.stderr, "kernel2" in done.stdout) == (*expected, over), number


@pytest.mark.long
@pytest.mark.parametrize("mebibytes", [60, 80, 110, 140, 200])
def test_too_little_address_space_is_no_failed_gate(mebibytes: int, tmp_path: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({mebibytes << 20},) * 2)\n"
    run = "import sys; sys.argv = ['ncu-swizzle', 'explain', '(8,8):(8,1)']\nfrom ncu_swizzle.__main__ import main; "
    done = python(f"{limited}{run}sys.exit(main())", tmp_path)
    assert done.returncode in (0, 3), done.stderr
    assert done.returncode == 0 or "ulimit -v unlimited" in done.stderr


BUGS = {
    "raise KeyError('sampled')": "KeyError 'sampled'",
    "fails(depth=depth + 1)": "RecursionError",
    "raise ValueError('\\x1b[31m' + 'x' * 200_000)": "ValueError",
}


@pytest.mark.long
@pytest.mark.parametrize("statement", BUGS)
def test_a_bug_is_one_paragraph_and_a_file(statement: str, tmp_path: Path) -> None:
    named = BUGS[statement]
    done = broken(tmp_path, statement)
    assert done.returncode == InternalError.exit_code == 70
    assert done.stdout == ""
    said, hint = done.stderr.splitlines()
    assert said.startswith("error: this is a bug in ncu-swizzle ")
    assert named in said
    assert "report it" in hint
    assert len(done.stderr) < 1500
    assert "\x1b" not in done.stderr
    file = Path(said.rpartition(" ")[2])
    assert file.parent == tmp_path
    assert file.stat().st_mode & 0o077 == 0, "nobody else can read what was typed"
    text = file.read_text(encoding="utf-8")
    assert "command line: ncu-swizzle list --config none" in text
    assert f"Python {sys.version_info.major}." in text
    assert "Traceback (most recent call last)" in text
    assert "in fails" in text


@pytest.mark.long
def test_only_a_gate_ends_with_1(tmp_path: Path) -> None:
    def all_of(kind: type[NcuSwizzleError]) -> set[type[NcuSwizzleError]]:
        return {kind}.union(*map(all_of, kind.__subclasses__()))

    assert [kind for kind in all_of(NcuSwizzleError) if kind.exit_code == 1] == [GateFailed]
    assert broken(tmp_path, "sys.stdout.close()").returncode not in (0, 1)
    package = tmp_path / "ncu_swizzle"  # an installation without its commands
    package.mkdir()
    kept = ("__init__.py", "__main__.py", "commands/__init__.py", "commands/output.py")
    base = ("__init__.py", "bounds.py", "errors.py", "files.py", "texts.py", "unfinished.py")
    for name in (*kept, *(f"base/{file}" for file in base)):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_bytes((ROOT / "ncu_swizzle" / name).read_bytes())
    done = started("list", folder=tmp_path, env=environment(PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path)))
    assert done.returncode == 70, done.stderr
    assert "ImportError" in done.stderr


def test_ctrl_c_while_modules_load_has_a_word(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder()); sys.argv = ['ncu-swizzle', 'list']\n"
        "from ncu_swizzle.__main__ import main; sys.exit(main())"
    )
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted: nothing was written\n")


def test_an_os_error_s_number_decides() -> None:
    def error(number: int, *files: str) -> OSError:
        return OSError(number, os.strerror(number), files[0] if files else None, None, *files[1:])

    copied = error_of_system(error(errno.ENOSPC, "recordings/kernel2.ncu-rep", "out/kernel2.ncu-rep"))
    assert isinstance(copied, NotWritable)
    assert str(copied) == "cannot write out/kernel2.ncu-rep: No space left on device"
    assert "free some disk space" in copied.hint
    assert "shorter path" in error_of_system(error(errno.ENAMETOOLONG, "x")).hint
    assert "permissions" in error_of_system(error(errno.EACCES, "x")).hint
    assert "permissions" not in error_of_system(error(errno.ELOOP, "x")).hint
    assert "ulimit -n" in error_of_system(error(errno.EMFILE, "x")).hint
    assert error_of_system(error(errno.EMFILE)).exit_code == 3, "no file: this is not about stdout"
    assert "output" in str(error_of_system(error(errno.ENOSPC)))


def test_errors_quote_only_part_of_a_long_value() -> None:
    assert shortened("a" * 255) == "a" * 255, "any file name stays whole"
    assert len(shortened("a" * LONG)) <= 255
    assert len(shortened("( " * LONG)) <= 1000
    assert len(shortened("a line\n" * LONG)) <= 8000
    once = shortened(f"cannot read {'x/' * LONG}: File name too long")
    assert once.endswith(": File name too long")
    assert shortened(once) == once
    error = NotWritable("b" * LONG, "c" * LONG)
    assert max(len(str(error)), len(error.hint)) <= 255
    error.args = ("d" * LONG,)
    assert len(str(error)) <= 255


def test_an_error_after_stderr_is_gone_keeps_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "err").open("w", encoding="utf-8") as full:
        os.dup2(os.open("/dev/full", os.O_WRONLY), full.fileno())
        monkeypatch.setattr(sys, "stderr", full)
        assert output.explain(NotWritable("cannot write", "try")) == 2
