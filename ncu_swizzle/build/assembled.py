"""A PTX file's cubin, from the cache or assembled now."""

from __future__ import annotations

import contextlib

from ncu_swizzle import cache
from ncu_swizzle.build.compiled import KIND
from ncu_swizzle.build.toolchain import PTXAS, Toolchain
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.digest import sha256, sha256_of_texts
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import slug


def cubin(ptx: bytes, name: str, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin of a PTX file of this name, assembled unless cached for the same text and assembler.

    It is for `arch`, by default the file's own target. A cached one that cannot be opened is dropped; see also
    `forget`. Raises what `Toolchain.assemble` raises.
    """
    entry = _entry(ptx, name, toolchain, arch) if cached else ""
    if entry and (code := cache.load(KIND, entry)):
        with contextlib.suppress(NcuSwizzleError):
            Cubin(code, name)
            return code
        cache.drop(KIND, entry)
    code = toolchain.assemble(ptx, name, arch)
    if entry:
        cache.save(KIND, entry, code)
    return code


def forget(ptx: bytes, name: str, toolchain: Toolchain, arch: str = "") -> bool:
    """Drop the cached cubin, which turned out to be of no use; return whether there was one."""
    entry = _entry(ptx, name, toolchain, arch)
    return bool(entry) and cache.drop(KIND, entry)


def _entry(ptx: bytes, name: str, toolchain: Toolchain, arch: str) -> str:
    """Return the name of the cache's entry; empty if the assembler is not a working one."""
    try:
        version = toolchain.version(PTXAS)
    except NcuSwizzleError:  # assembling says it better
        return ""
    return f"{slug(name)}-ptx-{sha256_of_texts(sha256(ptx), version, arch)[:32]}"
