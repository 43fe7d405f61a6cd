"""The cubin of a compiled file or a described kernel; and what to type for one whose launch is not described."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, LaunchLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import read_bytes, slug
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import kernels_only, limits
from ncu_swizzle.kernels.descriptions import family_of_spec
from ncu_swizzle.kernels.family import BINARIES, Family
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.signature import KernelSignature, signature_of
from ncu_swizzle.kernels.toolchain import ARCH, KIND, PTXAS, Toolchain

# A PTX file's cubin, from the cache or assembled now.


def assembled(ptx: bytes, name: str, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin of a PTX file of this name, assembled unless cached for the same text and assembler.

    It is for `arch`, by default the file's own target. Raises what `Toolchain.assemble` raises.
    """
    version = toolchain.working_version(PTXAS) if cached else ""
    entry = f"{slug(name)}-ptx-{sha256_of_texts(sha256(ptx), version, arch)[:32]}" if version else ""
    if entry and (code := cache.load(KIND, entry)):
        return code
    code = toolchain.assemble(ptx, name, arch)
    if entry:
        cache.save(KIND, entry, code)
    return code


# The cubin of a file that is already compiled, and of a kernel as its user describes it.


def code_in(path: Path, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin in a file, PTX assembled unless cached, for its own target or `arch`.

    Raises BadFile if it is neither, and UsageError for a cubin of another architecture.
    """
    content = read_bytes(path)
    if content.startswith(b"\x7fELF"):
        has = f"sm_{Cubin(content, path.name).sm}" if arch else ""
        if has != arch.rstrip("af"):
            raise UsageError(f"{path.name} is compiled for {has}, not for {arch}", "leave out --arch")
        return content
    if path.suffix == ".ptx" or b".version" in content[:4096]:
        return assembled(content, path.name, toolchain, cached, arch)
    raise BadFile(f"{path} is neither a cubin nor PTX", "create one with nvcc --cubin -arch=sm_90 -lineinfo FILE.cu")


def cubin_of(spec: KernelSpec, toolchain: Toolchain) -> Cubin:
    """Return the cubin of a described kernel, whatever its launch. Raises what compiling it raises."""
    if spec.source.suffix in BINARIES:
        return Cubin(code_in(spec.source, toolchain, arch=spec.launch.arch), spec.source.name)
    family = family_without_launch(spec)
    code = kernels_only.compiled(family, family.kernels[-1], family.arch or ARCH, toolchain, cached=False).code
    return Cubin(code, spec.source.name)


def family_without_launch(spec: KernelSpec) -> Family:
    """Return the family of a kernel that is compiled whatever its launch. Raises what `family_of_spec` raises."""
    launch = replace(spec.launch, grid="1", block="1", shared="", args=(), entry=spec.launch.entry or kernels_only.ANY)
    return family_of_spec(replace(spec, launch=launch, tolerance={}))


def completed(error: LaunchLacking, toolchain: Toolchain = Toolchain()) -> str:
    """Return what to type for a kernel that lacks a launch. Raises UsageError if it does not even compile."""
    if isinstance(error.spec, KernelSpec) and not error.spec.to_do:
        try:
            cubin = cubin_of(error.spec, toolchain)
            if entry := error.spec.launch.entry:
                names.find(cubin, entry)
        except UsageError as refused:
            raise refused from error
        except NcuSwizzleError:  # no compiler here
            pass
    return error.hint


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


def signed(cubin: Cubin, symbol: str, spec: KernelSpec | None, disassembled: str) -> KernelSignature:
    """Return a compiled kernel's parameters, with their names from its source or its headers."""
    source = ""
    if spec is not None and spec.source.suffix not in BINARIES:
        source = "\n".join(text for _, text in limits.texts([spec.source], limits.folders(spec.options)))
    return signature_of(cubin, symbol, source, lambda: disassembled)
