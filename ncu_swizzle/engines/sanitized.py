"""A launch under compute-sanitizer, which comes with the CUDA toolkit."""

from __future__ import annotations

import re
from pathlib import Path

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.measured import LOG, run_together
from ncu_swizzle.errors import ProgramFailed

SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")


def found_by(tool: str, target: Target, folder: Path, toolchain: Toolchain) -> int:
    """Return how many errors or hazards a tool finds in one launch.

    Raises EnvironmentLacking without compute-sanitizer, ProgramFailed if it does not say.
    """
    under = [str(toolchain.find(SANITIZER)), "--tool", tool, "--target-processes", "all"]
    facts = run_together(
        target.family, [target.kernel], target.problem, folder, toolchain.timeout_s, "check", under=under
    )
    summary = _SUMMARY.search(facts[LOG])
    if summary is None:
        raise ProgramFailed(f"{SANITIZER} --tool {tool} ended without a summary", f"{SANITIZER} --version")
    return int(summary[1] or summary[2] or 0)
