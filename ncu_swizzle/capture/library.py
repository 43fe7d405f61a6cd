"""The C libraries of the capture, built on first use with the C compiler that is there, and cached."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ncu_swizzle import cache, child, paths
from ncu_swizzle.bounds import quotation
from ncu_swizzle.digest import sha256_of_texts
from ncu_swizzle.errors import EnvironmentLacking
from ncu_swizzle.files import replace

KIND = "libraries"
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-fvisibility=hidden")
LIBRARIES = ("-ldl", "-lpthread")
TIMEOUT_S = 120.0
INSTALL = "apt-get install gcc, or name a C compiler: CC=/usr/bin/clang"


def sources() -> Path:
    """Return the folder with the C sources."""
    return paths.package() / "capture"


def compiler() -> str:
    """Return the path of a C compiler: CC's if that is one, else the first on PATH. Raises EnvironmentLacking."""
    folders = os.pathsep.join(paths.program_folders())
    for name in filter(None, (os.environ.get("CC"), *COMPILERS)):
        if found := shutil.which(name, path=folders):
            return found
    raise EnvironmentLacking("capturing builds a small C library, and there is no C compiler", INSTALL)


def build(
    source: str,
    folder: Path,
    name: str,
    options: Sequence[str] = (),
    generated: Mapping[str, str] | None = None,
    cached: bool = True,
) -> Path:
    """Return the library built from a source, as a file of that name in the folder, which only this user can enter.

    `generated` are further files that it includes. Raises EnvironmentLacking if it does not compile.
    """
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(sources().glob("*.[ch]"))}
    texts |= generated or {}
    program, built = compiler(), folder / name
    key = (
        f"{Path(source).stem}-{sha256_of_texts(program, source, *options, *(t for i in texts.items() for t in i))[:32]}"
    )
    content = cache.load(KIND, key) if cached else None
    if content is None:
        content = _compiled(program, texts, source, folder, options)
        if cached:
            cache.save(KIND, key, content)
    replace(built, content, 0o700)
    return built


def _compiled(program: str, texts: Mapping[str, str], source: str, folder: Path, options: Sequence[str]) -> bytes:
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    out = folder / "built.so"
    command = [program, *OPTIONS, *options, "-o", str(out), source, *LIBRARIES]
    outcome = child.run(command, TIMEOUT_S, folder, {**paths.tool_environment(), "TMPDIR": str(folder)})
    if outcome.status or not out.is_file():
        raise EnvironmentLacking(
            f"{program} could not build {source}:\n{quotation.last_lines(outcome.log)}",
            "name another C compiler: CC=/usr/bin/gcc",
        )
    return out.read_bytes()
