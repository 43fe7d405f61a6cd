"""What nvcc is given: options that a project may pass, headers, stand-ins for missing ones, macros."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import BadFile, Untrusted, UsageError
from ncu_swizzle.base.files import LARGEST_SOURCE, is_file, is_same_file, read_bytes

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


# Headers that a source includes and the compiler does not find: where they are, or where they can be had.
#
# They are searched for in the source's checkout and in installed packages. compile_commands.json says what a build
# passes to the compiler.

MOST_FILES = 200_000  # of a checkout that are looked at
MOST_BYTES = 64 << 20  # of its texts that are read, for one question
_PASSED_OVER = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv"}

# Folders of headers, by what installs them: the start of a header's name, and what pip calls the package.
PACKAGES = {
    "cublas": "nvidia-cublas", "curand": "nvidia-curand", "cusparse": "nvidia-cusparse", "cusolver": "nvidia-cusolver",
    "cufft": "nvidia-cufft", "npp": "nvidia-npp", "nvjpeg": "nvidia-nvjpeg", "cudnn": "nvidia-cudnn-cu13",
    "nccl": "nvidia-nccl-cu13", "cutlass/": "nvidia-cutlass", "cute/": "nvidia-cutlass", "cub/": "nvidia-cuda-cccl",
    "thrust/": "nvidia-cuda-cccl", "cuda/std/": "nvidia-cuda-cccl", "nvtx3/": "nvidia-nvtx", "torch/": "torch",
    "ATen/": "torch", "c10/": "torch", "pybind11/": "pybind11",
}  # fmt: skip


class _Texts:
    """The texts of a checkout; what is not a regular file in it, or exceeds the limit, reads as empty."""

    def __init__(self, source: Path) -> None:
        self.checkout = Checkout(source.absolute().parent)
        self._left = MOST_BYTES

    def of(self, file: Path) -> str:
        """Return a file's text."""
        content = source_bytes(str(file), (self.checkout,), self._left)
        self._left -= len(content)
        return content.decode("utf-8", "replace")


def folder_in_checkout(header: str, source: Path) -> Path | None:
    """Return the folder of the source's checkout below which there is such a header, the nearest of several."""
    source = source.absolute()
    root, path = Checkout(source.parent).root, Path(header)
    if path.is_absolute() or ".." in path.parts:
        return None
    places = _files(root).get(path.name, ())
    folders = [Path(place) for place in places if is_file(Path(place) / path.name)]
    rest = path.parent.parts
    below = [
        folder.joinpath(*[".."] * len(rest))
        for folder in folders
        if not rest or folder.parts[len(folder.parts) - len(rest) :] == rest
    ]
    near = sorted((Path(os.path.normpath(folder)) for folder in below), key=lambda each: _distance(each, source.parent))
    return near[0] if near else None


def _distance(folder: Path, other: Path) -> tuple[int, str]:
    """Return how many steps lead from one folder to the other."""
    common = len(Path(os.path.commonpath([folder, other])).parts)
    return len(folder.parts) + len(other.parts) - 2 * common, str(folder)


@lru_cache(maxsize=4)
def _files(root: Path) -> dict[str, list[str]]:
    """Return the folders of a checkout's files by their names: a header may be called anything."""
    by_name: dict[str, list[str]] = {}
    count = 0
    for folder, names in _folders(root):
        for name in names:
            by_name.setdefault(name, []).append(folder)
        count += len(names)
        if count > MOST_FILES:
            break
    return by_name


