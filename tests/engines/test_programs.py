"""ncu's command line for a program, its progress, and the program's own words."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.commands.run_program import ProgramOutput
from ncu_swizzle.engines import ncu
from ncu_swizzle.engines import ncu as progress_
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.engines.settings import Done, Launches


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


def test_progress_counts_launches() -> None:
    seen: list[Done] = []
    progress = progress_.Progress(seen.append, 4)
    progress.feed('==PROF== Profiling "a" - 0: 0%....50%....100% - 6 passes\n==PROF== Profiling "b: c" - 1: 0%....50%')
    assert seen == [Done(0.375)]


def test_the_program_s_words_are_told_from_ncu_s(tmp_path: Path) -> None:
    log = "==PROF== Connected to process 1 (/x)\none\n==WARNING== Note\ntwo == three\n==PROF== Disconnected"
    for size in (1, 7, len(log)):
        output = ProgramOutput(tmp_path / "program.log")
        for start in range(0, len(log), size):
            output.feed(log[start : start + size])
        output.close()
        assert (tmp_path / "program.log").read_text(encoding="utf-8") == "one\ntwo == three\n"
        assert output.last_lines == "one\ntwo == three"


def test_a_flood_of_output_is_saved_whole_and_quoted_in_a_few_lines(tmp_path: Path) -> None:
    output = ProgramOutput(tmp_path / "program.log")
    for _ in range(500):
        output.feed("x" * 4096)
    output.feed("\nlast\n==PROF== Available\nAvailable Kernels:\n" + "".join(f"  {n}. k{n}\n" for n in range(5000)))
    output.close()
    assert (tmp_path / "program.log").read_text(encoding="utf-8").startswith("x" * (500 * 4096) + "\nlast\n")
    assert output.kernels[:2] == ["k0", "k1"]
    assert len(output.kernels) <= 5000
    assert len(output.last_lines) < 2000


def test_progress_is_read_after_any_output_without_a_newline() -> None:
    seen: list[Done] = []
    progress = progress_.Progress(seen.append)
    for text in ("x" * 4096, "==PROF== Profiling " * 200, "1" * 4096, ": 5" * 1300, "%." * 2000):
        for _ in range(500):  # megabytes: what is kept of them is bounded, or this never ends
            progress.feed(text)
    progress.feed('\n==PROF== Profiling "k" - 0: 0%....50%')
    assert seen[-1] == Done(0.5)
