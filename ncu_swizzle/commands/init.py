"""``ncu-swizzle init``: describe the kernels of a file in ncu-swizzle.toml."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelOptions
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.texts import on_terminal


@grouped
def init(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="A .cu, cubin or PTX file.")],
    request: Annotated[Request, Only("problem", "nvcc", "timeout_s")],
    own: KernelOptions,
    sources: Annotated[CatalogOptions, Only("config")],
) -> None:
    """Describe the kernels of FILE in ncu-swizzle.toml: how to launch them.

    \b
    ncu-swizzle init my.cu
    ncu-swizzle init my.cu --kernel fn --block 256 --std c++20

    Parameters and limits come from the compiled kernels, the rest from the options; what remains is guessed, and marked
    in the file. Entries are added to the nearest ncu-swizzle.toml, or to a new one beside FILE; none is ever changed.
    """
    from ncu_swizzle.build.toolchain import Toolchain
    from ncu_swizzle.jobs.describe_kernel import describe

    toolchain = Toolchain(request.nvcc, request.timeout_s)
    description = own.described(request.problem)
    names: list[str] = []
    for file in files:
        described = describe(file, description, sources.config, toolchain)
        names += described.names
        for function in described.already:
            typer.echo(on_terminal(f"{described.file} already describes {function} of {file.name}"))
        for name in described.names:
            typer.echo(on_terminal(f"{described.file}: [kernel.{name}] added"))
    config = ["--config", sources.config] if sources.config else []
    command = shlex.join(["ncu-swizzle", "lint", *names, *config])
    typer.echo(on_terminal(f"Check what is marked as guessed there, then: {command}"))
