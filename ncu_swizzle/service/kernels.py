"""`list_kernels`: what can be profiled, and how the kernels of a file could be launched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ncu_swizzle.build import lacking
from ncu_swizzle.build.binary import cubin_of
from ncu_swizzle.build.launch_guess import LaunchGuess
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.service.answer import Answer, Call, Row
from ncu_swizzle.service.caller import Caller, shown, without_empty
from ncu_swizzle.service.launch import LaunchGiven


def list_kernels(caller: Caller, file: str = "") -> Answer:
    """Answer the kernels of a file, with a guessed launch each; without a file, of the project and the catalogue."""
    if file:
        return _of_file(caller, file)
    config = caller.folders.config(Path.cwd())
    rows = [_row(family, kernel) for family, kernel in user_kernels.everything((), config)]
    rows.sort(key=lambda row: "file" not in row)  # the project's first
    return Answer(f"{len(rows)} kernels; those with a file are the project's.", tuple(rows), _linting(rows))


def _row(family: Family, kernel: Kernel) -> Row:
    source = "" if family.shipped else shown(family.source(kernel))
    row = {"name": kernel.name, "file": source, "title": kernel.title, "baseline": kernel.baseline}
    return without_empty(row)


def _of_file(caller: Caller, file: str) -> Answer:
    caller.folders.source(kernel_files.split(file)[0])
    config = caller.folders.kernel(file, LaunchGiven())
    source = Path(file)
    described = [
        (family, kernel)
        for family, kernel in user_kernels.everything((), config)
        if not family.shipped and os.path.realpath(family.source(kernel)) == os.path.realpath(source)
    ]
    guesses = list(_guesses(source, Toolchain(timeout_s=caller.timeout_s)))
    others = [guess for guess in guesses if not any(_is(guess.function, kernel) for _, kernel in described)]
    rows = (*({**_row(*each), "described": True} for each in described), *map(_guess, others))
    words = "; launches are guessed from signatures: check them" if others else ", with described launches"
    following = Call("lint", {"files": [file], **_guessed(others, len(guesses) > 1)})
    return Answer(f"{file}: {len(guesses)} kernels{words}.", rows, following)


def _linting(rows: Sequence[Row]) -> Call | None:
    """Return the call that lints the project's first source."""
    return next((Call("lint", {"files": [row["file"]]}) for row in rows if "file" in row), None)


def _guessed(others: Sequence[LaunchGuess], several: bool) -> Row:
    """Return the guess for a kernel that nothing describes, if there is one."""
    if not others:
        return {}
    row = _guess(others[0])
    return {"launch": {**({"kernel": row["function"]} if several else {}), **row["launch"]}}


def _is(function: str, kernel: Kernel) -> bool:
    """Return whether a demangled function is the one that a kernel names, maybe without template arguments."""
    base = function.partition("<")[0].partition("(")[0]
    return kernel.entry in ("", function, base, base.rpartition("::")[2])


def _guesses(source: Path, toolchain: Toolchain) -> Iterator[LaunchGuess]:
    spec = KernelSpec(name=source.stem, source=source)
    cubin = cubin_of(spec, toolchain)
    for symbol in cubin.kernels:
        yield lacking.guess_in(cubin, symbol, spec, toolchain)


def _guess(guess: LaunchGuess) -> Row:
    return {"function": guess.function, "launch": lacking.keywords(guess.options(["--grid", "--block", "--arg"]))}
