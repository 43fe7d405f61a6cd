"""ncu: its command line, its progress, every way in which it is known to fail; and what stays behind: nothing."""

import fcntl
import json
import logging
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st

from bench.attacks.corpus import hostile
from ncu_swizzle.base import bounds, paths
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.commands.run_program import listed_kernels, own_lines
from ncu_swizzle.engines import machine, ncu
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.measured import LaunchJob, run_batch
from ncu_swizzle.engines.ncu import MachineState
from ncu_swizzle.engines.settings import Done, Launches, Options
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.side_by_side import SHARED_PIPE
from tests.support import process
from tests.support.fake_ncu import GAVE_UP, PATCHED, SCENARIOS, WARNED
from tests.support.marks import executable, without_gpu
from tests.support.places import ROOT
from tests.support.processes import alive, wait_until
from tests.support.properties import chances, examples, holds
from tests.support.recordings import Recorded
from tests.support.stand_in import ALONE, Fake


def test_the_command_line_says_everything_explicitly() -> None:
    options = Options(extra=("--sampling-interval", "0"))
    assert ncu.argv(Path("/opt/ncu"), "k.ncu-rep", ["python3", "-m", "x"], options) == [
        *("/opt/ncu", "--target-processes", "application-only", "--profile-from-start", "off"),
        *("--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel", "--launch-count", "1"),
        *("--sampling-interval", "0", "--export", "k.ncu-rep", "--force-overwrite", "--", "python3", "-m", "x"),
    ]


def test_progress_follows_the_replay_passes_and_counts_launches() -> None:
    seen: list[Done] = []
    progress = ncu.Progress(seen.append)
    # As it arrived from a real one.
    for text in ('==PROF== Profiling "kernel1" - 0: ', "0%", *"....", "50%", "...", ".", "100% - 6 passes\n"):
        progress.feed(text)
    assert [done.fraction for done in seen] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 1]
    progress = ncu.Progress(seen.append, 4)
    progress.feed('==PROF== Profiling "a" - 0: 0%....50%....100% - 6 passes\n==PROF== Profiling "b: c" - 1: 0%....50%')
    assert seen[9:] == [Done(0.375)]


def telling_version(path: Path, version: str) -> Path:
    return executable(path, f"echo Version {version} '(build 1)'")


