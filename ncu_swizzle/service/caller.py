"""Who calls: what it may read and run, and where progress goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog.kernel_options import CatalogOptions
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.service.folders import Folders
from ncu_swizzle.service.launch import LaunchGiven


@dataclass(frozen=True)
class Caller:
    """A client of the server."""

    folders: Folders
    progress: Progress = silent
    timeout_s: float = 600

    def request(self, launch: LaunchGiven, engine: str = "auto") -> Request:
        """Return the request for profiles of a kernel. Raises Untrusted for an engine that runs what must not run."""
        return Request(self.folders.engine(engine), dict(launch.problem), timeout_s=self.timeout_s)

    def sources(self, entry: str, launch: LaunchGiven) -> CatalogOptions:
        """Return where kernels are described, after a look at what the kernel would read. Raises Untrusted."""
        return CatalogOptions(config=self.folders.kernel(entry, launch))

    def entries(self, entries: Sequence[str], launch: LaunchGiven) -> CatalogOptions:
        """Return where the kernels among entries are described; all of their files must be inside."""
        configs = [self.folders.kernel(entry, launch) for entry in entries]
        return CatalogOptions(config=next(iter(configs), ""))


def shown(path: str | Path) -> str:
    """Return a path as a client names it: relative to the current folder if it lies below."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_absolute() and whole.is_relative_to(Path.cwd()) else str(path)


def without_empty(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its empty texts; None stays, it means unknown."""
    return {name: value for name, value in row.items() if value not in ("", (), [])}
