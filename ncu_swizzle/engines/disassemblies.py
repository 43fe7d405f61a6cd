"""The last few disassemblies, remembered: a sweep emulates one cubin at many sizes."""

from __future__ import annotations

from ncu_swizzle.build.toolchain import NVDISASM, Toolchain
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.digest import sha256

MOST, MOST_CHARACTERS = 8, 4 << 20  # of those kept, and of the longest of them

_texts: dict[tuple[str, str, int], str] = {}  # the last one used is the last


def disassembled(cubin: Cubin, toolchain: Toolchain) -> str:
    """Return the disassembly of all functions in a cubin; raises what `Toolchain.disassemble` raises."""
    program = toolchain.find(NVDISASM)
    key = (sha256(cubin.data), str(program), program.stat().st_mtime_ns)
    if (text := _texts.pop(key, None)) is None:
        text = toolchain.disassemble(cubin.data, cubin.name)
    if len(text) <= MOST_CHARACTERS:
        _texts[key] = text
        for oldest in list(_texts)[:-MOST]:
            _texts.pop(oldest, None)
    return text
