"""Translation units, compiled by halves: the device's as unoptimised PTX, the host's as assembly.

A unit is a source and how it is compiled: as a target, as ``compile_commands.json`` says, or like another one. It can
be compiled in a copy of its project in which some files have other texts.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import BadFile, DamagedFile, UsageError
from ncu_swizzle.base.files import parse_json, read_json
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.kernels import limits, nvcc_options, toolchain
from ncu_swizzle.kernels.family import SOURCE, Target
from ncu_swizzle.kernels.nvcc_options import Checkout
from ncu_swizzle.kernels.toolchain import ARCH, INHERITED, PTX_ONLY, Refused, Toolchain

CPP = (".cu", ".cpp", ".cc", ".cxx", ".c++", ".c")  # what nvcc compiles, by itself or by the host's compiler
# Debug information would be compared, too, and -G excludes -lineinfo. -O stays: it is the host compiler's, and the
# device's optimiser is turned off behind it.
_DROPPED = (
    "-G", "--device-debug", "-g", "--debug", "-lineinfo", "--generate-line-info", "-src-in-ptx", "--source-in-ptx",
    "-res-usage", "--resource-usage", "-c", "--compile", "-MD", "-MMD", "-MP", "-forward-unknown-to-host-compiler",
    "--forward-unknown-to-host-compiler",
)  # fmt: skip
_DROPPED_WITH_VALUES = (
    "-o", "--output-file", "-MT", "-MQ", "-MF", "-x", "--x", "-Xptxas", "--ptxas-options", "-dopt", "--dopt", "-Ofc",
    "--Ofast-compile", "-opt-info", "--optimization-info", "-t", "--threads",
)  # fmt: skip
_ARCHITECTURES = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code")
_FAT_BINARY = re.compile(r'\t\.section (?:\.nv_fatbin|__nv_relfatbin), "a"\n.*?(?:\n\.text\n|\Z)', re.DOTALL)
KIND = "halves"


@dataclass(frozen=True, kw_only=True)
class TranslationUnit:
    """A translation unit: its source, and the options, include folders and architectures that it is compiled with."""

    source: Path
    options: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    archs: tuple[str, ...] = ("sm_90a",)
    origin: str = ""  # where its options are from; empty: a described kernel
    undescribed: bool = False  # nothing says that it is compiled by itself
    device_only: bool = False  # its host half is not needed, and need not compile

    @property
    def folders(self) -> list[Path]:
        """Where headers are searched."""
        return [*limits.folders(self.options), *self.include]


@dataclass(frozen=True, kw_only=True)
class Halves:
    """A unit compiled for one architecture. Names of internal symbols, and paths, are the same in every copy."""

    ptx: str  # unoptimised; empty if the unit is not CUDA
    host: str  # the host compiler's output without the fat binary; empty for the device's half alone
    read: tuple[Path, ...]  # in the copy


@dataclass(frozen=True)
class Tree:
    """A copy of a project's files, or the project itself: its folder, and the folder that it replaces."""

    root: Path
    project: Path

    @property
    def is_original(self) -> bool:
        return self.root == self.project

    def original(self, path: Path) -> Path:
        """Return the project's file that a copy replaces."""
        return self.project / path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def placed(self, path: Path) -> Path:
        """Return where a file of the project is."""
        return self.root / path.relative_to(self.project) if path.is_relative_to(self.project) else path

    def unit(self, unit: TranslationUnit) -> TranslationUnit:
        """Return a unit of the project as it is compiled here."""
        if self.is_original:
            return unit
        options = tuple(self._option(option) for option in unit.options)
        include = tuple(map(self.placed, unit.include))
        return replace(unit, source=self.placed(unit.source), options=options, include=include)

    def _option(self, option: str) -> str:
        for form in (*nvcc_options.FOLDERS, nvcc_options.HEADER):
            if option.startswith(f"{form}/"):
                return form + str(self.placed(Path(option.removeprefix(form))))
        return option

    def told(self, text: str) -> str:
        """Return a text that names paths of the project, not of the copy."""
        return text if self.is_original else text.replace(f"{self.root}/", f"{self.project}/")


