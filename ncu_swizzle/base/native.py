"""Our small C programs and libraries, built on first use with the installed C compiler, and cached."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ncu_swizzle.base import bounds, cache, child, paths
from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.base.files import replace_file

KIND = "libraries"
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O2", "-std=gnu11")
LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden")
TIMEOUT_S = 120.0
INSTALL = "apt-get install gcc, or name a C compiler: CC=/usr/bin/clang"


def compiler() -> str:
    """Return the path of a C compiler: CC if valid, else the first on PATH. Raises EnvironmentLacking."""
    folders = os.pathsep.join(paths.program_folders())
    for name in filter(None, (os.environ.get("CC"), *COMPILERS)):
        if path := shutil.which(name, path=folders):
            return path
    raise EnvironmentLacking("this builds a small C program, and there is no C compiler", INSTALL)


def build(
    source: Path,
    built: Path,
    options: Sequence[str],
    libraries: Sequence[str],
    generated: Mapping[str, str] | None = None,
    cached: bool = True,
) -> Path:
    """Build a source, which may include neighbouring C files, as the file `built`, whose folder only this user enters.

    `generated` are further files that it includes. Raises EnvironmentLacking if it does not compile.
    """
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(source.parent.glob("*.[ch]"))}
    texts |= generated or {}
    program = compiler()
    inputs = (program, source.name, *options, *libraries, *(text for item in texts.items() for text in item))
    key = f"{source.stem}-{sha256_of_texts(*inputs)[:32]}"
    content = cache.load(KIND, key) if cached else None
    if content is None:
        command = [program, *OPTIONS, *options, "-o", "built", source.name, *libraries]
        content = _compiled(command, source.name, texts, built.parent)
        if cached:
            cache.save(KIND, key, content)
    replace_file(built, content, 0o700)
    return built


@functools.cache
def library(source: Path, *options: str) -> ctypes.CDLL | None:
    """Return the library built from a source; None without a C compiler: then NumPy does the same."""
    try:
        with TemporaryDirectory(prefix="ncu-swizzle-") as folder:
            return ctypes.CDLL(str(build(source, Path(folder) / f"{source.stem}.so", (*options, *LIBRARY), ("-lm",))))
    except (EnvironmentLacking, OSError):
        return None


def _compiled(command: Sequence[str], source: str, texts: Mapping[str, str], folder: Path) -> bytes:
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    out = folder / "built"
    outcome = child.run(command, TIMEOUT_S, folder, {**paths.tool_environment(), "TMPDIR": str(folder)})
    if outcome.status or not out.is_file():
        raise EnvironmentLacking(
            f"{Path(command[0]).name} could not build {source}:\n{bounds.last_lines(outcome.log)}",
            "name another C compiler: CC=/usr/bin/gcc",
        )
    return out.read_bytes()
