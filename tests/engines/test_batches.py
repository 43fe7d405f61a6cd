"""Several launches in one process: each has its own facts, or its own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, ProgramFailed
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.measured import LaunchJob, run_batch
from ncu_swizzle.kernels import catalog
from tests.support.marks import without_gpu


@without_gpu
def test_every_job_says_why_it_failed(tmp_path: Path) -> None:
    family, kernel = catalog.shipped().named("transpose-plain")
    jobs = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        jobs.append(LaunchJob(family=family, kernels=(kernel,), problem={"n": 64}, folder=folder))
    outcomes, _ = run_batch(jobs, tmp_path, 60, "compare", ["--repeats", "3"])
    assert [type(outcome) for outcome in outcomes] == [EnvironmentLacking] * 2
    assert len(list(tmp_path.rglob("compare.facts.json"))) == 2


@pytest.mark.parametrize(
    ("log", "count"),
    [("ERROR SUMMARY: 0 errors", 0), ("RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)", 3)],
)
def test_the_sanitizers_summary_is_read(log: str, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolchain = type("Tools", (), {"find": lambda self, name: name, "timeout_s": 1.0})()
    monkeypatch.setattr(measured, "run_batch", lambda *_, **__: ([{}], log))
    assert measured.found_by("memcheck", [], tmp_path, toolchain) == count
    monkeypatch.setattr(measured, "run_batch", lambda *_, **__: ([{}], ""))
    with pytest.raises(ProgramFailed, match="without a summary"):
        measured.found_by("memcheck", [], tmp_path, toolchain)