def of_target(target: Target) -> TranslationUnit:
    """Return the unit of a kernel. Raises what its options and headers raise."""
    family, kernel = target.family, target.kernel
    return TranslationUnit(
        source=limits.plain(toolchain.source(family, kernel)),
        options=tuple(_kept(toolchain.options(family, kernel))),
        include=tuple(map(limits.plain, toolchain.include_folders(family))),
        archs=(architecture(family.architecture(kernel, "")),),
    )


def architecture(asked: str) -> str:
    """Return the architecture to compile for: what was asked for, else what runs the instructions of most kernels."""
    return asked or f"{ARCH}a"


def compiled(unit: TranslationUnit, arch: str, toolchain: Toolchain, tree: Tree, cached: bool = True) -> Halves:
    """Return a unit's halves for an architecture, from the cache if its sources are known and unchanged.

    `unit` is the project's, and is compiled in the tree. Raises UsageError if it does not compile.
    """
    return Compilation(tree.unit(unit), arch, toolchain, tree).halves(cached and tree.is_original)


@dataclass(frozen=True)
class Compilation:
    """One unit for one architecture, in one tree."""

    unit: TranslationUnit
    arch: str
    toolchain: Toolchain
    tree: Tree

    def halves(self, cached: bool) -> Halves:
        key = self._key if cached else ""
        if key and (kept := cache.load(KIND, key)) is not None:
            return _of_json(kept)
        halves = self._compiled()
        if key:
            content = {"ptx": halves.ptx, "host": halves.host, "read": list(map(str, halves.read))}
            cache.save(KIND, key, in_json(content).encode())
        return halves

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Return nvcc's options: the unit's, and what makes unoptimised PTX."""
        number = self.arch.removeprefix("sm_")
        # __FILE__ has the path of the copy, which a string in either half would show.
        placed = () if self.tree.is_original else (f"-ffile-prefix-map={self.tree.root}={self.tree.project}",)
        mapped = (f"-Xcompiler={option}" for option in placed)
        target = f"-gencode=arch=compute_{number},code=compute_{number}"
        half = (PTX_ONLY,) if self.unit.device_only else ()
        return (*self.unit.options, *mapped, target, "-lineinfo", "-Xcicc", "-O0", *half)

    @property
    def _key(self) -> str:
        """The unit's name in the cache; empty if what it includes is not known before it is compiled."""
        texts = dict(limits.texts([self.unit.source], self.unit.folders))
        if not limits.knows_includes(self.unit.options, texts.values()):
            return ""
        sources = [part for path, text in texts.items() for part in (str(path), text)]
        inherited = [os.environ.get(name, "") for name in INHERITED]
        folders = map(str, self.unit.include)
        return sha256_of_texts(self.toolchain.version(), *self.options, *folders, *inherited, *sources)[:40]

    def _compiled(self) -> Halves:
        source = self.unit.source
        nvcc_options.refuse_shell(self.unit.options)
        for folder in self.unit.include:
            nvcc_options.refuse_shell_in_folder(folder)
        text = toolchain.including(source)
        try:
            translated = self.toolchain.translate(text, source.suffix, self.options, self.unit.include)
        except Refused as error:
            told = self.tree.told(str(error))
            raise UsageError(f"nvcc could not compile {source.name}:\n{told}", f"correct {source.name}") from error
        # The compiler's name for the unit is a digest of the path that it was compiled at; names keep their lengths.
        module = translated.module.removeprefix("_")

        def alike(text: str) -> str:
            return self.tree.told(text.replace(module, "0" * len(module)) if module else text)

        return Halves(ptx=alike(translated.ptx), host=alike(_FAT_BINARY.sub("", translated.host)), read=translated.read)


def _of_json(kept: bytes) -> Halves:
    content: Mapping[str, Any] = parse_json(kept, "a unit in the cache")
    return Halves(ptx=content["ptx"], host=content["host"], read=tuple(map(Path, content["read"])))


