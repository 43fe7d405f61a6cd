"""The user's files that work reads, for workers that do not have them: by digest, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle import digest
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import Argument, Family, Kernel
from ncu_swizzle.catalog.includes import FOLDER_OPTIONS
from ncu_swizzle.files import read_bytes
from ncu_swizzle.files import replace as write


def files_of(family: Family) -> tuple[Path, ...]:
    """Return the files that building, launching and checking a family's kernels reads; none for a shipped family."""
    return () if family.shipped else tuple(dict.fromkeys(_files_of(family)))


def _files_of(family: Family) -> Iterator[Path]:
    yield from map(Path, family.included())
    named = [family.source(kernel) for kernel in family.kernels if not kernel.library]
    named += [Path(kernel.cubin) for kernel in family.kernels if kernel.cubin]
    named += [Path(argument.file) for argument in family.arguments if argument.file]
    yield from (path.absolute() for path in named if path.is_file())
    if (reference := _reference_file(family)).suffix == ".py":
        yield from (path for path, _ in includes.texts([reference], []))


def _reference_file(family: Family) -> Path:
    module, _, _ = family.reference.rpartition(":")
    return family.folder / (module or family.reference)


def digests(files: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its path."""
    return {str(file): digest.sha256(read_bytes(file)) for file in files}


def lacking(wanted: Mapping[str, str]) -> dict[str, str]:
    """Return those of the files that are not here, or differ."""
    return {path: sha256 for path, sha256 in wanted.items() if not _is_here(Path(path), sha256)}


def _is_here(file: Path, sha256: str) -> bool:
    try:
        return digest.sha256(file.read_bytes()) == sha256
    except OSError:
        return False


def unpack(contents: Mapping[str, bytes], root: Path) -> None:
    """Write files below a folder, each under its whole path."""
    for path, content in contents.items():
        write(below(path, str(root)), content, 0o600)


def below(path: str, root: str) -> Path:
    """Return where `unpack` puts a file or what a folder becomes."""
    return Path(root) / Path(path).absolute().relative_to("/")


def moved_family(family: Family, root: str) -> Family:
    """Return the family with every path of the user's below the root."""

    def moved(path: str) -> str:
        return str(below(path, root))

    module, colon, function = family.reference.rpartition(":")
    file = module or family.reference
    reference = f"{moved(file)}{colon}{function if colon else ''}" if Path(file).is_absolute() else family.reference
    return replace(
        family,
        folder=below(str(family.folder), root),
        reference=reference,
        arguments=tuple(_moved_argument(argument, moved) for argument in family.arguments),
        options=_moved_options(family.options, moved),
        kernels=tuple(_moved_kernel(kernel, moved) for kernel in family.kernels),
    )


def _moved_argument(argument: Argument, moved: Callable[[str], str]) -> Argument:
    return replace(argument, fill=moved(argument.file)) if argument.file else argument


def _moved_kernel(kernel: Kernel, moved: Callable[[str], str]) -> Kernel:
    cubin = moved(kernel.cubin) if kernel.cubin else ""
    return replace(kernel, cubin=cubin, options=_moved_options(kernel.options, moved))


def _moved_options(options: Sequence[str], moved: Callable[[str], str]) -> tuple[str, ...]:
    """Return compiler options with their include folders moved."""
    return tuple(
        next(
            (f"{form}{moved(option.removeprefix(form))}" for form in FOLDER_OPTIONS if option.startswith(form)), option
        )
        for option in options
    )
