"""Compile kernels with the nvcc on PATH, through PyCUDA."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle import child
from ncu_swizzle.build.compiled import Refused
from ncu_swizzle.build.toolchain import nvcc_release
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.launch.device import cuda, nvcc

TIMEOUT_S = 60.0
PATH_HINT = "put the CUDA toolkit's bin folder on PATH"


@cache
def nvcc_version() -> str:
    try:
        ended = child.run(["nvcc", "--version"], TIMEOUT_S, with_stderr=False)
    except NcuSwizzleError as error:
        raise EnvironmentLacking(f"nvcc does not work: {error}", PATH_HINT) from error
    if ended.status:
        raise EnvironmentLacking(f"nvcc --version exited with code {ended.status}", PATH_HINT)
    return nvcc_release(ended.log) or ended.log.strip()


class PyCudaCompiler:
    """The nvcc on PATH, run by PyCUDA."""

    def version(self) -> str:
        """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
        return nvcc_version()

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused."""
        try:
            with warnings.catch_warnings():  # PyCUDA warns about anything that nvcc prints on stderr
                warnings.simplefilter("ignore", UserWarning)
                code: bytes = nvcc.compile(
                    unit,
                    options=list(options),
                    arch=arch,
                    no_extern_c=True,
                    cache_dir=False,
                    include_dirs=[str(folder) for folder in include],
                )
        except cuda.CompileError as error:
            raise Refused(_compiler_log(error)) from error
        return code


def _compiler_log(error: Any) -> str:
    """Return nvcc's output without PyCUDA's message around it."""
    streams = [getattr(error, stream, None) or "" for stream in ("stdout", "stderr")]
    return "".join(streams).strip() or str(error)
