"""Have a function in a Python file compiled by a child process, which imports the file, within the time limit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ncu_swizzle import child, errors, paths
from ncu_swizzle.bounds import quotation
from ncu_swizzle.bounds.elsewhere import LONGEST_ANSWER
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.files import parse_json, read_bytes, write_json
from ncu_swizzle.frontends import cute_environment
from ncu_swizzle.frontends.request import CODE, CompiledKernel, CompileRequest, Configuration
from ncu_swizzle.unfinished.folders import scratch

REQUEST, ANSWER = "request.json", "answer.json"
CHILD = "NCU_SWIZZLE_COMPILES"  # set in the child: a file that profiles while it is imported would start another


def compiled(request: CompileRequest, timeout_s: float) -> tuple[CompiledKernel, bytes]:
    """Return the compiled function and its cubin.

    Raises UsageError for the file, the function, or its arguments; EnvironmentLacking for a library that is missing;
    and TimeLimit.
    """
    with scratch() as folder:
        content = _answer("compile", request, timeout_s, folder)
        return CompiledKernel.of_json(content["kernel"]), read_bytes(folder / CODE, largest=LONGEST_ANSWER)


def configurations(request: CompileRequest, timeout_s: float) -> list[Configuration]:
    """Return the configurations that a function is tuned over; none if it is not."""
    with scratch() as folder:
        return [tuple(each) for each in _answer("configurations", request, timeout_s, folder)["configurations"]]


def refuse_while_imported() -> None:
    """Raise UsageError in the child: the file that it imports profiles a kernel at once."""
    if CHILD in os.environ:
        raise UsageError(
            "the file profiles a kernel while it is imported, which compiling that kernel does",
            "put the call under if __name__ == '__main__':",
        )


def _answer(action: str, request: CompileRequest, timeout_s: float, folder: Path) -> dict[str, Any]:
    refuse_while_imported()
    write_json(folder / REQUEST, request.as_json())
    command = [sys.executable, "-m", "ncu_swizzle.frontends", action, str(folder)]
    try:
        ended = child.run(command, timeout_s, environment={**paths.child_environment(), **_own_caches(folder, request)})
    except TimeLimit as error:
        raise TimeLimit(f"compiling {request.name}: {error}", "raise the limit with --timeout SECONDS") from error
    try:
        content: dict[str, Any] = parse_json(read_bytes(folder / ANSWER, largest=LONGEST_ANSWER), ANSWER)
    except NcuSwizzleError:
        raise ProgramFailed(
            f"compiling {request.name} ended with status {ended.status}; its last lines:\n"
            f"{quotation.last_lines(ended.log)}",
            f"python3 {request.file} shows whether the file can be imported",
        ) from None
    if reported := content.get("error"):
        raise errors.by_name(reported["type"])(reported["message"], reported["hint"])
    return content


def _own_caches(folder: Path, request: CompileRequest) -> dict[str, str]:
    """Return the variables that keep compilers off the user's caches, and those that are read when a file is imported.

    Triton's cache may hold the kernel of an equal file elsewhere, and with it that file's path.
    """
    return {"TRITON_CACHE_DIR": str(folder / "triton"), **cute_environment.variables(folder, request.arch)}
