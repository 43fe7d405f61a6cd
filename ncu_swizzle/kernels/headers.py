"""Headers that a source includes and the compiler does not find: where they are, or where they can be had.

They are searched for in the source's checkout and in installed packages. compile_commands.json says what a build passes
to the compiler.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ncu_swizzle.base.files import is_file, is_same_file
from ncu_swizzle.kernels import nvcc_options
from ncu_swizzle.kernels.nvcc_options import Checkout

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
        content = nvcc_options.source_bytes(str(file), (self.checkout,), self._left)
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
        name = nvcc_options.QUOTED.get(word)
        text = f"{name}{next(rest, '')}" if name else word
        if re.match(r"-isystem[^=]", text):
            text = f"-isystem={text.removeprefix('-isystem')}"
        useful = (
            text.startswith(("-D", "-U", "-I", "-isystem=", "-std=", "--std="))
            or "constexpr" in text
            or "lambda" in text
        )
        if not useful or not nvcc_options.is_allowed(text):
            continue
        (option,) = nvcc_options.split([shlex.quote(text)], folder) or ("",)
        inside = option.removeprefix("-I").removeprefix("-isystem=")
        if option and not (option.startswith(nvcc_options.FOLDERS) and not Path(inside).is_dir()):
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
