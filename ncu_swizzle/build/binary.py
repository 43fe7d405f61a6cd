"""The cubin of a file that is already compiled, and of a kernel as its user describes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build import assembled, compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog import kernel_spec
from ncu_swizzle.catalog.family import BINARIES
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import BadFile, UsageError
from ncu_swizzle.files import read_bytes


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
        return assembled.cubin(content, path.name, toolchain, cached, arch)
    raise BadFile(f"{path} is neither a cubin nor PTX", "create one with nvcc --cubin -arch=sm_90 -lineinfo FILE.cu")


def cubin_of(spec: KernelSpec, toolchain: Toolchain) -> Cubin:
    """Return the cubin of a described kernel, whatever its launch. Raises what compiling it raises."""
    if spec.source.suffix in BINARIES:
        return Cubin(code_in(spec.source, toolchain, arch=spec.arch), spec.source.name)
    launched = replace(spec, grid="1", block="1", args=(), tolerance={}, entry=spec.entry or "any")
    family = kernel_spec.family(launched)
    code = compiled.cubin(family, family.kernels[-1], family.arch or ARCH, toolchain, cached=False)
    return Cubin(code, spec.source.name)
