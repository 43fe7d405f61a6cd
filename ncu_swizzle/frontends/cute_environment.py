"""What CuTe DSL reads from the environment when it is imported: what to compile for, and what to keep."""

from __future__ import annotations

from pathlib import Path

PREFIX = "kernel_cutlass_"  # of a kernel's symbol, before its name in Python and the types of its parameters
ACCELERATED = 90  # from sm_90 on the DSL compiles for the architecture with its own instructions, such as sm_90a


def variables(folder: Path, arch: str) -> dict[str, str]:
    """Return the variables; what the DSL writes goes to the folder."""
    plain = arch[-1] in "af" or int(arch.removeprefix("sm_")) < ACCELERATED
    return {
        "CUTE_DSL_ARCH": arch if plain else f"{arch}a",
        "CUTE_DSL_KEEP": "cubin",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "CUTE_DSL_CACHE_DIR": str(folder),
        "CUTE_DSL_LINEINFO": "1",
    }
