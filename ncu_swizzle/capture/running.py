"""Run a program with the library that records its launches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import child
from ncu_swizzle.bounds import quotation
from ncu_swizzle.capture import cupti, library, recorded
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.cubin.kernel_filter import KernelFilter
from ncu_swizzle.errors import EnvironmentLacking, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.unfinished import folders

WITHOUT = "captured without --memory"
SOURCE = "injection.c"
MIB = 1 << 20


@dataclass(frozen=True)
class CaptureLimits:
    """Which launches are captured, and how much memory: bytes of buffers in all, 0 for none."""

    kernel_name: str = ""
    count: int = 32
    memory_bytes: int = 0
    timeout_s: float = 600


def refuse_unusable(argv: Sequence[str], folder: Path) -> None:
    """Raise UsageError unless this is a program that can be started."""
    if not argv:
        raise UsageError("no program follows --", "ncu-swizzle capture -- ./app --size 4096")
    first = argv[0]
    executable = folder / first if "/" in first else shutil.which(first)
    if executable is None or not shutil.which(executable):
        raise UsageError(f"{first} is not an executable program", "ls -l shows its permissions")


def record(argv: Sequence[str], folder: Path, limits: CaptureLimits, scratch: Path, cached: bool = True) -> Recording:
    """Run the program once on this machine's GPU and return its launches; their bytes are in the scratch folder.

    Raises EnvironmentLacking without CUPTI or a C compiler, ProgramFailed if the program fails, and NothingProfiled.
    """
    environment, into = _prepared(limits, scratch, cached)
    outcome = child.run(argv, limits.timeout_s, folder, environment)
    recording = recorded.read(into, limits.count)
    if outcome.status:
        raise ProgramFailed(
            f"{Path(argv[0]).name} exited with status {outcome.status}; its last lines:\n"
            f"{quotation.last_lines(outcome.log)}",
            "run it by itself first",
        )
    if not recording.launches:
        raise _nothing(recording, limits)
    return recording


@contextmanager
def injected(limits: CaptureLimits) -> Iterator[tuple[dict[str, str], Path]]:
    """Yield the environment that captures a program, and the folder that it is recorded in; for benchmarks."""
    with folders.scratch() as scratch:
        yield _prepared(limits, scratch, cached=True)


def _prepared(limits: CaptureLimits, scratch: Path, cached: bool) -> tuple[dict[str, str], Path]:
    into = scratch / "recording"
    into.mkdir(0o700)
    injection = library.build(SOURCE, scratch, "injection.so", cached=cached)
    named = {"NCU_SWIZZLE_CAPTURE_CUPTI": str(cupti.find()), "CUDA_INJECTION64_PATH": str(injection)}
    return {**os.environ, **settings(limits, into), **named}, into


def settings(limits: CaptureLimits, into: Path) -> Mapping[str, str]:
    """Return the limits as the C libraries read them from the environment; raise UsageError."""
    kernels = KernelFilter(limits.kernel_name).checked()
    return {
        "NCU_SWIZZLE_CAPTURE": str(into),
        "NCU_SWIZZLE_CAPTURE_COUNT": str(limits.count),
        "NCU_SWIZZLE_CAPTURE_MEMORY": str(limits.memory_bytes),
        "NCU_SWIZZLE_CAPTURE_NAME": "" if kernels.expression else kernels.text,
        "NCU_SWIZZLE_CAPTURE_PATTERN": kernels.expression,
    }


def _nothing(recording: Recording, limits: CaptureLimits) -> NothingProfiled | EnvironmentLacking:
    if recording.problems:
        return EnvironmentLacking(
            f"the program's launches cannot be followed: {recording.problems[0]}",
            f"name another libcupti: {cupti.VARIABLE}=/…/libcupti.so.13",
        )
    if not recording.followed:
        return NothingProfiled("the program did not use a GPU", "run it by itself first: does it find the GPU?")
    if recording.notes and not (limits.kernel_name and recording.seen):
        return NothingProfiled(f"nothing was captured: {recording.notes[0]}", "see docs/launches.md, what is captured")
    only = f" with the name {limits.kernel_name}" if limits.kernel_name else ""
    return NothingProfiled(f"the program launched no kernel{only}", "leave out -k to capture all of its kernels")
