"""What project files may ask for without --trust: nvcc options on a list, and files of their own checkout.

Linting a checkout that one does not trust must not run its programs, or read and show what lies beside it; so
the sources that a line table names are read there alone.
docs/security.md has the whole of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import BadFile, Untrusted, UsageError
from ncu_swizzle.base.files import LARGEST_SOURCE, is_file, read_bytes

# nvcc's options as users give them: split into words, checked, and with absolute paths.
#
# Options on the command line and in calls from Python are the user's own. Those of project files must be on the list
# below, see `is_allowed`, unless the user passes --trust.


# Options that users may not pass: we set them.
OURS = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-o", "--output-file")

# Options whose values nvcc puts in double quotes for its shell, and the spelling that they get here. Their paths are
# relative to the folder in which they are given: the compiler runs in its own folder.
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
    rest = iter(bounds.split_all(texts, f"{' '.join(texts)!r}", "close the quotes"))
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
                prefix = f"{origin}: " if origin else ""
                raise UsageError(f"{prefix}{named} {kind}", "name the folder that the headers are in")


def refuse_shell(options: Sequence[str]) -> None:
    """Raise UsageError for an option of which nvcc's shell would execute a part."""
    for word in options:
        quoted = word.startswith((*JOINED, *FOLDERS, HEADER))
        if match := _RUNS_QUOTED.search(word) or (None if quoted else _RUNS_BARE.search(word)):
            raise UsageError(
                f"nvcc would pass {match[0]!r} in the option {word!r} to a shell, which may execute it",
                "leave it out, or rename the folder; a #define in the source can hold any character",
            )


