"""What a test run leaves behind: running processes, files in the checkout or for temporary use. Any fails the run."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path

import pytest

from tests.support.processes import command_line, marked

MARK = "NCU_SWIZZLE_TEST_RUN"  # in the environment of all that the tests start, however indirectly
# Caches and environments, which outlive a run on purpose.
KEPT = {".git", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "__pycache__"}
# What commands write to by default. A file there may be of an earlier run: what counts is whether it is as it was.
WRITTEN_TO = "swizzle-out"
# What a run without xdist's workers (-n0) has started for itself: they end as soon as it does.
OWN = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")
# What a program keeps for its next run or a debugger (NVIDIA's, torch, CuTe, cuda.core), and what a run without workers
# removes as it ends.
TEMPORARY = (
    "nsight-compute-lock", "nvidia", "NVIDIA-treetracker-*", "torchinductor_*", "*/cutlass_python_cache",
    "nvrtc_*.cu", "pymp-*", "adversary-shim-*",
)  # fmt: skip
LOOKS, SECONDS_BETWEEN = 150, 0.2  # how often to look before a process that is ending counts as left behind


class Leftovers:
    """A plugin of the process that starts the run, not of its workers.

    The run and all that it starts have a TMPDIR of their own. Pytest's folders stay elsewhere: it keeps three runs'.
    """

    def __init__(self, checkout: Path) -> None:
        self.checkout, self.run = checkout, secrets.token_hex(8)
        self.before, self.left = set(self._files()), list[str]()
        os.environ[MARK] = self.run
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self.temporary = Path(tempfile.mkdtemp(prefix="ncu-swizzle-tests-"))
        # After multiprocessing has removed its socket's folder, whose priority is -100.
        Finalize(None, shutil.rmtree, (self.temporary, True), exitpriority=-101)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.temporary)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if it left something; xdist's workers have ended by now."""
        self.left = [f"still running: {line}" for line in self._processes()]
        self.left += [f"left in the checkout: {file}" for file in sorted(set(self._files()) - self.before)]
        kept = {file.relative_to(self.temporary).parts[0] for name in TEMPORARY for file in self.temporary.glob(name)}
        names = {path.name for path in self.temporary.iterdir()} - kept
        self.left += [f"left in TMPDIR: {name}" for name in sorted(names)]
        if self.left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Say what was left after everything else, so that the last line tells why a run whose tests passed failed."""
        for line in self.left:
            print(line, flush=True)
        if self.left:
            print(f"The run fails: it left {len(self.left)} processes or files behind.", flush=True)

    def _processes(self) -> list[str]:
        for look in range(LOOKS):
            others = [
                process
                for process in marked(f"{MARK}={self.run}")
                if process != os.getpid() and not any(name in command_line(process) for name in OWN)
            ]
            if not others:
                return []
            if look < LOOKS - 1:
                time.sleep(SECONDS_BETWEEN)
        return [f"{process} {line}" for process in others if (line := command_line(process))]

    def _files(self) -> Iterator[str]:
        """Yield the checkout's files; those where commands write with the time at which they were written."""
        for folder, folders, files in os.walk(self.checkout):
            folders[:] = [name for name in folders if name not in KEPT]
            within = "" if folder == str(self.checkout) else f"{Path(folder).relative_to(self.checkout)}/"
            outputs = within.startswith(f"{WRITTEN_TO}/")
            for name in files:
                written = f", written at {Path(folder, name).stat().st_mtime_ns} ns" if outputs else ""
                yield f"{within}{name}{written}"
