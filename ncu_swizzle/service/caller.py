"""Who calls: what it may read and run, and where progress goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog import kernel_files
from ncu_swizzle.catalog.kernel_options import CatalogOptions
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.errors import UsageError
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
        """Return where the kernels among entries are described; all of their files must be inside.

        Raises UsageError for kernels of different projects: one of them describes all kernels of a call.
        """
        configs = {entry: self.folders.kernel(entry, launch) for entry in entries}
        described = {
            config: entry
            for entry, config in reversed(configs.items())
            if kernel_files.is_kernel_file(entry) or not self.folders.is_path(entry)
        }
        if len(described) > 1:
            second, first, *_ = described.values()
            raise UsageError(
                f"{first} and {second} belong to different projects", "make one call for the entries of each project"
            )
        return CatalogOptions(config=next(iter(described or configs.values()), ""))

    def again(self, entry: str, launch: LaunchGiven, name: str = "") -> dict[str, Any]:
        """Return the launch for a call about the same kernel, or the one of this name where several are described."""
        given = launch.as_json()
        if name and kernel_files.is_kernel_file(entry) and not kernel_files.split(entry)[1]:
            given["kernel"] = launch.kernel or name
        return {"launch": given} if given else {}


def shown(path: str | Path) -> str:
    """Return a path as a client names it: relative to the current folder if it lies below."""
    whole = Path(path)
    return str(whole.relative_to(Path.cwd())) if whole.is_absolute() and whole.is_relative_to(Path.cwd()) else str(path)


def without_empty(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its empty texts; None stays, it means unknown."""
    return {name: value for name, value in row.items() if value not in ("", (), [])}
