"""A kernel's cubin, from the cache or compiled now, by PyCUDA or by our own toolchain."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ncu_swizzle import cache
from ncu_swizzle.build import recipe
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.cubin import symbols
from ncu_swizzle.cubin.opened import opened
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import slug

KIND = "cubins"


class Refused(Exception):
    """The compiler rejected the source; the text is what it printed."""


class Compiler(Protocol):
    """What compiles a translation unit."""

    def version(self) -> str:
        """Return release and build, such as 13.0 (V13.0.88)."""

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the unit's cubin; raise Refused."""


def cubin(family: Family, kernel: Kernel, arch: str, compiler: Compiler, cached: bool = True) -> bytes:
    """Return the kernel's cubin, compiled unless cached for the same sources, options and compiler.

    Without `cached` the cache is neither read nor written. One in it that cannot be opened or lacks the kernel is
    dropped and compiled again; see also `forget`. Raises ProgramFailed (for a user's source: UsageError) if it does not
    compile, EnvironmentLacking if headers or the compiler are missing.
    """
    key = cache_key(family, kernel, arch, compiler.version())
    cacheable = cached and recipe.cacheable(family, kernel)
    if cacheable and (kept := cache.load(KIND, key)):
        with contextlib.suppress(NcuSwizzleError):
            symbols.find(opened(kept, family.source(kernel).name), kernel.entry)
            return kept
        cache.drop(KIND, key)
    unit, include = recipe.unit(family, kernel), recipe.include_folders(family)
    try:
        code = compiler.compile(unit, recipe.options(family, kernel), arch, include)
    except Refused as error:
        specific = recipe.needed_arch(str(error))
        if specific.rstrip("af") != arch:
            raise recipe.failure(family, kernel, str(error)) from error
        try:  # its code for sm_90a runs wherever that for sm_90 does that needs such instructions
            code = compiler.compile(unit, recipe.options(family, kernel), specific, include)
        except Refused as again:
            raise recipe.failure(family, kernel, str(again)) from again
    if cacheable:
        cache.save(KIND, key, code)
    return code


def forget(family: Family, kernel: Kernel, arch: str, compiler: Compiler) -> bool:
    """Drop the cached cubin, which turned out to be of no use; return whether there was one."""
    return cache.drop(KIND, cache_key(family, kernel, arch, compiler.version()))


def cache_key(family: Family, kernel: Kernel, arch: str, compiler_version: str) -> str:
    """Return the cubin's key in the cache, which changes with the sources, the options and the compiler."""
    return f"{slug(kernel.name)}-{arch}-{recipe.digest(family, kernel, arch, compiler_version)[:32]}"
