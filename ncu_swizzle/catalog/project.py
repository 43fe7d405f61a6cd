"""A project's settings: ``ncu-swizzle.toml``, or ``[tool.ncu-swizzle]`` in ``pyproject.toml``.

check                 the gate's limits, see `gate.config`
catalog = ["kernels"] folders of families, relative to the file
[kernel.NAME]         a kernel in a .cu file, see `project_kernels`
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog.checkout import Checkout
from ncu_swizzle.errors import BadFile, Untrusted, UsageError, did_you_mean
from ncu_swizzle.files import read_toml

OWN, PROJECT = "ncu-swizzle.toml", "pyproject.toml"
KEYS = ("check", "catalog", "kernel")
NONE = "none"
HELP = "docs/ci.md describes [check]; docs/describing-kernels.md describes catalog and [kernel.NAME]"


@dataclass(frozen=True)
class Project:
    """A settings file: its content by key, and the prefix of the keys: "" or ``tool.ncu-swizzle.``.

    `trusted` is whether the user passed --trust.
    """

    file: Path
    content: Mapping[str, Any] = field(default_factory=dict)
    outer: str = ""
    trusted: bool = False

    @cached_property
    def checkout(self) -> Checkout:
        """What the file may ask for."""
        return Checkout(self.file.parent, self.trusted)

    def table(self, key: str) -> Mapping[str, Any]:
        """Return the table under a key, empty if there is none; raise UsageError if it is not a table."""
        return table(self.content.get(key, {}), self.file, f"[{self.outer}{key}]")

    @property
    def catalog(self) -> tuple[Path, ...]:
        """The folders of families. Raises UsageError, Untrusted for one outside the checkout."""
        folders = self.content.get("catalog", [])
        if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
            raise UsageError(
                f"{self.file}: catalog is {folders!r}",
                'give a list of folders, relative to the file: catalog = ["kernels"]',
            )
        return tuple(self.checkout.path(folder, f"{self.file.name} {self.outer}catalog") for folder in folders)


def find(start: Path, trusted: bool = False, within: Callable[[Path], bool] = lambda folder: True) -> Project | None:
    """Return the nearest settings file, in `start` or a folder above it, as far up as `within` allows.

    Raises Untrusted if it belongs to another user than `start` does: anyone can leave a file in /tmp.
    """
    for folder in itertools.takewhile(within, (start, *start.parents)):
        for name in (OWN, PROJECT):
            if (folder / name).is_file() and (project := _read(folder / name, name == OWN, trusted)):
                _refuse_foreign(project.file, start)
                return project
    return None


def _refuse_foreign(file: Path, start: Path) -> None:
    if file.stat().st_uid not in (0, os.geteuid(), start.stat().st_uid):
        raise Untrusted(
            f"{file} belongs to another user, and was only found on the way up from {start}",
            f"--config {file}, or --config none",
        )


def read(file: Path, trusted: bool = False) -> Project:
    """Return the settings in a file; raise BadFile if it has none."""
    project = _read(file, file.name != PROJECT, trusted)
    if project is None:
        raise BadFile(f"{file} has no [tool.ncu-swizzle]", HELP)
    return project


def project_file(name: str, start: Path, trusted: bool = False) -> Project | None:
    """Return the settings file that --config names, None for "none", or the nearest one by default."""
    if name == NONE:
        return None
    return read(Path(name), trusted) if name else find(start, trusted)


def _read(file: Path, own: bool, trusted: bool) -> Project | None:
    try:
        content: Any = read_toml(file)
    except BadFile as error:
        raise BadFile(str(error), f"{error.hint}, or --config none") from error
    if not own:
        content = table(content.get("tool", {}), file, "[tool]").get("ncu-swizzle")
        if content is None:
            return None
    outer = "" if own else "tool.ncu-swizzle."
    refuse_others(table(content, file, f"[{outer.rstrip('.')}]"), KEYS, file.name)
    return Project(file, content, outer, trusted)


def table(content: Any, file: Path, name: str) -> Mapping[str, Any]:
    """Return the content; raise UsageError if it is not a table."""
    if not isinstance(content, dict):
        raise UsageError(f"{file}: {name} is not a table", HELP)
    return content


def refuse_others(content: Iterable[str], allowed: tuple[str, ...], origin: str) -> None:
    """Raise UsageError for a key that is not allowed."""
    for name in content:
        if name not in allowed:
            meant = did_you_mean(name, allowed)
            raise UsageError(f"{origin}: unknown key {name!r}{meant}", f"known: {', '.join(allowed)}")
