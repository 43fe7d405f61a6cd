"""Several kernels, each into its own folder: whatever ends the command, what is finished is there, and it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import Interrupted, NotWritable, ProgramFailed, TimeLimit
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.run_kernel import KernelsJob, Outcomes
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.reports.options import Destination
from tests.support.marks import NEEDS_ALL

KERNELS = ("transpose-xor", "vectors-4-swizzle", "tma-32")


def profiled(place: Path | None = None, kernels: tuple[str, ...] = KERNELS, **how: Any) -> Outcomes:
    lineups = [run_kernel.lineup_of(word, KernelDescription()) for word in kernels]
    request = Request(engine="recorded", jobs=1, **how)
    outcomes = KernelsJob(lineups, request, Destination(place), apart=True).profile()
    assert isinstance(outcomes, list)
    return outcomes


@contextmanager
def profiling(patch: pytest.MonkeyPatch, *ends: BaseException | None) -> Iterator[list[str]]:
    """Let the first kernels end so, and the others as they do; yield the names of those that are begun."""
    begun: list[str] = []
    with patch.context() as context:
        profile = run_kernel.profile

        def of_one(lineup: Any, *more: Any) -> Any:
            begun.append(lineup.target.name)
            if len(begun) <= len(ends) and (end := ends[len(begun) - 1]) is not None:
                raise end
            return profile(lineup, *more)

        context.setattr(run_kernel, "profile", of_one)
        yield begun


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("place", [None, Path("out")])
def test_the_same_command_goes_on_where_it_was_interrupted(place: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    root = place or Path("swizzle-out")
    with profiling(monkeypatch, None, KeyboardInterrupt()), pytest.raises(Interrupted) as caught:
        profiled(place)
    assert f"1 of 3 kernels are saved: {root}/transpose-xor" in str(caught.value)
    with profiling(monkeypatch, None, SystemExit(9)) as begun, pytest.raises(SystemExit):
        profiled(place)  # which leaves what SIGKILL leaves
    assert begun == list(KERNELS[1:])
    with profiling(monkeypatch) as begun:
        outcomes = profiled(place)
    assert begun == ["tma-32"]
    assert [(name, outcome.value.folder) for name, outcome in outcomes] == [(name, root / name) for name in KERNELS]
    whole = profiled(Path("whole"))
    assert content(root) == content(Path("whole")), "as if nothing had ended it"
    for (_, one), (_, other) in zip(outcomes, whole, strict=True):
        mine, fresh = one.value, other.value
        assert mine.comparisons[0].profiles == fresh.comparisons[0].profiles
        assert (mine.notes, mine.engine, mine.reason) == (fresh.notes, fresh.engine, fresh.reason)


def test_what_is_finished_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    profiled()
    with profiling(monkeypatch) as begun:
        outcomes = profiled()
    assert begun == list(KERNELS)
    assert [outcome.value.folder.name for _, outcome in outcomes] == [f"{name}-2" for name in KERNELS]
    profiled(Path("out"))
    with pytest.raises(NotWritable, match="already holds"):
        profiled(Path("out"))


def test_another_command_does_not_go_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with profiling(monkeypatch, None, KeyboardInterrupt()), pytest.raises(Interrupted):
        profiled(Path("out"))
    with pytest.raises(NotWritable, match="already holds"):
        profiled(Path("out"), timeout_s=77.0)


def test_of_a_command_with_a_failure_only_that_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with profiling(monkeypatch, None, TimeLimit("late", "raise it: --budget 60")):
        outcomes = profiled()
    with pytest.raises(ProgramFailed, match=r"1 of 3 kernels failed; vectors-4-swizzle: late"):
        run_kernel.refuse_failed(outcomes)
    with profiling(monkeypatch) as begun:
        run_kernel.refuse_failed(profiled())
    assert begun == ["vectors-4-swizzle"]


@NEEDS_ALL
def test_what_lint_had_emulated_is_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernels, begun, end = ["transpose-plain", "transpose-padded", "transpose-xor"], list[str](), 3
    emulated = emulation._emulated

    def interrupted(binary: Any, *more: Any) -> Any:
        begun.append(binary.symbol)
        if len(begun) == end:
            raise KeyboardInterrupt
        return emulated(binary, *more)

    def linted() -> list[KernelLint]:
        return list(linting.lint_kernels(kernels, KernelDescription(), Request(jobs=1)))

    monkeypatch.setattr(emulation, "_emulated", interrupted)
    with pytest.raises(KeyboardInterrupt):
        linted()
    assert len(linted()) == 3
    *finished, interrupted_one, again = begun
    assert again == interrupted_one, "the one that was interrupted, and no other"
    assert again not in finished
