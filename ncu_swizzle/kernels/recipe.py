"""How kernels are compiled: the translation unit, nvcc's options, include folders and the cache key."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.kernels import limits, nvcc_options
from ncu_swizzle.kernels.family import Family, Kernel

_MISSING_HEADER = re.compile(r"fatal error: (\S+): No such file or directory")
_NEAR = 5  # folders above a source, whose own folders may hold a header

# Third-party headers installed as Python packages, such as CuTe's in nvidia-cutlass.

DISTRIBUTIONS = {"cutlass_library": "nvidia-cutlass>=4.0"}  # package → what pip installs for it


def locate(header: str) -> Path:
    """Return the folder inside an installed package that ``package:folder`` names.

    Raises EnvironmentLacking if the package is not installed or has no such folder.
    """
    package, _, inside = header.partition(":")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / inside).is_dir():
            return Path(location) / inside
    wanted = DISTRIBUTIONS.get(package)
    install = f"pip install '{wanted}'" if wanted else f"install the package that provides {package}"
    raise EnvironmentLacking(f"the headers {header} are not installed", install)


def source_roots(family: Family) -> Iterator[Path]:
    """Yield the folders that source paths are shown relative to, including those of installed third-party headers.

    Headers that are not installed are skipped: code compiled elsewhere does not need them here.
    """
    yield family.root
    if not family.shipped:
        yield paths.data_root()
    for name in family.headers:
        with contextlib.suppress(EnvironmentLacking):
            yield locate(name)


OPTIONS = ("-lineinfo", "-std=c++17", "-O3")
SPECIFIC = {"sm_90a": ("wgmma", "setmaxnreg"), "sm_100a": ("tcgen05",)}  # instructions of one architecture alone
STANDARD = ("-std=", "--std=")
FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
INHERITED = (*FLAGS, "CPATH", "CPLUS_INCLUDE_PATH")  # they change nvcc's output


def options(family: Family, kernel: Kernel) -> tuple[str, ...]:
    """Return nvcc's options: ours, the family's, the kernel's. Their -std replaces ours.

    Raises UsageError for one that nvcc's shell would execute a part of, and for an include folder that is missing.
    """
    own = (*family.options, *kernel.options)
    nvcc_options.refuse_shell(own)
    nvcc_options.refuse_missing_folders(own, family.origin)
    replaced = any(option.startswith(STANDARD) for option in own)
    return (*(option for option in OPTIONS if not (replaced and option.startswith(STANDARD))), *own)


def source(family: Family, kernel: Kernel) -> Path:
    """Return the file to compile; raise ProgramFailed (for a user's: UsageError) if it does not exist."""
    file = family.source(kernel)
    if not is_file(file):
        kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
        raise kind(f"{file} is missing", "the variant's name in family.toml must match the file's name")
    return file


def unit(family: Family, kernel: Kernel) -> str:
    """Return the text to compile, which includes the kernel's file: the cubin then names that file."""
    file = source(family, kernel)
    if any(character in str(file) for character in '"\\\n\r'):
        raise UsageError(f"nvcc cannot handle the path {str(file)!r}", "rename the file or its folder")
    return f'#include "{file}"\n'


def include_folders(family: Family) -> list[Path]:
    """Return the include path; raise EnvironmentLacking if third-party headers are not installed.

    Raises UsageError for a folder that nvcc's shell would execute a part of.
    """
    folders = [*family.include_folders(), *map(locate, family.headers)]
    for folder in folders:
        nvcc_options.refuse_shell_in_folder(folder)
    return folders


def _folder_with(header: str, file: Path) -> str:
    """Return a folder beside one of the source's folders that has the header; "" if none of them does."""
    beside = (folder for parent in file.absolute().parents[:_NEAR] for folder in (parent, *sorted(parent.glob("*/"))))
    return next((str(folder) for folder in beside if is_file(folder / header)), "")


def failure(family: Family, kernel: Kernel, log: str) -> NcuSwizzleError:
    """Return the error for a source that does not compile: UsageError if it is the user's."""
    kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
    file = family.source(kernel)
    given = " ".join((*family.options, *kernel.options))
    needed = needed_arch(log)
    command = shlex.join(
        ["nvcc", "-cubin", f"-arch={needed}", "-lineinfo", *family.options, *kernel.options, str(file)]
    )
    hint = f"correct {file}"
    if needed:
        hint = f"it needs {needed}: {command} makes {file.stem}.cubin, to give in its place"
    elif missing := _MISSING_HEADER.search(log):
        hint = f"--include {_folder_with(missing[1], file) or 'FOLDER'}, the folder of {missing[1]}"
    return kind(f"nvcc could not compile {file.name}{f' with {given}' if given else ''}:\n{log}", hint)


def needed_arch(log: str) -> str:
    """Return the architecture that a refused source needs by ptxas's words, such as sm_90a; empty if another fault."""
    if required := re.search(r"requires .target (sm_\d+[af]?)\b", log):
        return required[1]
    refused = re.search(r"'(\w+)\S*' (?:not supported on|cannot be compiled for) \S+ 'sm_\d+'", log)
    return next((arch for arch, names in SPECIFIC.items() if refused and refused[1] in names), "")


def cacheable(family: Family, kernel: Kernel) -> bool:
    """Return whether all sources are known: headers named by a macro, or by another option than -I, are not."""
    if any(re.search(r"-I|include|isystem", os.environ.get(name, "")) for name in FLAGS):
        return False
    forced = any(re.match(r"--?(pre-)?include(=|$)", option) for option in options(family, kernel))
    return family.shipped or not (forced or any(map(limits.has_computed_include, family.included().values())))


def digest(family: Family, kernel: Kernel, arch: str, compiler: str) -> str:
    """Return the SHA-256 of everything that goes into a cubin: sources, options, environment, compiler version."""
    # Paths count too: -lineinfo writes them into the cubin.
    texts = family.source_texts() if family.shipped else {**family.source_texts(), **family.included()}
    sources = [part for item in texts.items() for part in item]
    foreign = [f"{folder} {folder.stat().st_mtime_ns}" for folder in map(locate, family.headers)]
    inherited = [os.environ.get(name, "") for name in INHERITED]
    file = str(family.source(kernel))
    parts = [file, kernel.name, arch, compiler, *options(family, kernel), *inherited, *foreign, *sources]
    return sha256_of_texts(*parts)
