"""The same kernel with another text: a copy of its sources, in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.unfinished.folders import scratch


@contextlib.contextmanager
def rebuilt(target: Target, text: bytes) -> Iterator[Target]:
    """Yield the target with `text` as its source, compiled with the same options from the same relative paths."""
    family = target.family
    with scratch() as folder:
        elsewhere = [name for name in family.included() if not _copied(Path(name), family.root.absolute(), folder)]
        moved = folder / family.folder.absolute().relative_to(family.root.absolute())
        source = moved / family.source(target.kernel).relative_to(family.folder)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(text)
        # What is included by a path out of the folder is found where it was.
        options = (*family.options, *([f"-I{family.folder.absolute()}"] if elsewhere else []))
        yield replace(target, family=replace(family, folder=moved, options=options))


def _copied(file: Path, root: Path, folder: Path) -> bool:
    """Copy a file that lies below the root; say whether it does."""
    if not file.is_relative_to(root):
        return False
    copied = folder / file.relative_to(root)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_bytes(file.read_bytes())
    return True
