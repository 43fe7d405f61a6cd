"""ncu's command line, its progress, and what its failures mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle import ncu, paths
from ncu_swizzle.errors import (
    EnvironmentLacking,
    NcuSwizzleError,
    NothingProfiled,
    ProgramFailed,
    UsageError,
)
from tests.fake_ncu import SAID


def test_the_command_line_says_everything_explicitly() -> None:
    options = ncu.Options(extra=("--sampling-interval", "0"))
    assert ncu.argv(Path("/opt/ncu"), "k.ncu-rep", ["python3", "-m", "x"], options) == [
        *("/opt/ncu", "--profile-from-start", "off"),
        *("--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel", "--launch-count", "1"),
        *("--sampling-interval", "0", "--export", "k.ncu-rep", "--force-overwrite", "--", "python3", "-m", "x"),
    ]


def test_the_section_exists_under_its_name() -> None:
    text = (paths.rules() / f"{ncu.SECTION}.section").read_text(encoding="utf-8")
    assert f'Identifier: "{ncu.SECTION}"' in text


MEANINGS: dict[str, tuple[type[NcuSwizzleError], str]] = {
    "permission": (EnvironmentLacking, "only privileged users"),
    "busy": (EnvironmentLacking, "another profiler"),
    "lock": (EnvironmentLacking, "lock file"),
    "driver": (EnvironmentLacking, "does not support the installed driver"),
    "library": (EnvironmentLacking, "profiling libraries"),
    "nothing": (NothingProfiled, "saw no kernel"),
    "metric": (EnvironmentLacking, "lacks a metric"),
    "section": (EnvironmentLacking, "did not find the section"),
    "prepare": (ProgramFailed, "could not profile the kernel"),
    "memory": (ProgramFailed, "out of memory"),
    "mig": (EnvironmentLacking, "MIG"),
    "exit7": (ProgramFailed, "ended with exit code 7"),
    "gone": (ProgramFailed, "ended before ncu saw it launch"),
    "died": (ProgramFailed, "ended before ncu saw it launch"),
    "gpu": (EnvironmentLacking, "does not support the GPU"),
    "option": (UsageError, "did not accept an option"),
    "twice": (UsageError, "did not accept an option"),
    "unwritable": (EnvironmentLacking, "could not write its report"),
    "silent": (ProgramFailed, "ended with exit code 3 and wrote no report"),
}


@pytest.mark.parametrize("scenario", SAID)
def test_every_failure_is_explained_with_a_cure(scenario: str) -> None:
    log, status = SAID[scenario]
    error = ncu.diagnose(log, status)
    expected, said = MEANINGS[scenario]
    assert type(error) is expected
    assert said in str(error)
    assert error.hint


@given(st.text(), st.integers(-64, 255))
def test_whatever_ncu_prints_there_is_an_error_to_raise(log: str, status: int) -> None:
    assert str(ncu.diagnose(log, status))


def test_an_unknown_failure_keeps_ncu_s_last_words() -> None:
    error = ncu.diagnose("one\n==ERROR== Something new\n", -11)
    assert "was ended by signal 11" in str(error)
    assert "==ERROR== Something new" in str(error)


def test_progress_follows_the_replay_passes() -> None:
    seen: list[float] = []
    progress = ncu.Progress(seen.append)
    # As it arrived from a real one.
    for text in (
        '==PROF== Profiling "kernel1" - 0: ',
        "0%",
        ".",
        ".",
        ".",
        ".",
        "50%",
        "...",
        ".",
        "100% - 6 passes\n",
    ):
        progress.feed(text)
    assert seen == [0, 10, 20, 30, 40, 50, 80, 90, 100]


@given(st.text(alphabet='=PROF 0159%.:"k\n', max_size=80))
def test_progress_stays_within_its_bounds(text: str) -> None:
    seen: list[float] = []
    progress = ncu.Progress(seen.append)
    for letter in text:
        progress.feed(letter)
    assert all(0 <= percent <= 100 for percent in seen)


def test_ncu_is_looked_for_on_path_then_in_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(folder: str) -> Path:
        path = tmp_path / folder / "ncu"
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    monkeypatch.setattr(ncu, "INSTALLED", tmp_path / "opt")
    monkeypatch.setattr(ncu, "TOOLKIT", tmp_path / "usr")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    with pytest.raises(EnvironmentLacking, match="was not found") as lacking:
        ncu.find()
    assert "--engine recorded" in lacking.value.hint
    program("opt/2024.3.2")
    newest = program("opt/2025.10.1")
    program("opt/2025.9.0")
    assert ncu.find() == newest
    toolkit = program("cuda/bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert ncu.find() == toolkit
    on_path = program("path")
    assert ncu.find() == on_path
    assert ncu.find(newest) == newest
    with pytest.raises(EnvironmentLacking, match="is no program"):
        ncu.find(tmp_path)