class Elsewhere(System):
    """A machine whose root is a folder, with nothing on PATH but what the folder's bin has."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def environment(self) -> dict[str, str]:
        return {"CUDA_HOME": str(self.root / "cuda")}

    def which(self, name: str) -> str | None:
        path = self.root / "bin" / name
        return str(path) if path.exists() else None

    def glob(self, pattern: str) -> list[Path]:
        return sorted(self.root.glob(pattern.lstrip("/")))


def test_the_newest_ncu_is_used_unless_one_is_named(tmp_path: Path) -> None:
    here = Elsewhere(tmp_path)
    with pytest.raises(EnvironmentLacking, match="was not found") as lacking:
        machine.find(system=here)
    assert "--engine recorded" in lacking.value.hint
    old = telling_version(tmp_path / "opt/nvidia/nsight-compute/2024.3.2/ncu", "1.0")
    assert machine.find(system=here) == old
    on_path = telling_version(tmp_path / "bin/ncu", "2024.3.2.0")
    assert machine.find(system=here) == on_path, "2024.3.2.0 is no older than 2024.3.2, and PATH comes first"
    newest = telling_version(tmp_path / "opt/nvidia/nsight-compute/2025.10.1/ncu", "1.0")
    telling_version(tmp_path / "opt/nvidia/nsight-compute/2025.9.0/ncu", "1.0")
    assert machine.find(system=here) == newest, "10 is more than 9"
    toolkit = telling_version(tmp_path / "usr/local/cuda-13.1/bin/ncu", "2026.1.0.0")
    assert machine.find(system=here) == toolkit, "the toolkit's is asked for its version"
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/ncu").symlink_to(toolkit)
    assert machine.find(system=here).resolve() == toolkit
    assert machine.find(old, here) == old
    with pytest.raises(EnvironmentLacking, match="is not an executable"):
        machine.find(tmp_path, here)
    alone = Elsewhere(tmp_path / "alone")
    silent = telling_version(alone.root / "bin/ncu", "unknown")
    assert machine.find(system=alone) == silent
    telling = telling_version(alone.root / "usr/local/cuda/bin/ncu", "2023.1.0.0")
    assert machine.find(system=alone) == telling, "an ncu that does not tell its version comes last"


def test_ncu_gets_its_own_options() -> None:
    launches = Launches(
        kernel_name="regex:soft", kernel_name_base="demangled", launch_skip=2, nvtx=False,
        nvtx_include=("a/", "b/"), filter_mode="per-launch-config", target_processes_filter="",
    )  # fmt: skip
    line = ncu.argv(Path("ncu"), "r.ncu-rep", ["./app", "-x"], Options(launch_count=32, launches=launches))
    assert line[1:14] == [
        *("--kernel-name", "regex:soft", "--kernel-name-base", "demangled", "--launch-skip", "2"),
        *("--filter-mode", "per-launch-config", "--nvtx-include", "a/", "--nvtx-include", "b/", "--nvtx"),
    ]
    assert line[-3:] == ["--", "./app", "-x"]
    assert Launches(nvtx=True, nvtx_include=("a",)).argv() == ["--nvtx", "--nvtx-include", "a"]
    assert Launches().argv() == []


def test_the_program_s_words_are_told_from_ncu_s() -> None:
    log = "==PROF== Connected to process 1 (/x)\none\n==WARNING== Note\ntwo == three\n==PROF== Disconnected"
    assert own_lines(log) == "one\ntwo == three\n"
    listing = "last\n==PROF== Available\nAvailable Kernels:\n" + "".join(f"  {n}. k{n}\n" for n in range(5000))
    assert listed_kernels(listing)[:2] == ["k0", "k1"]
    assert listed_kernels("1. k\n") == []


def test_progress_is_read_after_any_output_without_a_newline() -> None:
    seen: list[Done] = []
    progress = ncu.Progress(seen.append)
    for text in ("x" * 4096, "==PROF== Profiling " * 200, "1" * 4096, ": 5" * 1300, "%." * 2000):
        for _ in range(500):  # megabytes: what is kept of them is bounded, or this never ends
            progress.feed(text)
    progress.feed('\n==PROF== Profiling "k" - 0: 0%....50%')
    assert seen[-1] == Done(0.5)


@without_gpu
def test_every_job_says_why_it_failed(tmp_path: Path) -> None:
    family, kernel = catalog.shipped().named("transpose-plain")
    jobs = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        jobs.append(LaunchJob(family=family, kernels=(kernel,), problem={"n": 64}, folder=folder))
    outcomes = run_batch(jobs, tmp_path, 60, "compare", ["--repeats", "3"])
    assert [type(outcome) for outcome in outcomes] == [EnvironmentLacking] * 2
    assert all(outcome.hint for outcome in outcomes if isinstance(outcome, NcuSwizzleError))
    assert len(list(tmp_path.rglob("compare.facts.json"))) == 2


LINES = (
    "==ERROR== ", "==WARNING== ", "==PROF== Profiling ", "The user does not have permission", "ERR_NVGPUCTRPERM",
    "No kernels were profiled.",
    "Driver resource was unavailable", "Failed to connect", '"k" - 0: 0%....50%', "100% - 6 passes", "{0} {name}",
    "%s", "error code: ",
)  # fmt: skip
LONGEST = 100_000  # characters of a message, whatever was printed


def printed(chance: Random) -> str:
    """Return an output made of what ncu prints and of what it should not."""
    parts = [chance.choice((*LINES, *hostile.TEXTS, "\n", "\n", "9" * 5000)) for _ in range(chance.randrange(1, 12))]
    return "".join(parts) * chance.choice((1, 1, 1, 200))


@examples
def test_every_failure_has_an_error_of_a_size(examples: int) -> None:
    def check(chance: Random, status: int, free_bytes: int | None) -> None:
        log = printed(chance)
        error = ncu.diagnose(log, status, MachineState(free_bytes=free_bytes))
        assert isinstance(error, NcuSwizzleError)
        assert 0 < len(str(error)) < LONGEST
        assert all(len(note) <= bounds.CHARACTERS + 1 for note in ncu.notes(log))
        ncu.busy(log)

    holds(examples, check, chances, st.integers(-64, 255), st.sampled_from([None, 0]))


@examples
def test_progress_is_a_fraction_however_its_output_arrives(examples: int) -> None:
    def check(chance: Random, launches: int) -> None:
        seen: list[Done] = []
        progress = ncu.Progress(seen.append, launches)
        rest = printed(chance)
        while rest:
            size = chance.randrange(1, 4000)
            progress.feed(rest[:size])
            rest = rest[size:]
        assert all(0 <= done.fraction <= 1 for done in seen)

    holds(examples // 3, check, chances, st.integers(1, 32))


# Those in which more matters than what ncu prints and returns: what it leaves, how it ends, where it prints.
PROCESSES = [
    name
    for name, scenario in SCENARIOS.items()
    if scenario.ending != "exit" or scenario.report != "none" or scenario.stream != "stdout" or name == "busy"
]

# ---------------------------------------------------------------------------------------------- each failure


def collected(fake: Fake, scenario: str, **more: str) -> tuple[str, ...]:
    """Profile kernel2 with the stand-in for ncu into the empty folder `work`; return ncu's warnings."""
    program = ["python3", "-m", "ncu_swizzle.kernels", "--facts", str(fake.work.parent / "facts.json"), "kernel2"]
    environment = fake.environment(scenario, **more)
    return ncu.collect(fake.program, program, fake.work / "kernel2.ncu-rep", Options(), 2, environment)


