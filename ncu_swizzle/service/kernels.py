"""`list_kernels`: what can be profiled, and how the kernels of a file could be launched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.build import lacking
from ncu_swizzle.build.binary import cubin_of
from ncu_swizzle.build.launch_guess import LaunchGuess
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller, shown, without_empty
from ncu_swizzle.service.launch import LaunchGiven

DESCRIBE = "lint with files=[FILE], and launch={...} for a kernel that ncu-swizzle.toml does not describe"


def list_kernels(caller: Caller, file: str = "") -> Answer:
    """Answer the kernels of a file, with a guessed launch each; without a file, of the project and the catalogue."""
    if file:
        return _of_file(caller, file)
    config = caller.folders.config(Path.cwd())
    rows = [_row(family, kernel) for family, kernel in user_kernels.everything((), config)]
    rows.sort(key=lambda row: "file" not in row)  # the project's first
    return Answer(f"{len(rows)} kernels; those with a file are the project's.", tuple(rows), DESCRIBE)


def _row(family: Family, kernel: Kernel) -> Row:
    source = "" if family.shipped else shown(family.source(kernel))
    row = {"name": kernel.name, "file": source, "title": kernel.title, "baseline": kernel.baseline}
    return without_empty(row)


def _of_file(caller: Caller, file: str) -> Answer:
    caller.folders.source(kernel_files.split(file)[0])
    config = caller.folders.kernel(file, LaunchGiven())
    source = Path(file)
    catalog = user_kernels.everything((), config)
    described = [
        _row(family, kernel)
        for family, kernel in catalog
        if not family.shipped and family.source(kernel).resolve() == source.resolve()
    ]
    guessed = list(_guesses(source, Toolchain(timeout_s=caller.timeout_s)))
    rows = (*({**row, "described": True} for row in described), *map(_guess, guessed))
    return Answer(f"{file}: {len(guessed)} kernels; launches are guessed from signatures: check them.", rows, DESCRIBE)


def _guesses(source: Path, toolchain: Toolchain) -> Iterator[LaunchGuess]:
    spec = KernelSpec(name=source.stem, source=source)
    cubin = cubin_of(spec, toolchain)
    for symbol in cubin.kernels:
        yield lacking.guess_in(cubin, symbol, spec, toolchain)


def _guess(guess: LaunchGuess) -> Row:
    return {"function": guess.function, "launch": lacking.keywords(guess.options(["--grid", "--block", "--arg"]))}
