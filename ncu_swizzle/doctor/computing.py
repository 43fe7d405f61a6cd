"""Checks of what the emulated engine needs: CUDA's compiler, its disassembler, and a host compiler. No GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.build.compiled import Refused
from ncu_swizzle.build.toolchain import ARCH, NVCC, NVDISASM, Toolchain
from ncu_swizzle.doctor.diagnosis import HealthCheck, Status, bad, good
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError

INSTALL = "pip install 'ncu-swizzle[nvcc]'"
ANOTHER = f"{INSTALL}, or name a working one: ncu-swizzle doctor --nvcc PATH"
HOST = "host compiler"
ROLES = {NVCC: "compiler", NVDISASM: "disassembler"}
KERNEL = "__global__ void nothing() {}\n"


def checks(toolchain: Toolchain) -> Iterator[HealthCheck]:
    """Yield whether the tools are there, and, if they are, whether they compile and disassemble a kernel."""
    tools = [_tool(toolchain, tool) for tool in ROLES]
    yield from tools
    if all(check.outcome is Status.good for check in tools):
        yield _tried(toolchain)


def _tool(toolchain: Toolchain, tool: str) -> HealthCheck:
    try:
        return good(ROLES[tool], f"{toolchain.find(tool)}, CUDA {toolchain.version(tool)}")
    except EnvironmentLacking as error:
        return bad(ROLES[tool], str(error), INSTALL if "not found" in str(error) else error.hint)
    except NcuSwizzleError as error:
        return bad(ROLES[tool], f"{tool} does not work: {error}", ANOTHER)


def _tried(toolchain: Toolchain) -> HealthCheck:
    """Return whether a kernel can be compiled and disassembled; nvcc needs the host compiler for its preprocessor."""
    try:
        toolchain.disassemble(toolchain.compile(KERNEL, (), ARCH, ()), "kernel.cubin")
    except EnvironmentLacking as error:
        return bad(HOST, str(error), error.hint)
    except (Refused, NcuSwizzleError, OSError) as error:  # OSError: nvcc wrote nothing
        return bad("trial kernel", f"it could not be compiled and disassembled for {ARCH}: {error}", ANOTHER)
    return good(HOST, f"a kernel was compiled for {ARCH} and disassembled")
