"""Lines of a text with spliced headers, as the cubin and the user name them."""

from __future__ import annotations

import os

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.source import spliced


def located(target: Target, text: bytes, line: int) -> Location:
    """Return a line of the text as the cubin names it: its file, and its number there."""
    file, number = spliced.place(includes.plain(target.source), text, line)
    return file.relative_to(includes.plain(target.family.root)).as_posix(), number


def shown_file(target: Target, file: str) -> str:
    """Return the path of a file that the cubin names, from the source's folder; empty if it is the source."""
    root, source = (includes.plain(path) for path in (target.family.root, target.source))
    path = os.path.normpath(root / file)
    return "" if path == str(source) else os.path.relpath(path, source.parent)
