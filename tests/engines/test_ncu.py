"""ncu: its command line, its progress, what it prints, and several launches in one process."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st

from bench.corpus import hostile
from ncu_swizzle.base import bounds, paths
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.commands.run_program import listed_kernels, own_lines
from ncu_swizzle.engines import machine, measured, ncu
from ncu_swizzle.engines import ncu as progress_
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.engines.failures import MachineState
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.measured import LaunchJob, run_batch
from ncu_swizzle.engines.settings import Done, Launches
from ncu_swizzle.kernels import catalog
from tests.support.marks import executable, without_gpu
from tests.support.properties import chances, examples, holds


def test_the_command_line_says_everything_explicitly() -> None:
    options = options_.Options(extra=("--sampling-interval", "0"))
    assert ncu.argv(Path("/opt/ncu"), "k.ncu-rep", ["python3", "-m", "x"], options) == [
        *("/opt/ncu", "--target-processes", "application-only", "--profile-from-start", "off"),
        *("--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel", "--launch-count", "1"),
        *("--sampling-interval", "0", "--export", "k.ncu-rep", "--force-overwrite", "--", "python3", "-m", "x"),
    ]


def test_progress_follows_the_replay_passes_and_counts_launches() -> None:
    seen: list[Done] = []
    progress = progress_.Progress(seen.append)
    # As it arrived from a real one.
    for text in ('==PROF== Profiling "kernel1" - 0: ', "0%", *"....", "50%", "...", ".", "100% - 6 passes\n"):
        progress.feed(text)
    assert [done.fraction for done in seen] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 1]
    progress = progress_.Progress(seen.append, 4)
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
    line = ncu.argv(Path("ncu"), "r.ncu-rep", ["./app", "-x"], options_.Options(launch_count=32, launches=launches))
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
    progress = progress_.Progress(seen.append)
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
        progress = progress_.Progress(seen.append, launches)
        rest = printed(chance)
        while rest:
            size = chance.randrange(1, 4000)
            progress.feed(rest[:size])
            rest = rest[size:]
        assert all(0 <= done.fraction <= 1 for done in seen)

    holds(examples // 3, check, chances, st.integers(1, 32))
