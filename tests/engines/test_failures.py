"""Every way in which ncu is known to fail, through the real command line; and what stays behind: nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import EnvironmentLacking, ProgramFailed
from ncu_swizzle.engines import failures, ncu
from ncu_swizzle.engines.failures import MachineState
from ncu_swizzle.reports.comparison import SHARED_PIPE
from tests.support.fake_ncu import GAVE_UP, PATCHED, SCENARIOS, WARNED
from tests.support.places import ROOT
from tests.support.processes import alive
from tests.support.recordings import Recorded
from tests.support.stand_in import ALONE, Fake

# ---------------------------------------------------------------------------------------------- each failure


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_failure_is_explained_with_its_cure(name: str, fake: Fake) -> None:
    scenario = SCENARIOS[name]
    limit = ("--timeout", "2") if scenario.ending == "hang" else ()
    home = {"HOME": "/proc"} if name == "home" else {}
    done = fake.run(name, "profile", "kernel2", *ALONE, *limit, **home)
    assert done.returncode == scenario.exit_code, done.stderr
    message, _, hint = done.stderr.partition("  try: ")
    assert scenario.said in message
    assert scenario.hint in hint
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(fake.work.iterdir()) == [], "nothing half-written is left"
    assert done.stderr.count("trying again in") == (len(ncu.WAITS_S) if name == "busy" else 0)


def test_the_page_of_failures_has_every_one_of_them() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    numbered = {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert numbered == set(range(1, 24))
    known = {scenario.number for scenario in SCENARIOS.values()} | {number for number, _, _ in WARNED.values()} | {18}
    assert known == numbered
    assert {failure.number for failure in failures.FAILURES} <= numbered


@pytest.mark.long
@pytest.mark.parametrize("name", WARNED)
def test_what_ncu_warns_of_is_a_note_on_the_screen_and_in_the_report(name: str, fake: Fake) -> None:
    _, _, said = WARNED[name]
    done = fake.run(name)
    assert done.returncode == 0, done.stderr
    assert said in " ".join(done.stdout.split())
    folder = fake.work / "swizzle-out" / "kernel2"
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    again = _report(fake, folder / "kernel2.json")
    assert said in " ".join(again.stdout.split()), "saved with the profile"


def _report(fake: Fake, saved: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ncu_swizzle", "report", str(saved), "-o", str(fake.work / "again.html")],
        capture_output=True,
        text=True,
        check=True,
        env=fake.environment("none"),
    )


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


@pytest.mark.long
@given(st.text(), st.integers(-64, 255))
def test_whatever_ncu_prints_there_is_an_error_to_raise(log: str, status: int) -> None:
    assert str(ncu.diagnose(log, status))
    ncu.notes(log)


def test_an_unknown_failure_keeps_ncu_s_last_words() -> None:
    error = ncu.diagnose("one\n==ERROR== Something new\n", -11)
    assert type(error) is ProgramFailed
    assert "was killed by signal 11" in str(error)
    assert "==ERROR== Something new" in str(error)


def test_counters_that_become_free_are_waited_for(fake: Fake, tmp_path: Path) -> None:
    done = fake.run("busy-twice", FAKE_NCU_TRIES=str(tmp_path / "tries"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("note: another profiler (often DCGM) holds") == 2
    assert "trying again in 2 s" in done.stderr
    assert "kernel2" in done.stdout


# ---------------------------------------------------------------------------------------------- silent bad data


@pytest.mark.parametrize("name", PATCHED)
def test_figures_that_cannot_be_never_reach_a_verdict(name: str, fake: Fake, recorded: Recorded) -> None:
    share = {"FAKE_NCU_SHARE": repr(recorded("kernel2").number(SHARED_PIPE))}
    done = fake.run(name, **share)
    assert done.returncode == 0, done.stderr
    said = "ncu wrote NaN for" if name == "nan" else "its replay passes are inconsistent"
    assert said in " ".join(done.stdout.split())
    folder = fake.work / "swizzle-out" / "kernel2"
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    found = json.loads((folder / "kernel2.json").read_text(encoding="utf-8"))
    assert (SHARED_PIPE in found["metrics"]) == (name != "nan")
    gate = fake.run(name, "check", str(folder), "--max-excessive", "0", "--config", "none", "--baseline", "none")
    assert gate.returncode == (0 if name == "nan" else 5), gate.stdout
    if name != "nan":
        assert "inconclusive" in gate.stdout


# ---------------------------------------------------------------------------------------------- ended from outside


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def family(pids: Sequence[int]) -> Iterator[int]:
    """Yield the processes and all below them."""
    for pid in pids:
        yield pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        yield from family([int(child) for child in children])


@pytest.mark.parametrize(
    ("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_the_whole_tree_and_leaves_nothing(
    number: signal.Signals, status: int, word: str, fake: Fake, tmp_path: Path
) -> None:
    pids = tmp_path / "tree"
    process = fake.start("hang", FAKE_NCU_TREE=str(pids))
    wait_for(lambda: pids.is_file() and len(pids.read_text(encoding="utf-8").split()) == 2)
    tree = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
    wait_for(lambda: len(list(family(tree[1:]))) == 3)  # the shell and its two
    whole = [*tree[:1], *family(tree[1:])]
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert said == f"{word}: nothing was written\n"
    assert not [pid for pid in whole if alive(pid)]
    assert list(fake.work.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "status", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_after_something_was_written_says_what(
    number: signal.Signals, status: int, word: str, fake: Fake
) -> None:
    """A pipe that nobody reads holds the command up between what it has written and what it is still to write."""
    os.mkfifo(fake.work / "pipe")
    command = fake.command("profile", "kernel2", *ALONE, "--json", "kept.json", "--csv", "-")
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$0" "$@" 1<>pipe', *command],
        stderr=subprocess.PIPE,
        text=True,
        cwd=fake.work,
        env=fake.environment("ok"),
    )
    wait_for((fake.work / "kept.json").is_file)
    time.sleep(1)  # for the table to fill the pipe
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert said == f"{word}: swizzle-out/kernel2, kept.json had been written before\n"
    assert (fake.work / "swizzle-out" / "kernel2" / "run.json").is_file()


# ---------------------------------------------------------------------------------------------- several at once


@pytest.mark.long
def test_runs_at_once_in_one_folder_do_not_collide(fake: Fake) -> None:
    running = [fake.start("ok") for _ in range(4)]
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in running]
    assert [status for _, status in ended] == [0] * 4, ended
    names = sorted(place.name for place in (fake.work / "swizzle-out").iterdir())
    assert names == ["kernel2", "kernel2-2", "kernel2-3", "kernel2-4"]
    for name in names:
        files = {file.name for file in (fake.work / "swizzle-out" / name).iterdir()}
        assert files == {"kernel2.json", "kernel2.ncu-rep", "kernel2.facts.json", "report.html", "run.json"}


@pytest.mark.long
def test_of_runs_at_once_into_one_named_folder_one_wins(fake: Fake) -> None:
    running = [fake.start("ok", "profile", "kernel2", *ALONE, "-o", "out") for _ in range(3)]
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in running]
    assert sorted(status for _, status in ended) == [0, 2, 2], ended
    assert sum("already holds" in said for said, _ in ended) == 2
    assert sorted(place.name for place in fake.work.iterdir()) == ["out"]


@pytest.mark.long
def test_baselines_saved_at_once_lose_no_entry(fake: Fake, recorded: Recorded) -> None:
    names = ("kernel1", "kernel2", "tma-128", "transpose-plain")
    for name in names:
        recorded(name).save(fake.work / f"{name}.json")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ncu_swizzle", "check", f"{name}.json", "--save-baseline"],
            stdout=subprocess.DEVNULL,
            cwd=fake.work,
            env=fake.environment("none"),
        )
        for name in names
    ]
    assert [process.wait(120) for process in running] == [0] * len(names)
    found = json.loads((fake.work / "ncu-swizzle-baseline.json").read_text(encoding="utf-8"))
    assert sorted(entry["kernel"] for entry in found["kernels"]) == sorted(names)


# ---------------------------------------------------------------------------------------------- a full disk


@pytest.mark.long
def test_a_full_disk_is_told(fake: Fake) -> None:
    """A limit on the size of files stands in for a full disk: the same call fails, at the same place."""
    limited = f"ulimit -f 200; exec {' '.join(fake.command('profile', 'kernel2', *ALONE))}"  # KiB: the page is larger
    done = subprocess.run(
        ["bash", "-c", limited.replace("--engine ncu", "--engine recorded")],
        capture_output=True,
        text=True,
        check=False,
        cwd=fake.work,
        env=fake.environment("ok"),
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stderr
    assert "free some disk space" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(fake.work.iterdir()) == []


@pytest.mark.long
def test_a_full_device_for_the_output_is_told(fake: Fake) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ncu_swizzle", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=fake.environment("ok"),
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the output: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "log",
    [
        "==ERROR== " * 200_000,
        "==ERROR== '" + "x" * 2_000_000 + "' does not exist or is not an executable",
        "==ERROR== '" + "x" * 1_500 + "' does not exist or is not an executable",
        "==WARNING== Unable to access the following 3 metrics: " + "m," * 1_000_000,
        "y" * 2_000_000,
    ],
    ids=["marks", "name", "shorter name", "metrics", "line"],
)
def test_a_flood_becomes_a_short_message(log: str) -> None:
    error = ncu.diagnose(log, 1)
    assert len(str(error)) + len(error.hint) < 3_000
    assert all(len(note) <= 301 for note in ncu.notes(log))
