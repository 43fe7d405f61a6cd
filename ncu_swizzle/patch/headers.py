"""The user's own headers: those of a kernel's project, which a fix rewrites together with its source."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.catalog import includes, project
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.libraries import is_library
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import read_bytes
from ncu_swizzle.source import spliced
from ncu_swizzle.source.spliced import Spliced

LARGEST = 1 << 18  # bytes; a larger header holds tables


def project_of(
    source: Path, config: str = "", trust: bool = False, within: Callable[[Path], bool] = lambda folder: True
) -> Path:
    """Return the folder of the project that a source belongs to: its checkout's, or that of its settings."""
    source = includes.plain(source)
    above = itertools.takewhile(within, source.parents)
    checkout = next((folder for folder in above if (folder / ".git").exists()), None)
    if checkout is not None:
        return checkout
    with contextlib.suppress(NcuSwizzleError):
        settings = project.project_file(config, source.parent, trust)
        folder = includes.plain(settings.file).parent if settings else source.parent
        return folder if source.is_relative_to(folder) and within(folder) else source.parent
    return source.parent


def with_headers(target: Target, folder: Path) -> Target:
    """Return a target whose sources' paths are relative to a folder that holds its own headers, too."""
    family = target.family
    root = includes.plain(family.root)
    outside = [file.parent for file in map(Path, family.included()) if _is_own(file, folder, family)]
    outside = [parent for parent in outside if not parent.is_relative_to(root)]
    if not outside:
        return target
    top = Path(os.path.commonpath([root, *outside]))
    plain = includes.plain(family.folder)  # it is compared with the top
    return replace(target, family=replace(family, folder=plain, top=str(top)))


def source_of(target: Target) -> bytes:
    """Return the text of a target's source with its own headers in their places."""
    return _spliced(target).text


def not_rewritten(target: Target, file: Path) -> str:
    """Return why a header is none that a fix rewrites."""
    if file in _spliced(target).repeated:
        return f"{file.name} is included more than once, and may differ each time"
    if is_library(str(file)):
        return f"{file.name} is a library's"
    return f"{file.name} is not rewritten: it is not of this project"


def unread(target: Target) -> tuple[str, ...]:
    """Return the sentences about own headers that a fix does not look into."""
    names = sorted(file.name for file in _spliced(target).repeated)
    return tuple(
        f"Not looked into: {name}, which is included more than once, and may differ each time." for name in names
    )


def _spliced(target: Target) -> Spliced:
    family, source = target.family, includes.plain(target.source)
    inherited = includes.folders(())  # which a copy of the sources would not change
    root, folders = includes.plain(family.root), [f for f in family.search_folders() if f not in inherited]

    def find(name: str, beside: bool, file: Path) -> Path | None:
        header = includes.located(name, beside, file, folders)
        return header if header is not None and _is_own(header, root, family) else None

    return spliced.splice(source, read_bytes(source), find, read_bytes)


def _is_own(file: Path, folder: Path, family: Family) -> bool:
    """Say whether a header lies in a folder, is no library's, nor a link to elsewhere, and none that comes with us."""
    ours = paths.kernels() in file.parents and not family.shipped
    inside = folder in file.parents and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    return inside and not ours and not is_library(str(file)) and file.stat().st_size <= LARGEST