def different(name: str, error: NcuSwizzleError) -> str:
    """Return an error that is not the one which a failure should become; nothing if it is."""
    scenario = SCENARIOS[name]
    right = (error.exit_code == scenario.exit_code, scenario.said in str(error), scenario.hint in str(error.hint))
    return "" if all(right) else f"{name}: {error.exit_code}: {error}\n  try: {error.hint}"


def test_every_failure_is_explained_with_its_cure() -> None:
    errors = {
        name: ncu.diagnose(SCENARIOS[name].prints, SCENARIOS[name].status) for name in SCENARIOS.keys() - PROCESSES
    }
    assert [text for name, error in errors.items() if (text := different(name, error))] == []


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n == "hang")) for n in PROCESSES])
def test_whatever_ncu_leaves_and_however_it_ends_nothing_stays(
    name: str, fake: Fake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ncu, "WAITS_S", (0.0, 0.0, 0.0))
    with caplog.at_level(logging.WARNING), pytest.raises(NcuSwizzleError) as failed:
        collected(fake, name)
    assert different(name, failed.value) == ""
    assert list(fake.work.iterdir()) == []
    assert caplog.text.count("trying again in") == (3 if name == "busy" else 0)


def test_counters_that_become_free_are_waited_for(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert ncu.WAITS_S == (1, 2, 4)
    monkeypatch.setattr(ncu, "WAITS_S", (0.0, 0.0, 0.0))
    with caplog.at_level(logging.WARNING):
        collected(fake, "busy-twice", FAKE_NCU_TRIES=str(tmp_path / "tries"))
    assert caplog.text.count("another profiler (often DCGM) holds") == 2
    assert [file.name for file in fake.work.iterdir()] == ["kernel2.ncu-rep"]


@pytest.mark.long
def test_a_failure_through_the_command_line(fake: Fake) -> None:
    for name, environment in {"driver": {}, "home": {"HOME": "/proc"}}.items():
        scenario = SCENARIOS[name]
        done = fake.run(name, "profile", "kernel2", *ALONE, **environment)
        assert (done.returncode, done.stdout) == (scenario.exit_code, ""), done.stderr
        message, _, hint = done.stderr.partition("  try: ")
        assert scenario.said in message
        assert scenario.hint in hint
        assert list(fake.work.iterdir()) == [], "nothing half-written is left"


def test_the_page_of_failures_has_every_one_of_them() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    numbered = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert numbered == set(range(1, 24))
    known = {scenario.number for scenario in SCENARIOS.values()} | {number for number, _, _ in WARNED.values()} | {18}
    assert known == numbered
    assert {failure.number for failure in ncu.FAILURES} <= numbered


@pytest.mark.long
def test_what_ncu_warns_of_is_a_note_on_the_screen_and_in_the_report(fake: Fake) -> None:
    for _, printed, said in WARNED.values():
        assert said in " ".join(ncu.notes(printed))
    said = WARNED["slow"][2]
    done = fake.run("slow")
    assert done.returncode == 0, done.stderr
    assert said in " ".join(done.stdout.split())
    folder = fake.work / "swizzle-out" / "kernel2"
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    again = process.run("report", str(folder / "kernel2.json"), folder=fake.work, env=fake.environment("none"))
    assert said in " ".join(again.stdout.split()), "saved with the profile"


def test_a_program_that_speaks_as_ncu_is_not_believed() -> None:
    log = "bad allocation\nNo kernels were profiled\n==ERROR== The application returned an error code (3).\n"
    assert "exited with code 3" in str(ncu.diagnose(log, 3))


def test_the_cause_wins_over_what_ncu_says_after_it() -> None:
    for scenario in SCENARIOS.values():
        if scenario.ending == "exit" and scenario.report == "none" and scenario.number not in (6, 12, 13, 16, 23):
            error = ncu.diagnose(scenario.prints + GAVE_UP, 9)
            expected = "could not profile the kernel" if scenario.number == 20 else scenario.said
            assert expected in str(error)


def test_what_lies_around_explains_a_silent_ncu() -> None:
    assert "lock file /tmp/x belongs to another user" in str(ncu.diagnose("", 9, MachineState(lock="/tmp/x")))
    assert "home folder" in str(ncu.diagnose("", 1, MachineState(home_writable=False)))
    full = ncu.diagnose("==WARNING== No kernels were profiled.", 1, MachineState(free_bytes=100))
    assert isinstance(full, EnvironmentLacking)
    assert "the disk is full" in str(full)
    told = ncu.diagnose("==ERROR== ERR_NVGPUCTRPERM", 1, MachineState(free_bytes=100, home_writable=False))
    assert "ERR_NVGPUCTRPERM" in str(told)


def test_an_unknown_failure_keeps_ncu_s_last_words() -> None:
    error = ncu.diagnose("one\n==ERROR== Something new\n", -11)
    assert type(error) is ProgramFailed
    assert "was killed by signal 11" in str(error)
    assert "==ERROR== Something new" in str(error)


def test_a_flood_becomes_a_short_message() -> None:
    for log in (
        "==ERROR== " * 200_000,
        "==ERROR== '" + "x" * 2_000_000 + "' does not exist or is not an executable",
        "==ERROR== '" + "x" * 1_500 + "' does not exist or is not an executable",
        "==WARNING== Unable to access the following 3 metrics: " + "m," * 1_000_000,
        "y" * 2_000_000,
    ):
        error = ncu.diagnose(log, 1)
        assert len(str(error)) + len(error.hint) < 3_000, log[:60]
        assert all(len(note) <= 301 for note in ncu.notes(log)), log[:60]


# ---------------------------------------------------------------------------------------------- silent bad data


@pytest.mark.long
@pytest.mark.parametrize("name", PATCHED)
def test_figures_that_cannot_be_never_reach_a_verdict(name: str, fake: Fake, recorded: Recorded) -> None:
    share = {"FAKE_NCU_SHARE": repr(recorded("kernel2").number(SHARED_PIPE))}
    done = fake.run(name, **share)
    assert done.returncode == 0, done.stderr
    said = "ncu wrote NaN for" if name == "nan" else "its replay passes are inconsistent"
    assert said in " ".join(done.stdout.split())
    folder = fake.work / "swizzle-out" / "kernel2"
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    saved = json.loads((folder / "kernel2.json").read_text(encoding="utf-8"))
    assert (SHARED_PIPE in saved["metrics"]) == (name != "nan")
    gate = fake.run(name, "check", str(folder), "--max-excessive", "0", "--config", "none", "--baseline", "none")
    assert gate.returncode == (0 if name == "nan" else 5), gate.stdout
    assert ("inconclusive" in gate.stdout) == (name != "nan")


# ---------------------------------------------------------------------------------------------- ended from outside


def family(pids: Sequence[int]) -> Iterator[int]:
    """Yield the processes and all below them."""
    for pid in pids:
        yield pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        yield from family([int(child) for child in children])


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_the_whole_tree_and_leaves_nothing(
    number: signal.Signals, status: int, word: str, fake: Fake, tmp_path: Path
) -> None:
    pids = tmp_path / "tree"
    command = fake.start("hang", FAKE_NCU_TREE=str(pids))
    try:
        assert wait_until(lambda: pids.is_file() and len(pids.read_text(encoding="utf-8").split()) == 2)
        tree = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
        assert wait_until(lambda: len(list(family(tree[1:]))) == 3)  # the shell and its two
        started = [*tree[:1], *family(tree[1:])]
        command.send_signal(number)
        _, said = command.communicate(timeout=60)
    finally:
        command.kill()
    assert command.returncode == status, said
    assert said == f"{word}: nothing was written\n"
    assert not [pid for pid in started if alive(pid)]
    assert list(fake.work.iterdir()) == []


@pytest.mark.long
def test_a_signal_after_something_was_written_says_what(fake: Fake) -> None:
    """A pipe that nobody reads holds the command up between what it has written and what it is still to write."""
    os.mkfifo(fake.work / "pipe")
    pipe = os.open(fake.work / "pipe", os.O_RDWR)
    size = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)

    def queued() -> int:
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

    command = subprocess.Popen(
        fake.command("profile", "kernel2", *ALONE, "--json", "kept.json", "--csv", "-"),
        stdout=pipe,
        stderr=subprocess.PIPE,
        text=True,
        cwd=fake.work,
        env=fake.environment("ok"),
    )
    try:
        assert wait_until(lambda: queued() == size)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    finally:
        command.kill()
        os.close(pipe)
    assert command.returncode == 130, said
    assert said == "interrupted: swizzle-out/kernel2, kept.json had been written before\n"
    assert (fake.work / "swizzle-out" / "kernel2" / "run.json").is_file()


