"""What to type for a kernel whose launch is not described: options, and an entry for ncu-swizzle.toml."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Any

from ncu_swizzle.build import launch_guess
from ncu_swizzle.build.binary import cubin_of
from ncu_swizzle.build.launch_guess import LaunchGuess
from ncu_swizzle.build.project_entry import ProjectEntry
from ncu_swizzle.build.signature import signature_in_source, signature_of
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import BINARIES
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.cubin import symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import LaunchLacking, NcuSwizzleError


def completed(error: LaunchLacking, toolchain: Toolchain = Toolchain()) -> tuple[str, str]:
    """Return the options that the kernel's command lacks, and its entry for ncu-swizzle.toml; empty if unknown."""
    spec = error.spec
    if not isinstance(spec, KernelSpec):
        return error.hint, ""
    guess = guess_of(spec, toolchain)
    given = {"--grid": spec.grid, "--block": spec.block, "--shared": spec.shared not in ("", "0"), "--arg": spec.args}
    lacking = [option for option, value in given.items() if not value]
    return guess.options(lacking), ProjectEntry(spec.name, spec.source.name, spec, guess).text().rstrip()


def in_keywords(options: str) -> str:
    """Return command-line options as keywords of `ncu_swizzle.profile`; anything else unchanged."""
    if not options.startswith("--"):
        return options
    return ", ".join(f"{name}={value!r}" for name, value in keywords(options).items())


def keywords(options: str) -> dict[str, Any]:
    """Return command-line options as plain data: the problem's sizes, and the arguments as one list."""
    words = shlex.split(options)
    values: dict[str, list[str]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        values.setdefault(name.removeprefix("--"), []).append(value)
    sizes = {name: int(size) for name, _, size in (text.partition("=") for text in values.pop("problem", []))}
    given: dict[str, Any] = {"problem": sizes} if sizes else {}
    return given | {"args" if name == "arg" else name: texts if name == "arg" else texts[0]
                    for name, texts in values.items()}  # fmt: skip


def guess_of(spec: KernelSpec, toolchain: Toolchain) -> LaunchGuess:
    """Return a plausible launch, from the compiled kernel, or from its source if that cannot be compiled here."""
    try:
        cubin = cubin_of(spec, toolchain)
        return guess_in(cubin, symbols.find(cubin, spec.entry), spec, toolchain)
    except NcuSwizzleError:
        return launch_guess.guess(signature_in_source(source_text(spec), spec.entry or spec.name), _sizes(spec))


def guess_in(cubin: Cubin, symbol: str, spec: KernelSpec, toolchain: Toolchain) -> LaunchGuess:
    """Return a plausible launch of one kernel of a cubin."""
    disassembled = partial(toolchain.disassemble, cubin.data, cubin.name)
    return launch_guess.guess(signature_of(cubin, symbol, source_text(spec), disassembled), _sizes(spec))


def _sizes(spec: KernelSpec) -> dict[str, int]:
    return {parameter.name: parameter.default for parameter in spec.problem}


def source_text(spec: KernelSpec) -> str:
    """Return the text that declares a kernel, its headers' included; empty for what is compiled already."""
    if spec.source.suffix in BINARIES:
        return ""
    return "\n".join(text for _, text in includes.texts([spec.source], includes.folders(spec.options)))
