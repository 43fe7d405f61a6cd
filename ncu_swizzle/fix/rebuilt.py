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
        for name in family.included():
            _copy(Path(name), family.root.absolute(), folder)
        moved = folder / family.folder.absolute().relative_to(family.root.absolute())
        source = moved / family.source(target.kernel).relative_to(family.folder)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(text)
        # What is included from outside of the copy is found where it was.
        options = (*family.options, f"-I{family.folder.absolute()}")
        yield replace(target, family=replace(family, folder=moved, options=options))


def _copy(file: Path, root: Path, folder: Path) -> None:
    if file.is_relative_to(root):
        copied = folder / file.relative_to(root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(file.read_bytes())
