"""The same kernel with other texts: a copy of its sources, in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.source import spliced
from ncu_swizzle.unfinished.folders import scratch


@contextlib.contextmanager
def rebuilt(target: Target, text: bytes) -> Iterator[Target]:
    """Yield the target with `text` as its source and its own headers, see `with_files`."""
    with with_files(target, files_of(target, text)) as copy:
        yield copy


def files_of(target: Target, text: bytes) -> dict[Path, bytes]:
    """Return the files of a text: the target's source, and its own headers."""
    return spliced.parted(includes.plain(target.source), text)


@contextlib.contextmanager
def with_files(target: Target, files: Mapping[Path, bytes]) -> Iterator[Target]:
    """Yield the target with other texts of some files, compiled with the same options from the same relative paths."""
    family, root = target.family, includes.plain(target.family.root)
    with scratch() as folder:
        elsewhere = [name for name in family.included() if not _copied(Path(name), root, folder)]
        for file, text in files.items():
            copied = folder / file.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(text)
        # What is included by a path out of the folder is found where it was.
        options = [*_moved(family.options, root, folder), *([f"-I{family.folder.absolute()}"] if elsewhere else [])]
        kernels = tuple(replace(each, options=_moved(each.options, root, folder)) for each in family.kernels)
        copy = replace(
            family, folder=folder / includes.plain(family.folder).relative_to(root), options=tuple(options),
            kernels=kernels, top=str(folder) if family.top else "",
        )  # fmt: skip
        kernel = replace(target.kernel, options=_moved(target.kernel.options, root, folder))
        yield replace(target, family=copy, kernel=kernel)


def _copied(file: Path, root: Path, folder: Path) -> bool:
    """Copy a file that lies below the root; say whether it does."""
    if not file.is_relative_to(root):
        return False
    copied = folder / file.relative_to(root)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_bytes(file.read_bytes())
    return True


def _moved(options: Sequence[str], root: Path, folder: Path) -> tuple[str, ...]:
    """Return options whose include folders below the root are those of the copy."""
    return tuple(_in_copy(option, root, folder) for option in options)


def _in_copy(option: str, root: Path, folder: Path) -> str:
    for form in includes.FOLDER_OPTIONS:
        named = includes.plain(Path(option.removeprefix(form)))
        if option.startswith(form) and named.is_relative_to(root):
            copied = folder / named.relative_to(root)
            copied.mkdir(parents=True, exist_ok=True)
            return f"{form}{copied}"
    return option
