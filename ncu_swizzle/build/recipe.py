"""How kernels are compiled, whoever runs the compiler: PyCUDA on a GPU, or the toolchain of the emulated engine."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ncu_swizzle.build import headers
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed, UsageError

OPTIONS = ("-lineinfo", "-std=c++17", "-O3")
STANDARD = ("-std=", "--std=")
INHERITED = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "CPLUS_INCLUDE_PATH")  # change what nvcc makes


def options(family: Family, kernel: Kernel) -> tuple[str, ...]:
    """Return nvcc's options: ours, the family's, the kernel's. A language standard of theirs replaces ours."""
    own = (*family.options, *kernel.options)
    replaced = any(option.startswith(STANDARD) for option in own)
    return (*(option for option in OPTIONS if not (replaced and option.startswith(STANDARD))), *own)


def source(family: Family, kernel: Kernel) -> Path:
    """Return the file to compile; raise ProgramFailed (for a user's: UsageError) where there is none."""
    file = family.source(kernel)
    if not file.is_file():
        kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
        raise kind(f"{file} is missing", "compare the variant's name in family.toml with its file's")
    return file


def unit(family: Family, kernel: Kernel) -> str:
    """Return the text to compile, which includes the kernel's file: the cubin then bears that file's name."""
    file = source(family, kernel)
    if any(character in str(file) for character in '"\\\n\r'):
        raise UsageError(f"nvcc cannot read a path such as {str(file)!r}", "rename the file or its folder")
    return f'#include "{file}"\n'


def include_folders(family: Family) -> list[Path]:
    """Return where headers are looked for; raise EnvironmentLacking where another project's are not installed."""
    return [*family.include_folders(), *map(headers.locate, family.headers)]


def failure(family: Family, kernel: Kernel, log: str) -> NcuSwizzleError:
    """Return the error for a source that the compiler refuses: a user's file is the user's to mend."""
    kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
    file = family.source(kernel)
    given = " ".join((*family.options, *kernel.options))
    return kind(f"nvcc could not compile {file.name}{f' with {given}' if given else ''}:\n{log}", f"fix {file}")


def cacheable(family: Family, kernel: Kernel) -> bool:
    """Return whether all that is compiled is known: a header that a macro or an option names is not."""
    forced = any(re.match(r"--?(pre-)?include(=|$)", option) for option in options(family, kernel))
    return family.shipped or not (forced or any(map(includes.has_computed_include, family.included().values())))


def digest(family: Family, kernel: Kernel, arch: str, compiler: str) -> str:
    """Return the SHA-256 of all that a cubin is made from: sources, options, environment, the compiler's version."""
    # Paths count too: -lineinfo writes them into the cubin.
    texts = family.source_texts() if family.shipped else {**family.source_texts(), **family.included()}
    sources = [part for item in texts.items() for part in item]
    foreign = [f"{folder} {folder.stat().st_mtime_ns}" for folder in map(headers.locate, family.headers)]
    inherited = [os.environ.get(name, "") for name in INHERITED]
    file = str(family.source(kernel))
    parts = [file, kernel.name, arch, compiler, *options(family, kernel), *inherited, *foreign, *sources]
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
