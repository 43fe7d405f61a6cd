"""CUPTI is found; the injected library is driven by a stand-in that calls it as the driver and CUPTI do."""

import contextlib
import json
import shlex
import sys
from pathlib import Path

import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import EnvironmentLacking, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.capture import running
from ncu_swizzle.capture.launches import WITHOUT_MEMORY, CapturedLaunch
from ncu_swizzle.capture.running import CaptureLimits, Recording
from tests.support import fake_ncu, process
from tests.support.marks import NEEDS_ALL, needs_cc


def test_cupti_is_found_in_a_toolkit_newest_first_or_said_to_be_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "extras" / "CUPTI" / "lib64"
    folder.mkdir(parents=True)
    for name in ("libcupti.so", "libcupti.so.12", "libcupti.so.13"):
        (folder / name).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert running.find() == folder / "libcupti.so.13"
    named = tmp_path / "mine.so"
    monkeypatch.setenv(running.VARIABLE, str(named))
    with pytest.raises(EnvironmentLacking, match="which is not a file"):
        running.find()
    named.touch()
    assert running.find() == named
    monkeypatch.setattr(running, "_folders", lambda: iter([tmp_path]))
    monkeypatch.delenv(running.VARIABLE)
    with pytest.raises(EnvironmentLacking, match="CUPTI, which is part of the CUDA toolkit"):
        running.find()


@pytest.mark.parametrize(
    ("recording", "kind", "says"),
    [
        (Recording(), NothingProfiled, "did not use a GPU"),
        (Recording(problems=["CUPTI refused"]), EnvironmentLacking, "cannot be followed: CUPTI refused"),
        (Recording(followed=1), NothingProfiled, "launched no kernel with the name turn"),
        (Recording(followed=1, notes=["A launch was left out."]), NothingProfiled, "A launch was left out"),
    ],
)
def test_why_nothing_was_captured(
    recording: Recording, kind: type[Exception], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "read", lambda *_: recording)
    monkeypatch.setattr(running, "_prepared", lambda *_: contextlib.nullcontext(({}, tmp_path)))
    with pytest.raises(kind, match=says):
        running.record((sys.executable, "-c", ""), tmp_path, CaptureLimits(kernel_name="turn"), tmp_path)
    with pytest.raises(ProgramFailed, match="exited with status 3"):
        running.record((sys.executable, "-c", "raise SystemExit(3)"), tmp_path, CaptureLimits(), tmp_path)


def test_a_pattern_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a valid regular expression"):
        running.settings(CaptureLimits(kernel_name="regex:("), tmp_path)
    words = running.settings(CaptureLimits(kernel_name="regex:^a", count=3, memory_bytes=7), tmp_path)
    assert (words["NCU_SWIZZLE_CAPTURE_PATTERN"], words["NCU_SWIZZLE_CAPTURE_NAME"]) == ("^a", "")
    assert (words["NCU_SWIZZLE_CAPTURE_COUNT"], words["NCU_SWIZZLE_CAPTURE_MEMORY"]) == ("3", "7")


def recorded(program: Path, tmp_path: Path, *more: str, **limits: object) -> Recording:
    scratch = tmp_path / "scratch"
    scratch.mkdir(0o700)
    return running.record(("./app", "driver.cubin", *more), program, CaptureLimits(**limits), scratch)  # type: ignore[arg-type]


def odd(launch: CapturedLaunch) -> int:
    """Return the second parameter, which tells the launches apart."""
    return launch.parameters[1].bytes[0]


@needs_cc
def test_every_form_of_a_launch(fake_program: Path, cubin: bytes, tmp_path: Path) -> None:
    found = recorded(fake_program, tmp_path, memory_bytes=1 << 20)
    shapes = [(launch.grid[0], launch.block[0], launch.shared, launch.cluster) for launch in found.launches[:3]]
    assert shapes == [(4, 32, 4356, ()), (4, 32, 4356, ()), (8, 64, 0, (2, 1, 1))]
    assert [odd(launch) for launch in found.launches[:3]] == [1, 2, 1], "one by one, packed, in a configuration"
    assert {launch.cubin for launch in found.launches} == {cache.sha256(cubin)}
    assert {launch.kernel for launch in found.launches} == {"columns"}
    assert (found.machine.gpu, found.machine.compute_capability) == ('Fake "GPU"', "9.0")


@needs_cc
def test_graphs_are_recorded_when_they_are_launched(fake_program: Path, tmp_path: Path) -> None:
    found = recorded(fake_program, tmp_path, memory_bytes=1 << 20)
    nodes = found.launches[3:]
    assert [(launch.grid[0], odd(launch)) for launch in nodes] == [(3, 1), (1, 1), (3, 1), (1, 3)]
    assert all(launch.graph for launch in nodes)
    assert [all(contents.sha256 for contents in launch.contents) for launch in nodes] == [True, False] * 2
    assert nodes[1].contents[0].why == "earlier nodes of its CUDA graph may write it"
    assert found.notes == [
        "a CUDA graph was launched, of which is not known what it holds.",
        "a CUDA graph was launched, of which is not known how its nodes were changed.",
        "A launch was refused by CUDA: columns (CUDA_ERROR_INVALID_VALUE).",
    ]
    assert (found.counted.seen, len(found.launches)) == (8, 7)


