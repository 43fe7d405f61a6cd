"""The command line without a GPU: the main job, reports, formats, help, and what mistakes lead to."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.kernels import gpu
from ncu_swizzle.reports import container, reader
from ncu_swizzle.reports.model import Profile
from tests.support.pages import Page
from tests.support.process import Typed, command, environment
from tests.support.recordings import Recorded

pytestmark = pytest.mark.skipif(not gpu.absent(), reason="these tests are about machines without a GPU")

RECORDED = "--engine recorded"
SCREEN = 41  # lines of a command's help


def test_a_forked_command_is_as_any_other(work: Path) -> None:
    """Tests of other rooms fork commands from a process that has loaded everything."""
    words, env = ("explain", "nothing"), environment()
    started = [sys.executable, "-m", "ncu_swizzle", *words]
    alone = subprocess.run(started, capture_output=True, text=True, check=False, cwd=work, env=env)
    forked = command(*words, folder=work)
    assert alone.returncode == 2
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


# ---------------------------------------------------------------------------------------------- profiles and reports


def test_the_main_job_shows_what_was_recorded(typed: Typed, work: Path, recorded: Recorded) -> None:
    done = typed(f"profile kernel2 {RECORDED} --json all.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Recorded, not measured now: NVIDIA H100 80GB HBM3, ncu 2025.3.1.0, ")
    assert "1,882,718,208" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    folder = work / "swizzle-out" / "kernel2"
    assert {file.name for file in folder.iterdir()} == {
        *("run.json", "report.html"),
        *(f"{name}.{end}" for name in ("kernel1", "kernel2", "reference-attention")
          for end in ("json", "ncu-rep", "facts.json")),
    }  # fmt: skip
    assert Profile.from_json((folder / "kernel2.json").read_text(encoding="utf-8")) == recorded("kernel2")
    assert "Recorded, not measured now" in (folder / "report.html").read_text(encoding="utf-8")
    assert "swizzle-out/kernel2/" in done.stdout
    whole = json.loads((work / "all.json").read_text(encoding="utf-8"))
    assert [profile["engine"] for profile in whole["profiles"]] == ["recorded"] * 3
    assert whole["labels"] == ["kernel1", "kernel2", "reference-attention"]
    degrees = {(row["label"], row["access"]): row["degree"] for row in whole["accesses"]}
    assert (degrees["kernel1", "LDSM"], degrees["kernel2", "LDSM"]) == (8, 1)
    assert "kernel2 removes all" in whole["verdict"]
    worst = max(whole["lines"], key=lambda row: (row["excessive"] or 0, -row["samples"]))
    assert (worst["label"], worst["excessive"]) == ("kernel1", 1_886_388_224)


def test_a_baseline_is_a_file_or_none(typed: Typed) -> None:
    typed("profile tma-32 -o before --baseline none")
    beside = typed("profile tma-64 --baseline before/tma-32.json --json -")
    assert json.loads(beside.stdout)["labels"] == ["tma-32", "tma-64"]
    alone = typed("profile tma-64 --baseline none --json - -f")
    assert json.loads(alone.stdout)["labels"] == ["tma-64"]


def test_report_takes_whatever_holds_a_profile(typed: Typed, work: Path) -> None:
    typed(f"profile transpose-xor {RECORDED} --reference none")
    run, names = "swizzle-out/transpose-xor", ("transpose-plain", "transpose-xor")
    page = (work / run / "report.html").read_bytes()
    mixed = typed(
        f"report {run}/{names[0]}.ncu-rep {run}/{names[1]}.json {run} {names[0]} {RECORDED} -o m.html --json -"
    )
    content = json.loads(mixed.stdout)
    assert content["labels"] == [f"{names[0]} #1", f"{names[1]} #1", f"{names[1]} #2", f"{names[0]} #2"]
    assert [profile["engine"] for profile in content["profiles"]] == ["recorded"] * 4, "copies stay what they are"
    again = typed(f"report {run} --csv a.csv --json a.json")
    assert again.returncode == 0, again.stderr
    assert "transpose-xor removes all" in again.stdout
    assert f"Written to {run}/report.html" in again.stdout
    assert (work / run / "report.html").read_bytes() == page, "made again from the saved profiles, to the byte"
    assert json.loads((work / "a.json").read_text(encoding="utf-8"))["labels"] == list(names)
    pair = typed(f"report {run}/{names[1]}.json {run}/{names[0]}.json --markdown -")
    assert pair.stdout.startswith("### transpose-xor")
    assert "Written to" not in pair.stdout
    shown = Page((work / "swizzle-out" / "report.html").read_text(encoding="utf-8"))
    assert "transpose-xor → transpose-plain" in shown.text


def test_what_a_report_and_a_run_say_of_their_launches_is_checked(files: Path) -> None:
    sizes = [(one.workload, one.grid, one.block) for one in container.inspect(files / "new.ncu-rep").results]
    assert sizes == [("kernel", each.grid, each.block) for each in reader.read(files / "new.ncu-rep")]
    run = files / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kernel": "x", "profiles": [], "columns": ["x"], "rows": [["../evil.json"]]}')
    with pytest.raises(NcuSwizzleError, match="is damaged"):
        run_kernel.reopen([str(run)])


def test_an_existing_run_is_kept(typed: Typed, work: Path) -> None:
    line = f"profile tma-128 {RECORDED} --reference none -o out"
    assert typed(line).returncode == 0
    before = (work / "out" / "run.json").stat().st_mtime_ns
    again = typed(line)
    assert again.returncode == 2
    assert "already holds" in again.stderr
    assert "-f" in again.stderr
    assert (work / "out" / "run.json").stat().st_mtime_ns == before
    assert typed(line, "-f").returncode == 0


def test_a_measured_run_is_told_apart_from_a_recorded_one(typed: Typed, fake: dict[str, str]) -> None:
    measured = "profile kernel2 --engine ncu --baseline none --reference none --ncu-args '--sampling-interval 0'"
    done = typed(measured, "--json", "all.json", FAKE_NCU="ok", **fake)
    assert done.returncode == 0, done.stderr
    assert "Measured on NVIDIA H100" in done.stdout
    assert json.loads((typed.folder / "all.json").read_text(encoding="utf-8"))["engine"] == "ncu"


# ---------------------------------------------------------------------------------------------- help and old names


def test_every_help_fits_a_screen_and_every_option_has_one(typed: Typed) -> None:
    overview = typed("--help", COLUMNS="100").stdout
    assert overview == typed("", COLUMNS="100").stdout
    assert "3  something is missing: a GPU, ncu, a permission" in overview
    names = re.findall(r"^  ([a-z]+) {2,}\S", overview, re.MULTILINE)
    assert len(names) == 14
    below = ("history add", "history show", "rules path", "rules apply", "serve mcp", "serve lsp")
    for line in ("", *names, *below):
        shown = typed(f"{line} --help", COLUMNS="100").stdout.splitlines()
        assert 3 < len(shown) <= SCREEN, (line, len(shown))
        assert max(map(len, shown)) <= 120, line
    every = typed("profile --help-all").stdout
    for option in ("--kernel", "--shared", "-D", "-I", "--std", "--nvcc-option", "--before", "--after", "--config",
                   "--catalog", "--nvtx-include", "--clock-control", "--scheduler"):  # fmt: skip
        assert option in every
    assert "--nvtx-include" not in typed("profile --help").stdout


def test_old_names_say_what_to_type_now(typed: Typed) -> None:
    now = {
        "run kernel1 --no-reference --json": "profile kernel1 --reference none --json - --no-ncu",
        "compare a b --html x.html -k f": "report a b -o x.html -k f",
        "predict 'tid * 4' --op atom --json": "explain 'tid * 4' --op atom --json - --show wavefronts",
        "banks xor": "explain xor --show map",
        "banks '(8,8):(8,1)' --show bits": "explain '(8,8):(8,1)' --show bits",
        "suggest --json '(8,8):(8,1)' --read row": "explain --json - '(8,8):(8,1)' --read row --show mapping",
        "baseline save a.json --file=b.json": "check a.json --baseline b.json --save-baseline",
        "baseline show": "check --show-baseline",
        "mcp --root x": "serve mcp --root x",
        "lsp": "serve lsp",
        "list --json": "list --json -",
        "doctor --json --no-trial": "doctor --json - --no-trial",
        "profile --export out -- ./app --export x": "profile -o out -- ./app --export x",
        "profile kernel2 --engine ncu -- --set full": "profile kernel2 --engine ncu --ncu-args '--set full'",
    }
    for old, new in now.items():
        done = typed(old)
        assert (done.returncode, done.stdout) == (2, ""), old
        assert done.stderr.splitlines()[1] == f"  try: ncu-swizzle {new}", old
    for line in ("explain xor --show map", "explain '(8,8):(8,1)' --show bits", "list --json -"):
        assert typed(line).returncode == 0, line


def test_list_shows_every_kernel(typed: Typed) -> None:
    listed = typed("list").stdout
    for word in ("attention", "kernel1", "kernel2", "reference-attention", "h100"):
        assert word in listed
    families = json.loads(typed("list --json -").stdout)
    assert families[0]["kernels"][1]["degree"] == {"LDGSTS": 1, "LDSM": 1, "STS": 1, "LDS": 1}
    assert typed("--version").stdout == f"ncu-swizzle {metadata.version('ncu-swizzle')}\n"


# ---------------------------------------------------------------------------------------------- wrong input

MISTAKES = {  # the exit code, what is said, and what to type
    "profile kernl2": (2, "unknown kernel 'kernl2', did you mean 'kernel2'?", "ncu-swizzle list"),
    "profile kernel2 --problem seq=100": (2, "seq=100 is not supported", "seq=4096"),
    "profile kernel2 --problem depth=1": (2, "has no parameter 'depth'", "batch (sequences), heads ("),
    "profile kernel2 --problem seq": (2, "'seq' is not NAME=SIZE", ""),
    f"profile kernel2 --problem seq=128 {RECORDED}": (3, "was recorded at batch=4", "leave out --problem"),
    "profile kernel2 --engine ncu": (3, "ncu) was not found", "--engine recorded"),
    "profile kernel2 --ncu /nowhere --engine ncu": (3, "/nowhere is not an executable", "--ncu"),
    "profile kernel2 --baseline no.ncu-rep": (2, "no.ncu-rep does not exist", "ls swizzle-out"),
    "profile kernel2 -o /proc/out": (2, "cannot write to /proc", "-o"),
    "profile kernel2 --json --csv -": (2, "--json takes a file, or - for stdout, not --csv", "--json - --csv"),
    "explain xor --svg x.svg": (2, "xor is drawn on the terminal only", "omit --svg"),
    "explain '(8,8):(1,8)' --svg /proc/x.svg": (2, "cannot write /proc/x.svg", ""),
    "explain xor --json": (2, "--json takes a file, or - for stdout", "ncu-swizzle explain xor --json -"),
    "profile kernel2 --no-ncu --engine ncu": (2, "--engine has no use beside --no-ncu", "leave out --engine"),
    "profile kernel2 --repeats 3": (2, "--repeats: only with --no-ncu", "--no-ncu --repeats"),
    "profile --no-ncu kernel2": (3, "PyCUDA cannot be imported", "pip install 'ncu-swizzle[gpu]'"),
    "profile --no-ncu -- ./app": (2, "--no-ncu times kernels, not programs", "ncu-swizzle profile --no-ncu -- ./app"),
    "profile kernel2 -- ./app": (2, "-- starts a program, and kernel2 is to be", "ncu-swizzle profile -- ./app"),
    "lint -- my.cu": (2, "-- starts a program, and lint runs none", "ncu-swizzle lint --help"),
    "check --save-baseline x.json --max-degree 1": (2, "--max-degree has no use beside --save-baseline", "leave out"),
    "check": (2, "nothing to check", "ncu-swizzle check swizzle-out/kernel2"),
    "report dir/nothing": (2, "dir/nothing does not exist", "ls swizzle-out"),
    "report .": (2, "is not a run's folder", "ls swizzle-out"),
    "report nothing.json --markdown - --csv -": (2, "only one format can go to stdout", "name a file"),
    f"report tma-32 {RECORDED} -o /proc/x.html": (2, "cannot write /proc/x.html", "-o"),
    "nonsense": (2, "nonsense", ""),
    "profile": (2, "nothing to profile", "ncu-swizzle profile -- ./app"),
}  # fmt: skip


def test_mistakes_say_what_to_type_next(typed: Typed, work: Path) -> None:
    for line, (status, said, hint) in MISTAKES.items():
        if "--no-ncu kernel2" in line and shutil.which("nvidia-smi"):
            continue  # PyCUDA may be here
        done = typed(line)
        assert (done.returncode, done.stdout) == (status, ""), (line, done.stderr)
        assert said in done.stderr, line
        assert hint in done.stderr.partition("try: ")[2], line
        assert list(work.iterdir()) == [], f"nothing half-written: {line}"


def test_damaged_and_foreign_files_are_told_apart(typed: Typed, work: Path, report_file: Path) -> None:
    (work / "cut.ncu-rep").write_bytes(report_file.read_bytes()[:-100])
    (work / "foreign.ncu-rep").write_bytes(b"PK\3\4")
    (work / "cut.json").write_text('{"schema": 1, "dig', encoding="utf-8")
    (work / "foreign.json").write_text("[]", encoding="utf-8")
    for said in ("cut.ncu-rep is damaged", "foreign.ncu-rep is not an Nsight Compute report", "cut.json is damaged",
                 "foreign.json is not a saved profile"):  # fmt: skip
        done = typed("report", said.split()[0])
        assert done.returncode == 2
        assert said in done.stderr


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