# Units that compile_commands.json names, as CMake, Meson and Bazel write it. The file is the checkout's: what it may
# pass to nvcc is what ncu-swizzle.toml may.

COMMANDS = nvcc_options.COMMANDS


def command_files(project: Path) -> list[Path]:
    """Return the project's compile_commands.json, at its top or in a folder of builds."""
    return sorted(file for file in (project / COMMANDS, *project.glob(f"*/{COMMANDS}")) if file.is_file())


def of_commands(file: Path, trusted: bool = False) -> Iterator[tuple[Path, TranslationUnit | UsageError]]:
    """Yield each source that the file names, with its unit, or why that is not compiled. Raises BadFile."""
    try:
        entries = read_json(file)
    except DamagedFile as error:
        raise BadFile(str(error), "let the build write it again") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadFile(f"{file} is not a list of commands", "let the build write it again")
    checkout = Checkout(file.parent, trusted)
    for entry in entries:
        folder = file.parent / str(entry.get("directory", "."))
        source = limits.plain(folder / str(entry.get("file", "")))
        try:
            yield source, _of_command(entry, source, folder, checkout, str(file))
        except UsageError as error:
            yield source, error
        except ValueError as error:  # quotes that are not closed
            yield source, UsageError(f"{file}: {source.name}: {error}", "let the build write it again")


def _of_command(
    entry: Mapping[str, Any], source: Path, folder: Path, checkout: Checkout, origin: str
) -> TranslationUnit:
    arguments = entry.get("arguments")
    words = list(map(str, arguments)) if isinstance(arguments, list) else shlex.split(str(entry.get("command", "")))
    nvcc = bool(words) and Path(words[0]).name.startswith("nvcc")
    archs, rest = _without_architectures(words[1:])
    kept = [word for word in _kept(rest) if limits.plain(folder / word) != source]
    if not nvcc:
        kept = list(_for_nvcc(kept))
    options = checkout.options(nvcc_options.split([shlex.join(kept)], folder), origin)
    return TranslationUnit(source=source, options=options, archs=archs or (architecture(""),), origin=origin)


def _without_architectures(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the architectures that options compile for, and the other options."""
    archs: dict[str, None] = {}
    rest: list[str] = []
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=")
        if name in _ARCHITECTURES:
            value = value if equals else next(following, "")
            archs |= dict.fromkeys(f"sm_{number}" for number in re.findall(r"compute_(\d+[af]?)", value))
            if name in ("-arch", "--gpu-architecture"):
                archs |= dict.fromkeys(re.findall(r"\bsm_\d+[af]?\b", value))
        else:
            rest.append(word)
    return tuple(archs), rest


def _kept(words: Sequence[str]) -> Iterator[str]:
    """Yield the options that change what a unit means."""
    following = iter(words)
    for word in following:
        name, equals, _ = word.partition("=")
        if name in _DROPPED_WITH_VALUES:
            _ = None if equals else next(following, None)
        elif word in ("-dc", "--device-c"):
            yield "-rdc=true"
        elif word not in _DROPPED:
            yield word


_OWN_FORMS = re.compile(r"-[DUI].*|-(isystem|include)(=.*)?|-std=c\+\+\d\d")


def _for_nvcc(words: Sequence[str]) -> Iterator[str]:
    """Yield options of a host compiler as nvcc takes them."""
    following = iter(words)
    for word in following:
        if _OWN_FORMS.fullmatch(word):
            yield word
            if word in ("-D", "-U", "-I", "-isystem", "-include"):
                yield next(following, "")
        elif not word.startswith("-W"):  # warnings change no code
            yield f"-Xcompiler={word}"


def like(unit: TranslationUnit, source: Path) -> TranslationUnit:
    """Return the unit of a source without known compiler options: those of another unit."""
    return replace(unit, source=source, origin=f"the options of {unit.source.name}", undescribed=True)


def is_compiled(file: Path) -> bool:
    """Return whether nvcc compiles files of this kind."""
    return file.suffix.lower() in CPP or file.suffix == SOURCE
