"""CUPTI is found; what is missing is said."""

import sys
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.capture import running
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.capture.running import CaptureLimits


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
    monkeypatch.setattr(running.recorded, "read", lambda *_: recording)
    monkeypatch.setattr(running, "_prepared", lambda *_: ({}, tmp_path))
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