# ---------------------------------------------------------------------------------------------- several at once


def at_once(fake: Fake, *commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Run commands with the stand-in for ncu at the same time, in one folder."""
    with ThreadPoolExecutor(len(commands)) as threads:
        return list(threads.map(lambda words: fake.run("ok", *words), commands))


@pytest.mark.long
def test_runs_at_once_in_one_folder_do_not_collide_and_into_one_named_folder_one_wins(fake: Fake) -> None:
    run = ("profile", "kernel2", *ALONE)
    *unnamed, first, second = at_once(fake, run, run, run, (*run, "-o", "out"), (*run, "-o", "out"))
    assert [run.returncode for run in unnamed] == [0] * 3, [run.stderr for run in unnamed]
    assert sorted([first.returncode, second.returncode]) == [0, 2], first.stderr + second.stderr
    assert (first.stderr + second.stderr).count("already holds") == 1
    folders = sorted((fake.work / "swizzle-out").iterdir())
    assert [folder.name for folder in folders] == ["kernel2", "kernel2-2", "kernel2-3"]
    for folder in (*folders, fake.work / "out"):
        files = {file.name for file in folder.iterdir()}
        assert files == {"kernel2.json", "kernel2.ncu-rep", "kernel2.facts.json", "report.html", "run.json"}
    assert sorted(path.name for path in fake.work.iterdir()) == ["out", "swizzle-out"]


@pytest.mark.long
def test_baselines_saved_at_once_lose_no_entry(fake: Fake, recorded: Recorded) -> None:
    names = ("kernel1", "kernel2", "tma-128", "transpose-plain")
    for name in names:
        recorded(name).save(fake.work / f"{name}.json")
    runs = at_once(fake, *(("check", f"{name}.json", "--save-baseline") for name in names))
    assert [run.returncode for run in runs] == [0] * len(names), [run.stderr for run in runs]
    saved = json.loads((fake.work / "ncu-swizzle-baseline.json").read_text(encoding="utf-8"))
    assert sorted(entry["kernel"] for entry in saved["kernels"]) == sorted(names)


# ---------------------------------------------------------------------------------------------- a full disk
