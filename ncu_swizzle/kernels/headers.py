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
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ncu_swizzle.base.files import is_file
from ncu_swizzle.kernels import nvcc_options
from ncu_swizzle.kernels.nvcc_options import Checkout

MOST_FILES = 200_000  # of a checkout that are looked at
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tcc", ".cu", ".h.inc")
_PASSED_OVER = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv"}

# Folders of headers, by what installs them: the start of a header's name, and what pip calls the package.
PACKAGES = {
    "cublas": "nvidia-cublas", "curand": "nvidia-curand", "cusparse": "nvidia-cusparse", "cusolver": "nvidia-cusolver",
    "cufft": "nvidia-cufft", "npp": "nvidia-npp", "nvjpeg": "nvidia-nvjpeg", "cudnn": "nvidia-cudnn-cu13",
    "nccl": "nvidia-nccl-cu13", "cutlass/": "nvidia-cutlass", "cute/": "nvidia-cutlass", "cub/": "nvidia-cuda-cccl",
    "thrust/": "nvidia-cuda-cccl", "cuda/std/": "nvidia-cuda-cccl", "nvtx3/": "nvidia-nvtx", "torch/": "torch",
    "ATen/": "torch", "c10/": "torch", "pybind11/": "pybind11",
}  # fmt: skip


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
    """Return the folders of a checkout's headers by the headers' names."""
    found: dict[str, list[str]] = {}
    count = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _PASSED_OVER)
        for name in names:
            if name.endswith(_HEADERS) or "." not in name:
                found.setdefault(name, []).append(folder)
        count += len(names)
        if count > MOST_FILES:
            break
    return found


def folder_in_packages(header: str) -> Path | None:
    """Return the folder of an installed Python package that has the header, without importing anything."""
    return next((folder for folder in _package_folders() if is_file(folder / header)), None)


@lru_cache(maxsize=1)
def _package_folders() -> tuple[Path, ...]:
    site = Path(sysconfig.get_path("purelib"))
    patterns = ("nvidia/*/include", "nvidia/*/include/cccl", "cutlass_library/source/include", "torch/include")
    found = [folder for pattern in patterns for folder in sorted(site.glob(pattern))]
    spec = importlib.util.find_spec("pybind11")
    found += [Path(place) / "include" for place in (spec.submodule_search_locations or ())] if spec else []
    torch = site / "torch/include/torch/csrc/api/include"
    return (*found, *([torch] if torch.is_dir() else []))


def remedy(header: str, source: Path) -> str:
    """Return where a header that is not here can be had: a submodule that is empty, a package; "" if unknown."""
    for start, package in PACKAGES.items():
        if header.startswith(start):
            own = next((path for path in _empty_submodules(source) if _likely(path, header)), "")
            update = f"git submodule update --init {shlex.quote(own)}, or " if own else ""
            return f"{update}pip install {package}"
    own = next((path for path in _empty_submodules(source) if _likely(path, header)), "")
    return f"git submodule update --init {shlex.quote(own)}" if own else ""


def _likely(path: str, header: str) -> bool:
    """Return whether a submodule seems to hold a header: its name is in the header's, or CUTLASS holds CuTe."""
    first, name = header.split("/", maxsplit=1)[0].lower(), path.rpartition("/")[2].lower()
    return name.replace("-", "_") in (first, f"lib{first}") or (first == "cute" and name == "cutlass")


def _empty_submodules(source: Path) -> Iterator[str]:
    root = Checkout(source.parent).root
    file = root / ".gitmodules"
    if not is_file(file):
        return
    for match in re.finditer(
        r"^[ \t]*+path[ \t]*+=[ \t]*+(\S++)[ \t\r]*+$", file.read_text(errors="replace"), re.MULTILINE
    ):
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
        entries = json.loads(file.read_bytes())
        for entry in entries if isinstance(entries, list) else ():
            folder = Path(entry["directory"])
            if os.path.realpath(folder / entry["file"]) == os.path.realpath(source):
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
