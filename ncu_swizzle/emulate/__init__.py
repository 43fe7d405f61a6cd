"""Executes SASS in NumPy to count how often each instruction issues and the wavefronts of each shared-memory access.
It depends only on `smem` and `errors` and could stand alone as a package.

    text of nvdisasm → code.Code → run.emulate(code, counts.Launch(…)) → counts.Counts

Unknown values (mostly data from global memory) stay unknown and are named; nothing is guessed. docs/emulator.md
describes the limits.
"""

from __future__ import annotations

from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Return `engines.emulation` for ``emulate.engine``, the documented name before 0.1.0."""
    if name != "engine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings
    from importlib import import_module

    warnings.warn("emulate.engine is now ncu_swizzle.profile_binary", DeprecationWarning, stacklevel=2)
    return import_module("ncu_swizzle.engines.emulation")
