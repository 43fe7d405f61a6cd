"""Files that are either whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

from ncu_swizzle.errors import NotWritable


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file under a temporary name and rename it, so that no reader ever sees half of it.

    Makes the folder where it is missing. Raises NotWritable.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise NotWritable(f"cannot write {path}: {error.strerror}", "name another place with -o") from error
