"""Where the points of a command run, as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import option

GPUS = "gpus"
MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """The workers to use; none given: this process alone."""

    group: ClassVar[str] = "Workers"

    workers: str = option("", "Run points in parallel: in N processes, or one per GPU.", "N|gpus", common=True)
    scheduler: str = option("", "Run points on the Dask cluster at this address.", "ADDRESS")
    scheduler_file: Path | None = option(None, "The same; dask scheduler wrote the address there.", "FILE")
    gpu: str = option("", "Use only the GPUs whose name contains this, such as H200.", "NAME")

    @property
    def given(self) -> bool:
        """Whether there are to be workers at all."""
        return bool(self.workers or self.scheduler or self.scheduler_file)

    @property
    def own(self) -> bool:
        """Whether the workers are this command's own, on this machine."""
        return bool(self.workers)

    @property
    def count(self) -> int:
        """The number of processes; 0 for one per GPU, and for those of a cluster."""
        return int(self.workers) if self.workers.isdecimal() else 0

    def refuse_nonsense(self) -> None:
        """Raise UsageError for options that contradict each other, and for an impossible number of workers."""
        named = [self.workers, self.scheduler, str(self.scheduler_file or "")]
        if sum(map(bool, named)) > 1:
            raise UsageError("--workers, --scheduler and --scheduler-file exclude each other", "--workers gpus")
        if self.gpu and not self.given:
            raise UsageError("--gpu selects workers, and there are none", "--workers gpus")
        right = self.workers.isdecimal() and len(self.workers) < 5 and 1 <= int(self.workers) <= MOST_WORKERS
        if self.workers and self.workers != GPUS and not right:
            raise UsageError(f"--workers {self.workers}: neither gpus nor 1 to {MOST_WORKERS} processes", "--workers 2")


ALONE = FleetOptions()
