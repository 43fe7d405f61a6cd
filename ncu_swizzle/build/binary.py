"""The cubin of a file that is already compiled, and of a kernel as its user describes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build import assembled, compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog import kernel_spec
from ncu_swizzle.catalog.family import BINARIES
from ncu_swizzle.catalog.kernel_spec import KernelSpec
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import read_bytes


def code_in(path: Path, toolchain: Toolchain, cached: bool = True) -> bytes:
    """Return the cubin in a file, PTX assembled unless cached; raise BadFile if it is neither."""
    content = read_bytes(path)
    if content.startswith(b"\x7fELF"):
        return content
    if path.suffix == ".ptx" or b".version" in content[:4096]:
        return assembled.cubin(content, path.name, toolchain, cached)
    raise BadFile(f"{path} is neither a cubin nor PTX", "create one with nvcc --cubin -arch=sm_90 -lineinfo FILE.cu")


def cubin_of(spec: KernelSpec, toolchain: Toolchain) -> Cubin:
    """Return the cubin of a described kernel, whatever its launch. Raises what compiling it raises."""
    if spec.source.suffix in BINARIES:
        return Cubin(code_in(spec.source, toolchain), spec.source.name)
    launched = replace(spec, grid="1", block="1", args=(), tolerance={}, entry=spec.entry or "any")
    family = kernel_spec.family(launched)
    return Cubin(compiled.cubin(family, family.kernels[-1], ARCH, toolchain, cached=False), spec.source.name)
