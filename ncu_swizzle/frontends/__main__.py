"""The child process that imports a user's file and compiles a function.

    python -m ncu_swizzle.frontends ACTION FOLDER

The folder has the request; the answer, or an error, and the cubin go there too. ACTION is ``compile``, or
``configurations``.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError, as_json
from ncu_swizzle.base.files import brief, read_bytes, read_json, write_atomically, write_json
from ncu_swizzle.base.texts import on_terminal
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.frontends import contract, cute_dsl, cutile, numba_cuda, triton_jit
from ncu_swizzle.frontends.contract import ANSWER, CHILD, CODE, REQUEST, CompileRequest

LANGUAGES = (triton_jit, cute_dsl, cutile, numba_cuda)


def answer(action: str, folder: Path) -> dict[str, Any]:
    """Return the answer to the request in a folder, and leave the cubin there. Raises NcuSwizzleError."""
    request = from_plain(CompileRequest, read_json(folder / REQUEST))
    file = Path(request.file)
    if importlib.util.find_spec("numba_cuda") and b"numba" in read_bytes(file):
        numba_cuda.prepare()
    loaded = contract.module(file)
    function, _, inside = request.function.partition("::")
    thing = contract.named(loaded, file, function, _kernels(loaded))
    for language in LANGUAGES:
        if language.handles(thing):
            if action == "configurations":
                # The others tune over nothing.
                tuned = triton_jit.configurations(thing) if language is triton_jit else ()
                return {"configurations": list(map(list, tuned))}
            kernel, code = language.compiled(thing, inside, request, loaded)
            write_atomically(folder / CODE, code)
            return {"kernel": asdict(kernel)}
    if inspect.isclass(thing):
        raise UsageError(
            f"{request.name} is a class, and an object of it may be a kernel",
            f"make one at the top of the file, such as own = {function}(), and name that: {file}::own",
        )
    raise UsageError(
        f"{request.name} is a {type(thing).__name__}, not a kernel",
        "name a function decorated by triton.jit, cute.jit, ct.kernel or numba.cuda.jit; CUDA C++ in a string goes to "
        "a .cu file",
    )


def _kernels(loaded: ModuleType) -> list[str]:
    """Return the names of what can be compiled in a file."""
    return [name for name, thing in vars(loaded).items() if not name.startswith("_") and _is_kernel(thing)]


def _is_kernel(thing: object) -> bool:
    return any(language.handles(thing) for language in LANGUAGES)


def main() -> int:
    action, folder = sys.argv[1], Path(sys.argv[2])
    os.environ[CHILD] = "1"
    try:
        content = answer(action, folder)
    except Exception as error:  # whatever it is, report it to the parent process
        traceback.print_exception(error)
        reported = error if isinstance(error, NcuSwizzleError) else _unexpected(error)
        content = {"error": as_json(reported)}
    write_json(folder / ANSWER, content)
    return 0


def _unexpected(error: Exception) -> NcuSwizzleError:
    return UsageError(f"the compiler failed: {type(error).__name__}: {on_terminal(brief(error))}", "fix the kernel")


if __name__ == "__main__":
    sys.exit(main())
