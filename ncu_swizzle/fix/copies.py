"""The same kernel with other texts: a copy of its sources, in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin.lines import is_library
from ncu_swizzle.fix import spliced
from ncu_swizzle.fix.spliced import Spliced
from ncu_swizzle.kernels import limits, project
from ncu_swizzle.kernels.family import Family, Target

# The user's own headers: those of a kernel's project, which a fix rewrites together with its source.


LARGEST = 1 << 18  # bytes; a larger header holds tables


def project_of(
    source: Path, config: str = "", trust: bool = False, within: Callable[[Path], bool] = lambda folder: True
) -> Path:
    """Return the folder of the project that a source belongs to: its checkout's, or that of its settings."""
    source = limits.plain(source)
    above = itertools.takewhile(within, source.parents)
    checkout = next((folder for folder in above if (folder / ".git").exists()), None)
    if checkout is not None:
        return checkout
    with contextlib.suppress(NcuSwizzleError):
        settings = project.project_file(config, source.parent, trust)
        folder = limits.plain(settings.file).parent if settings else source.parent
        return folder if source.is_relative_to(folder) and within(folder) else source.parent
    return source.parent


def with_headers(target: Target, folder: Path) -> Target:
    """Return a target whose sources' paths are relative to a folder that holds its own headers, too."""
    family = target.family
    root = limits.plain(family.root)
    outside = [file.parent for file in map(Path, family.included()) if _is_own(file, folder, family)]
    outside = [parent for parent in outside if not parent.is_relative_to(root)]
    if not outside:
        return target
    top = Path(os.path.commonpath([root, *outside]))
    plain = limits.plain(family.folder)  # it is compared with the top
    return replace(target, family=replace(family, folder=plain, top=str(top)))


def source_of(target: Target) -> bytes:
    """Return the text of a target's source with its own headers in their places."""
    return _spliced(target).text


def not_rewritten(target: Target, file: Path) -> str:
    """Return why a fix does not rewrite a header."""
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
    family, source = target.family, limits.plain(target.source)
    inherited = limits.folders(())  # which a copy of the sources would not change
    root, folders = limits.plain(family.root), [f for f in family.search_folders() if f not in inherited]

    def find(name: str, beside: bool, file: Path) -> Path | None:
        header = limits.located(name, beside, file, folders)
        return header if header is not None and _is_own(header, root, family) else None

    return spliced.splice(source, read_bytes(source), find, read_bytes)


def _is_own(file: Path, folder: Path, family: Family) -> bool:
    """Return whether a header lies in a folder, and is neither a library's, nor a link elsewhere, nor one of ours."""
    ours = paths.kernels() in file.parents and not family.shipped
    inside = folder in file.parents and Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))
    return inside and not ours and not is_library(str(file)) and file.stat().st_size <= LARGEST


@contextlib.contextmanager
def rebuilt(target: Target, text: bytes) -> Iterator[Target]:
    """Yield the target with `text` as its source and its own headers, see `with_files`."""
    with with_files(target, files_of(target, text)) as copy:
        yield copy


def files_of(target: Target, text: bytes) -> dict[Path, bytes]:
    """Return the files of a text: the target's source, and its own headers."""
    return spliced.parted(limits.plain(target.source), text)


@contextlib.contextmanager
def with_files(target: Target, files: Mapping[Path, bytes]) -> Iterator[Target]:
    """Yield the target with other texts of some files, compiled with the same options from the same relative paths."""
    family, root = target.family, limits.plain(target.family.root)
    with scratch() as folder:
        included = [Path(name) for name in family.included()]
        below = {file: file.read_bytes() for file in included if file.is_relative_to(root)}
        elsewhere = len(below) < len(set(included))
        for file, text in {**below, **files}.items():
            copied = folder / file.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(text)
        # What is included by a path out of the folder is found where it was.
        options = [*_moved(family.options, root, folder), *([f"-I{family.folder.absolute()}"] if elsewhere else [])]
        kernels = tuple(replace(each, options=_moved(each.options, root, folder)) for each in family.kernels)
        copy = replace(
            family, folder=folder / limits.plain(family.folder).relative_to(root), options=tuple(options),
            kernels=kernels, top=str(folder) if family.top else "",
        )  # fmt: skip
        kernel = replace(target.kernel, options=_moved(target.kernel.options, root, folder))
        yield replace(target, family=copy, kernel=kernel)


def _moved(options: Sequence[str], root: Path, folder: Path) -> tuple[str, ...]:
    """Return options whose include folders below the root are those of the copy."""
    return tuple(_in_copy(option, root, folder) for option in options)


def _in_copy(option: str, root: Path, folder: Path) -> str:
    for form in limits.FOLDER_OPTIONS:
        named = limits.plain(Path(option.removeprefix(form)))
        if option.startswith(form) and named.is_relative_to(root):
            copied = folder / named.relative_to(root)
            copied.mkdir(parents=True, exist_ok=True)
            return f"{form}{copied}"
    return option
