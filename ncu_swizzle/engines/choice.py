"""Choose the engine for a request."""

from __future__ import annotations

import importlib.util

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import EnvironmentLacking
from ncu_swizzle.ncu import gpu, installed
from ncu_swizzle.profiles.engine import EMULATED, NCU, RECORDED, Engine


def choose_engine(request: Request) -> Engine:
    """Return the requested engine, or for `auto` the best one available.

    That is ncu if there are a GPU, PyCUDA and ncu; else, if there is a compiler, the emulated engine with the
    recordings; else the recordings alone.
    """
    if request.engine != "auto":
        return Engine(request.engine)
    reason = _lacking(request)
    if not reason:
        return Engine(NCU)
    from ncu_swizzle.build.toolchain import INSTALL, Toolchain

    if missing := Toolchain(request.nvcc).lacking():
        return Engine(RECORDED, f"{reason}; to compute wavefronts, {missing}: {INSTALL}")
    return Engine(EMULATED, reason, beside=True)


def engine_for(target: Target, request: Request) -> Engine:
    """Return the engine for one kernel: a cubin or PTX file can only be emulated, and nobody recorded a function."""
    if request.engine == "auto" and target.compiled:
        return Engine(EMULATED, f"{target.kernel.file} is already compiled; only sources can be built and launched")
    if request.engine == "auto" and target.python and (reason := _lacking(request)):
        return Engine(EMULATED, reason)  # its own compiler does without nvcc
    return choose_engine(request)


def _lacking(request: Request) -> str:
    """Return why ncu cannot measure here; empty if it can."""
    if reason := gpu.absent():
        return reason
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed: pip install 'ncu-swizzle[gpu]'"
    try:
        installed.find(request.ncu)
    except EnvironmentLacking as error:
        return str(error)
    return ""
