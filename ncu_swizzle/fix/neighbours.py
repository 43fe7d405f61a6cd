"""The other kernels of a source: a patch of one must leave them as they are, or be proved for them too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ncu_swizzle.build import compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.elf import Cubin

_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}")  # of a source's path, in names of one file's own


def code_of(target: Target, toolchain: Toolchain, cached: bool) -> Mapping[str, bytes]:
    """Return the code of every kernel in a target's source, by its symbol."""
    code = compiled.cubin(target.family, target.kernel, target.family.arch or ARCH, toolchain, cached)
    cubin = Cubin(code, target.source.name)
    return {_HASH.sub(r"\1", symbol): cubin.section(f".text.{symbol}") for symbol in cubin.kernels}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes], own: str) -> Iterator[str]:
    """Yield the kernels, except for one's own, whose code a patch changes."""
    for symbol, code in before.items():
        if symbol != _HASH.sub(r"\1", own) and after.get(symbol) != code:
            yield symbol
