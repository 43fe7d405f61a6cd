"""Users' nvcc options, checked and with absolute paths: the compiler runs in its own folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.errors import UsageError

# Options that users may not pass: we set them.
OURS = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-o", "--output-file")


def options(
    defines: Sequence[str], include: Sequence[str], more: Sequence[str], standard: str, folder: Path
) -> tuple[str, ...]:
    """Return nvcc's options, one string each, with absolute folders. Raises UsageError."""
    for define in defines:
        if not re.match(r"[A-Za-z_]\w*(\(|=|$)", define):
            raise UsageError(f"-D {define!r} is not NAME or NAME=VALUE", "-D SWIZZLE=1")
    return (
        *(f"-D{define}" for define in defines),
        *(f"-I{_whole(path, folder)}" for path in include),
        *([f"-std={standard}"] if standard else []),
        *split(more, folder),
    )


def split(texts: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return options split as a shell would, with ``-I folder`` joined. Raises UsageError."""
    try:
        parts = [part for text in texts for part in shlex.split(text)]
    except ValueError as error:
        raise UsageError(f"{' '.join(texts)!r} cannot be split: {error}", "close the quotes") from error
    separated: list[str] = []
    while parts:
        part = parts.pop(0)
        if part.split("=")[0] in OURS:
            raise UsageError(f"{part} is not allowed: ncu-swizzle compiles for the GPU it finds", "leave it out")
        if part in ("-I", "-D", "--include-path", "--define-macro") and parts:
            part = ("-I" if "-i" in part.lower() else "-D") + parts.pop(0)
        separated.append(f"-I{_whole(part[2:], folder)}" if part.startswith("-I") else part)
    return tuple(separated)


def _whole(path: str, folder: Path) -> str:
    return os.path.normpath(folder.absolute() / path)