def refuse_shell_in_folder(folder: Path) -> None:
    """Raise UsageError for an include folder that nvcc's shell would execute a part of."""
    if match := _RUNS_IN_PATHS.search(str(folder)):
        raise UsageError(
            f"nvcc would pass {match[0]!r} in the folder {str(folder)!r} to a shell, which may execute it",
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


# What project files may pass to nvcc: options that change the code or the warnings, with values of a known form.
#
# nvcc can run any program (-ccbin, -Xcompiler -fplugin=…), write any file (-o, -MF, -keep-dir) and read further options
# from a file (-optf), and it passes most values to a shell as they are. So this is a list of what is allowed, in
# exactly the spellings that nvcc has, and everything else needs --trust.


# Without a value: options whose long name is the short one with another dash, then the others.
_ONE_NAME = (
    "allow-unsupported-compiler", "expt-extended-lambda", "expt-relaxed-constexpr", "extended-lambda",
    "extra-device-vectorization", "keep-device-functions", "m64", "restrict", "use_fast_math",
    "Wdefault-stream-launch", "Wext-lambda-captures-this", "Wmissing-launch-bounds", "Wno-deprecated-declarations",
    "Wno-deprecated-gpu-targets", "Wreorder",
)  # fmt: skip
FLAGS = frozenset(f"{dashes}{name}" for name in _ONE_NAME for dashes in ("-", "--")) | {
    "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-g", "--debug", "-w", "--disable-warnings",
    "-ewp", "--extensible-whole-program", "-noeh", "--no-exceptions", "-nohdinitlist",
    "--no-host-device-initializer-list", "-nohdmoveforward", "--no-host-device-move-forward", "-src-in-ptx",
    "--source-in-ptx", "-res-usage", "--resource-usage", "-err-no", "--display-error-number", "-no-err-no",
    "--no-display-error-number",
}  # fmt: skip

SWITCH, NUMBER, NUMBERS = r"true|false", r"\d{1,9}", r"\d{1,9}(,\d{1,9})*"
KINDS = (
    "all-warnings|cross-execution-space-call|reorder|default-stream-launch|missing-launch-bounds"
    "|ext-lambda-captures-this|deprecated-declarations"
)
# Options of ptxas and of the host compiler, which preprocesses the source; in lists, a comma or a space apart.
PTXAS = (
    rf"-v|--verbose|-w|--disable-warnings|-Werror|--warning-as-error|-warn-spills|--warn-on-spills|-warn-lmem-usage"
    rf"|--warn-on-local-memory-usage|-warn-double-usage|--warn-on-double-precision-use|-O[0-4]|--opt-level=[0-4]"
    rf"|(-dlcm|--def-load-cache|-flcm|--force-load-cache)=(ca|cg|cs|cv|lu)"
    rf"|(-dscm|--def-store-cache|-fscm|--force-store-cache)=(cg|cs|wb|wt)"
    rf"|--?(allow-expensive-optimizations|fmad)=({SWITCH})|--?maxrregcount=({NUMBER})"
    rf"|(-regUsageLevel|--register-usage-level)=({NUMBER})|-disable-optimizer-consts|--disable-optimizer-constants"
    rf"|-opt-fp-atomics|--optimize-float-atomics|-no-bb-merge|--dont-merge-basicblocks"
)
HOST = r"-W(?![alp]$)[a-z][a-z0-9+-]*(=\d)?|-w|-g|-O[0-3sg]?|-f(PIC|pic|openmp|no-strict-aliasing)|-pthread|-m64"

# With a value: after =, as the next word, or (-O3) joined.
VALUES: Mapping[str, str] = {
    name: value
    for names, value in (
        ("-std --std", r"c\+\+\d\d"),
        ("-O --optimize", "[0-4]"),
        ("-Ofc --Ofast-compile", "0|min|mid|max"),
        ("-dopt --dopt", "on"),
        ("-maxrregcount --maxrregcount", NUMBER),
        ("-ftz --ftz -prec-div --prec-div -prec-sqrt --prec-sqrt -fmad --fmad", SWITCH),
        ("-rdc --relocatable-device-code -device-stack-protector --device-stack-protector", SWITCH),
        ("-brief-diag --brief-diagnostics -static-global-template-stub --static-global-template-stub", SWITCH),
        ("-ftemplate-depth --ftemplate-depth -ftemplate-backtrace-limit --ftemplate-backtrace-limit", NUMBER),
        ("-jtd --jump-table-density", NUMBER),
        ("-default-stream --default-stream", "legacy|null|per-thread"),
        ("-opt-info --optimization-info", "inline"),
        ("-diag-error --diag-error -diag-suppress --diag-suppress -diag-warn --diag-warn", NUMBERS),
        ("-Werror --Werror", rf"({KINDS})(,({KINDS}))*"),
        ("-Xptxas --ptxas-options", rf"\s*({PTXAS})([,\s]+({PTXAS}))*\s*"),
        ("-Xcompiler --compiler-options", rf"\s*({HOST})([,\s]+({HOST}))*\s*"),
    )
    for name in names.split()
}
# What nvcc puts between double quotes, where its shell would still execute some characters.
MACRO = re.compile(rf"[A-Za-z_]\w*(\([\w\s,.]*\))?(=[^{RUNS_QUOTED}]*)?")
NAMES = re.compile(r"[A-Za-z_]\w*(,[A-Za-z_]\w*)*")
FOLDER = re.compile(f"[^{RUNS_IN_PATHS}]+")
FILE = re.compile(rf"\A(?!.*(^|/)\.\.(/|$))[^{RUNS_IN_PATHS},]+")  # one, without .. in its path


def in_one_word(words: Iterable[str]) -> Iterator[str]:
    """Yield the options, those whose value is the next word joined to it by ``=``."""
    rest = iter(words)
    for word in rest:
        value = next(rest, None) if word in VALUES else None
        yield word if value is None else f"{word}={value}"


def is_allowed(option: str) -> bool:
    """Return whether a project file may pass an option, which is one of `in_one_word`.

    Include folders may be anywhere, for a source can include any file by its path anyway. Absolute headers of
    ``-include`` are left to the caller, who knows the project.
    """
    name, _, value = option.partition("=")
    if name in VALUES:
        return re.fullmatch(VALUES[name], value) is not None
    for prefix, pattern in (("-D", MACRO), ("-U", NAMES), *((prefix, FOLDER) for prefix in FOLDERS), (HEADER, FILE)):
        if option.startswith(prefix):
            return pattern.fullmatch(option.removeprefix(prefix)) is not None
    return option in FLAGS or re.fullmatch("-O[0-4]", option) is not None


GIT = ".git"
TRUST = "trust=True"  # the hint to callers from Python; commands replace it by the command to type


@dataclass(frozen=True)
class Checkout:
    """The checkout of a project file in `folder`, and whether the user trusts it."""

    folder: Path
    trusted: bool = False

    @cached_property
    def root(self) -> Path:
        """The checkout: the nearest folder with a .git, unless the home folder is in it; else the file's folder."""
        folder, home = _real(self.folder), _real(Path.home())
        for parent in (folder, *folder.parents):
            if home.is_relative_to(parent):
                break
            if (parent / GIT).exists():
                return parent
        return folder

    def path(self, text: str, origin: str) -> Path:
        """Return the path that a project file names; raise Untrusted if it leads out of the checkout."""
        if "\0" in text:
            raise UsageError(f"{origin}: {text!r} is not a path", "leave out the NUL character")
        path = self.folder / text
        if not self.trusted and not self.holds(path):
            raise Untrusted(f"{origin}: {text} needs your trust: it is outside {self.root}", TRUST)
        return path

    def holds(self, path: Path) -> bool:
        """Return whether the path, with all links followed, is in the checkout."""
        return _real(path).is_relative_to(self.root)

    def options(self, words: Sequence[str], origin: str) -> tuple[str, ...]:
        """Return nvcc's options, each in one word; raise Untrusted for one that is not on the list."""
        try:
            refuse_shell(words)
        except UsageError as error:
            raise UsageError(f"{origin}: {error}", error.hint) from error
        if self.trusted:
            return tuple(words)
        options = tuple(in_one_word(words))
        for option in options:
            header = option.removeprefix(HEADER) if option.startswith(HEADER) else ""
            if not is_allowed(option) or (header.startswith("/") and not self.holds(Path(header))):
                what = "not among the options that a project file may pass to nvcc"
                raise Untrusted(f"{origin}: {option} needs your trust: it is {what}", TRUST)
        return options


# A line table names files, and anyone can write one: #line 1 "/home/you/.netrc".


def readable(files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> tuple[Checkout, ...]:
    """Return the checkouts that a user works in: of the current folder, of the files named, and the folders named."""
    here = [] if Path.home().is_relative_to(Path.cwd()) else [Path.cwd()]
    named = [*here, *(file.absolute().parent for file in files)]
    roots = [*(Checkout(folder).root for folder in named), *map(_real, folders)]
    return tuple(map(Checkout, dict.fromkeys(roots)))


def source_bytes(file: str, checkouts: Iterable[Checkout], largest: int = LARGEST_SOURCE) -> bytes:
    """Return the content of a file that a line table names, or a checkout has.

    Empty if it is outside of the checkouts, not a regular file, larger than `largest`, or unreadable.
    """
    try:
        path = Path(os.path.realpath(file))
        inside = any(path.is_relative_to(checkout.root) for checkout in checkouts)
        return read_bytes(path, largest=largest) if inside else b""
    except (BadFile, ValueError):  # ValueError: a NUL in the name
        return b""


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