def _folders(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the folders of a checkout, and the names of the files in each."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _PASSED_OVER)
        yield folder, names


def folder_in_packages(header: str) -> Path | None:
    """Return the folder of an installed Python package that has the header, without importing anything."""
    return next((folder for folder in _package_folders() if is_file(folder / header)), None)


@lru_cache(maxsize=1)
def _package_folders() -> tuple[Path, ...]:
    site = Path(sysconfig.get_path("purelib"))
    patterns = ("nvidia/*/include", "nvidia/*/include/cccl", "cutlass_library/source/include", "torch/include")
    folders = [folder for pattern in patterns for folder in sorted(site.glob(pattern))]
    spec = importlib.util.find_spec("pybind11")
    folders += [Path(location) / "include" for location in (spec.submodule_search_locations or ())] if spec else []
    torch = site / "torch/include/torch/csrc/api/include"
    return (*folders, *([torch] if torch.is_dir() else []))


def remedy(header: str, source: Path) -> str:
    """Return where a header that is not here can be had: a submodule that is empty, a package; "" if unknown."""
    own = next((path for path in _empty_submodules(source) if _likely(path, header)), "")
    package = next((package for start, package in PACKAGES.items() if header.startswith(start)), "")
    update = f"git submodule update --init {shlex.quote(own)}" if own else ""
    return ", or ".join(filter(None, (update, f"pip install {package}" if package else "")))


def _likely(path: str, header: str) -> bool:
    """Return whether a submodule seems to hold a header: its name is in the header's, or CUTLASS holds CuTe."""
    first, name = header.split("/", maxsplit=1)[0].lower(), path.rpartition("/")[2].lower()
    return name.replace("-", "_") in (first, f"lib{first}") or (first == "cute" and name == "cutlass")


def _empty_submodules(source: Path) -> Iterator[str]:
    root = Checkout(source.parent).root
    text = _Texts(source).of(root / ".gitmodules")
    for match in re.finditer(r"^[ \t]*+path[ \t]*+=[ \t]*+(\S++)[ \t\r]*+$", text, re.MULTILINE):
        folder = root / match[1]
        if Checkout(root).holds(folder) and not (folder.is_dir() and any(folder.iterdir())):
            yield match[1]


# What a build passes to the compiler.

COMMANDS = "compile_commands.json"


def build_options(source: Path) -> tuple[tuple[str, ...], str]:
    """Return the options that compile_commands.json has for a source, and that file's path; none without an entry.

    It is searched for in the folders from the source up to its checkout's, and in folders beside those. Of its options
    only those count that a project's file may pass, see `nvcc_options`: includes, macros, the standard.
    """
    checkout = Checkout(source.parent)
    for folder in (source.absolute().parent, *source.absolute().parents):
        for file in (folder / COMMANDS, *sorted(folder.glob(f"*build*/{COMMANDS}"))):
            if is_file(file) and (options := _entry(file, source)):
                return options, str(file)
        if folder == checkout.root or not folder.is_relative_to(checkout.root):
            break
    return (), ""


def _entry(file: Path, source: Path) -> tuple[str, ...]:
    try:
        entries = json.loads(_Texts(source).of(file))
        for entry in entries if isinstance(entries, list) else ():
            folder = Path(entry["directory"])
            if is_same_file(folder / entry["file"], source):
                words = entry.get("arguments") or shlex.split(entry["command"])
                return tuple(_chosen([str(word) for word in words[1:]], folder))
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        pass
    return ()


def _chosen(words: list[str], folder: Path) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        name = QUOTED.get(word)
        text = f"{name}{next(rest, '')}" if name else word
        if re.match(r"-isystem[^=]", text):
            text = f"-isystem={text.removeprefix('-isystem')}"
        useful = (
            text.startswith(("-D", "-U", "-I", "-isystem=", "-std=", "--std="))
            or "constexpr" in text
            or "lambda" in text
        )
        if not useful or not is_allowed(text):
            continue
        (option,) = split([shlex.quote(text)], folder) or ("",)
        inside = option.removeprefix("-I").removeprefix("-isystem=")
        if option and not (option.startswith(FOLDERS) and not Path(inside).is_dir()):
            yield option


# What a build without compile_commands.json says in its files.

MOST_TEXTS = 400  # files that a source includes, and files of a build
MOST_INCLUDING = 2
_BUILD = re.compile(r"(GNU)?[Mm]akefile|configure|CMakeLists\.txt|setup\.py|BUILD|.*\.(mk|cmake|bzl)")
_DEFINED = re.compile(r"(?<![\w-])-D ?([A-Za-z_]\w*+)(?:=([\w.+-]++))?+(?![\w(=$])")
_CMAKE = re.compile(r"(?:add|target)_compile_definitions\s*\(([^()]*+)\)")
_CMAKE_WORD = re.compile(r"(?<![\w$-])([A-Z_][A-Z0-9_]*+)(?:=([\w.+-]++))?+(?![\w=$])")
_OTHER_MACHINES = re.compile(r"(?:\b|_)(?:HIP|ROCM|AMD|SYCL|OPENCL|MUSA)(?:\b|_)")
_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d+)")
_TESTED = re.compile(r"^[ \t]*+#[ \t]*+(?:el)?if(?:n?def)?\b([^\n]*+)", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*+#[ \t]*+include[ \t]*+[<\"]([^>\"\n]++)[>\"]", re.MULTILINE)


def macros_of_build(source: Path, given: Sequence[str], arch: str, refused: str) -> list[dict[str, Path]]:
    """Return options that define what a source tests in #if and its build defines, and the files that say so.

    First those alone that the declaration of what a compiler lacked is behind, be it in a header; then all that
    such a header tests; then those that the source itself tests. The nearest file of the build counts; a line that
    names architectures, for those alone.
    """
    texts = _Texts(source)
    own, *others = _with_own_headers(source, texts) or ("",)
    quoted = " ".join(re.findall(r"\"([^\"\n]*+)\"", refused))  # names, as nvcc writes them
    words = frozenset(re.findall(r"[A-Za-z_]\w*+", quoted))
    before = {word for text in (own, *others) for word in _conditions_of(text, words)} | words
    led = {word for text in (own, *others) if not words.isdisjoint(_declared(text)) for word in _tested(text)} | words
    ours = {re.split("=", option[2:])[0] for option in given if option.startswith("-D")}
    ours |= {word for text in (own, *others) for word in re.findall(r"#[ \t]*+define[ \t]++(\w++)", text)}
    macros: dict[str, tuple[str, Path]] = {}
    for file in _build_files(texts.checkout.root, source):
        for name, value in _macro_definitions(texts.of(file), re.sub(r"\D", "", arch)):
            if name not in ours and not _OTHER_MACHINES.search(name):
                macros.setdefault(name, (f"-D{name}={value or 1}", file))
    sets = [
        dict(macros[name] for name in sorted(macros) if name in wanted) for wanted in (before, led, led | _tested(own))
    ]
    return [options for number, options in enumerate(sets) if options and options not in sets[:number]]


def _tested(text: str) -> set[str]:
    return {word for line in _TESTED.findall(text) for word in re.findall(r"[A-Za-z_]\w*+", line)}


def _conditions_of(text: str, words: Collection[str]) -> Iterator[str]:
    """Yield what the conditions test that the declarations of these words are behind."""
    conditions: list[str] = []
    for line in text.splitlines():
        directive, _, rest = line.strip().removeprefix("#").lstrip().partition(" ")
        if line.lstrip().startswith("#") and directive in ("if", "ifdef", "ifndef"):
            conditions.append(rest)
        elif line.lstrip().startswith("#") and directive == "endif" and conditions:
            conditions.pop()
        elif conditions and not _declared(line).isdisjoint(words):
            yield from (word for condition in conditions for word in re.findall(r"[A-Za-z_]\w*+", condition))


def _declared(text: str) -> set[str]:
    """Return the names of types, macros and functions that a text seems to declare."""
    return set(re.findall(r"\b(?:struct|class|using|define|enum|concept)[ \t]++(\w++)", text)) | set(
        re.findall(r"^(?:[\w:*&]++[ \t]++){1,4}+(\w++)[ \t]*+\(", text, re.MULTILINE)
    )


def _macro_definitions(text: str, arch: str) -> Iterator[tuple[str, str]]:
    """Yield the macros that a build file defines for an architecture: names and values."""
    for line in (raw for raw in text.splitlines() if not raw.lstrip().startswith("#")):
        named = _ARCHITECTURE.findall(line)
        if not named or arch in named:
            yield from _DEFINED.findall(line)
    for match in _CMAKE.finditer(text):
        yield from _CMAKE_WORD.findall(match[1])


def _build_files(root: Path, source: Path) -> list[Path]:
    """Return the files of a checkout that may say how it is built, the nearest first."""
    files: list[Path] = []
    for folder, names in _folders(root):
        files += (Path(folder, name) for name in sorted(names) if _BUILD.fullmatch(name))
    near = sorted(files, key=lambda file: _distance(file.parent, source.absolute().parent))
    return [file for file in near[:MOST_TEXTS] if is_file(file)]


def _with_own_headers(source: Path, texts: _Texts) -> list[str]:
    """Return the texts of a source and of the headers of its checkout that it includes."""
    found: dict[Path, str] = {}
    waiting = [source.absolute()]
    while waiting and len(found) < MOST_TEXTS:
        file = waiting.pop(0)
        if file in found or not is_file(file):
            continue
        found[file] = texts.of(file)
        for header in _INCLUDE.findall(found[file]):
            beside = Path(os.path.normpath(file.parent / header))
            folder = None if is_file(beside) else folder_in_checkout(header, source)
            waiting.append(Path(os.path.normpath(folder / header)) if folder else beside)
    return list(found.values())


def including(source: Path) -> list[Path]:
    """Return the sources of a checkout that include another one, the nearest first."""
    source = source.absolute()
    found: list[Path] = []
    texts = _Texts(source)
    for folder, names in _folders(texts.checkout.root):
        for file in (Path(folder, name) for name in names if name.endswith(".cu") and is_file(Path(folder, name))):
            if file != source and source.name in (text := texts.of(file)):
                named = [each for each in _INCLUDE.findall(text) if Path(each).name == source.name]
                if any(_same_file(folder, each, source) for each in named):
                    found.append(file)
    return sorted(found, key=lambda file: _distance(file.parent, source.parent))[:MOST_INCLUDING]


def _same_file(folder: str, header: str, source: Path) -> bool:
    return Path(os.path.normpath(Path(folder, header))) == source or source.match(header.removeprefix("./"))
