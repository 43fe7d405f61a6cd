"""nvcc's options as users give them: split into words, checked, and with absolute paths.

Options on the command line and in calls from Python are the user's own. Those of project files must be on the list in
`nvcc_allowed` unless the user passes --trust.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.bounds import words
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import is_file

# Options that users may not pass: we set them.
OURS = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-o", "--output-file")

# Options whose values nvcc puts in double quotes for its shell, and the spelling that they get here. Their paths are
# relative to the folder of whoever gives them: the compiler runs in its own folder.
QUOTED = {
    "-D": "-D", "--define-macro": "-D", "-U": "-U", "--undefine-macro": "-U",
    "-I": "-I", "--include-path": "-I", "-isystem": "-isystem=", "--system-include": "-isystem=",
    "-include": "-include=", "--pre-include": "-include=",
}  # fmt: skip
JOINED = ("-D", "-U", "-I")  # the value follows at once
FOLDERS = ("-I", "-isystem=")
HEADER = "-include="

# nvcc runs its steps through sh -c and escapes neither these, even between double quotes (a set of a pattern), ...
RUNS_QUOTED = r"`$\\\x00-\x08\x0a-\x1f\x7f"
RUNS_IN_PATHS = RUNS_QUOTED + r"\"\t"
_RUNS_QUOTED, _RUNS_IN_PATHS = re.compile(f"[{RUNS_QUOTED}]"), re.compile(f"[{RUNS_IN_PATHS}]")
# ... nor anything in the values that it does not quote.
_RUNS_BARE = re.compile(r"[;&|<>()]")


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
    rest = iter(words.split_all(texts, f"{' '.join(texts)!r}", "close the quotes"))
    separated: list[str] = []
    for word in rest:
        name, equals, value = word.partition("=")
        if name in OURS:
            raise UsageError(f"{word} is not allowed: ncu-swizzle compiles for the GPU it finds", "leave it out")
        following = value if equals else next(rest, None) if name in QUOTED else None
        separated.append(
            _absolute(word if name not in QUOTED or following is None else QUOTED[name] + following, folder)
        )
    return tuple(separated)


def refuse_missing_folders(options: Sequence[str], origin: str) -> None:
    """Raise UsageError for an include folder that does not exist; nvcc would only say that a header is missing."""
    for word in options:
        for option in FOLDERS:
            folder = word.removeprefix(option)
            if word.startswith(option) and not os.path.isdir(folder):  # noqa: PTH112 - a name may hold a NUL
                kind = "is not a folder" if os.path.exists(folder) else "does not exist"  # noqa: PTH110
                named = f"the include folder {folder or repr('')} ({option.rstrip('=')})"
                place = f"{origin}: " if origin else ""
                raise UsageError(f"{place}{named} {kind}", "name the folder that the headers are in")


def refuse_shell(options: Sequence[str]) -> None:
    """Raise UsageError for an option that nvcc's shell would execute a part of, whoever gives it."""
    for word in options:
        quoted = word.startswith((*JOINED, *FOLDERS, HEADER))
        if found := _RUNS_QUOTED.search(word) or (None if quoted else _RUNS_BARE.search(word)):
            raise UsageError(
                f"nvcc would pass {found[0]!r} in the option {word!r} to a shell, which may execute it",
                "leave it out, or rename the folder; a #define in the source can hold any character",
            )


def refuse_shell_in_folder(folder: Path) -> None:
    """Raise UsageError for an include folder that nvcc's shell would execute a part of."""
    if found := _RUNS_IN_PATHS.search(str(folder)):
        raise UsageError(
            f"nvcc would pass {found[0]!r} in the folder {str(folder)!r} to a shell, which may execute it",
            "rename the folder",
        )


def _absolute(word: str, folder: Path) -> str:
    for option in FOLDERS:
        if word.startswith(option) and len(word) > len(option):
            return f"{option}{_whole(word.removeprefix(option), folder)}"
    if word.startswith(HEADER) and is_file(folder / (header := word.removeprefix(HEADER))):
        return f"{HEADER}{_whole(header, folder)}"
    return word


def _whole(path: str, folder: Path) -> str:
    return os.path.normpath(folder.absolute() / path)