@needs_cc
@pytest.mark.parametrize(("count", "kept"), [(300, 208), (100, 100)])
def test_closed_descriptors_forks_threads_and_exec_lose_no_launch(
    count: int, kept: int, fake_program: Path, tmp_path: Path
) -> None:
    found = recorded(fake_program, tmp_path, "misused", count=count)
    assert len(found.launches) == kept
    assert (found.counted.seen, found.counted.claimed, found.counted.refused) == (209, kept, 1)
    assert found.notes[-1] == "A process ended by _exit, exec or a signal: more may have been launched."
    assert any("the program launched 108 more" in note for note in found.notes) == (kept < 208)
    assert (fake_program / "own.txt").read_bytes() == b""


@needs_cc
def test_memory_is_that_before_each_launch(fake_program: Path, tmp_path: Path) -> None:
    found = recorded(fake_program, tmp_path, memory_bytes=1 << 20)
    first, second = found.launches[:2]
    assert [buffer.bytes for buffer in first.buffers] == [64, 64]
    assert found.memory[first.buffers[0].contents.sha256].read_bytes() == b"\5" * 64
    assert found.memory[second.buffers[0].contents.sha256].read_bytes() == b"\6" + b"\5" * 63
    pointer = int.from_bytes(first.parameters[0].bytes, "little")
    assert pointer == first.buffers[0].address + 8, "a pointer into the middle stands for the allocation"


@needs_cc
@pytest.mark.parametrize(("limit", "kept", "why"), [(100, 1, "over the limit on memory"), (0, 0, WITHOUT_MEMORY)])
def test_the_limit_on_memory_holds(limit: int, kept: int, why: str, fake_program: Path, tmp_path: Path) -> None:
    found = recorded(fake_program, tmp_path, memory_bytes=limit)
    contents = [contents for launch in found.launches for contents in launch.contents]
    assert sum(bool(one.sha256) for one in contents) == len(found.memory) == kept
    assert why in {one.why for one in contents if not one.sha256}


@needs_cc
def test_filters(fake_program: Path, tmp_path: Path) -> None:
    for number, (limits, count) in enumerate(
        [({"count": 2}, 2), ({"kernel_name": "columns"}, 7), ({"kernel_name": "regex:^col.*s$"}, 7)]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert len(recorded(fake_program, folder, **limits).launches) == count
    for name, error, said in (
        ("rows", NothingProfiled, "no kernel with the name rows"),
        ("regex:(?:a|b)", EnvironmentLacking, "not a POSIX extended regular expression"),  # only Python knows it
    ):
        (tmp_path / name).mkdir()
        with pytest.raises(error, match=said):
            recorded(fake_program, tmp_path / name, kernel_name=name)


@needs_cc
@NEEDS_ALL
def test_where_counters_are_forbidden_a_line_is_offered_that_works_as_typed(
    fake_program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for ncu says what the real one said of a driver that restricts its counters."""
    monkeypatch.delenv("LD_LIBRARY_PATH")  # the stand-in for the driver is the program's alone
    stand_in = fake_ncu.install(fake_program / "stand-in" / "ncu")
    own = ("--engine", "ncu", "--ncu", str(stand_in), "-k", "columns", "-s", "1", "-c", "2")
    program = ("--", "./app", "driver.cubin")
    refused = process.command(
        "profile", *own, *program, folder=fake_program, env=process.environment(FAKE_NCU="permission")
    )
    assert refused.returncode == 3
    line, why = refused.stderr.partition("  try: ")[2].split("\n", 1)
    capture, replay = line.split(" && ")
    assert capture == "ncu-swizzle capture -k columns -c 3 -- ./app driver.cubin"
    assert "Exact counts by replay, without counters" in why
    assert "--cap-add=SYS_ADMIN" in why
    with_driver = process.environment(LD_LIBRARY_PATH=str(fake_program))
    captured = process.command(*shlex.split(capture)[1:], folder=fake_program, env=with_driver)
    assert captured.returncode == 0, captured.stderr
    replayed = process.command(*shlex.split(replay)[1:], "--json", "-", folder=fake_program)
    assert replayed.returncode == 0, replayed.stderr
    result = json.loads(replayed.stdout)
    (launch,) = result["profiles"]  # the stand-in's third launch has less shared memory than its kernel accesses
    assert launch["launch"]["grid"] == [4, 1, 1]
    assert [(access["wavefronts"], access["ideal"]) for access in result["accesses"]] == [(128, 128)] * 2
