"""Files that are either whole or not there, and what reading one can run into."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import BadFile, NotWritable

ELSEWHERE = "name another place: -o, --html or --json"


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
        raise NotWritable(f"cannot write {path}: {error.strerror}", ELSEWHERE) from error


def slug(label: str) -> str:
    """Return a label as a file's name, without what file systems and shells take amiss."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-")[:80] or "profile"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file that people read too; see `write_atomically`."""
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """Return what the file holds; raise BadFile where it is missing or cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadFile(f"{path} does not exist", "ls swizzle-out shows what was saved") from error
    except OSError as error:
        raise BadFile(
            f"{path} cannot be read: {error.strerror}", "give a .ncu-rep file, or one that ncu-swizzle wrote"
        ) from error
