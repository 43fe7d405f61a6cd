"""Launches under compute-sanitizer, which comes with the CUDA toolkit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.engines.measured import LaunchJob, run_batch
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed

SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")


def found_by(tool: str, jobs: Sequence[LaunchJob], folder: Path, toolchain: Toolchain) -> int:
    """Return how many errors or hazards a tool finds in one launch of each job's kernels, all in one process.

    Raises EnvironmentLacking without compute-sanitizer, ProgramFailed if it does not say, and a job's error.
    """
    under = [str(toolchain.find(SANITIZER)), "--tool", tool, "--target-processes", "all"]
    outcomes, log = run_batch(jobs, folder, toolchain.timeout_s, "check", under=under)
    for outcome in outcomes:
        if isinstance(outcome, NcuSwizzleError):
            raise outcome
    summary = _SUMMARY.search(log)
    if summary is None:
        raise ProgramFailed(f"{SANITIZER} --tool {tool} ended without a summary", f"{SANITIZER} --version")
    return int(summary[1] or summary[2] or 0)
