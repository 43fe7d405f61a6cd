"""The command that was typed, with the options that it lacked."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path

from ncu_swizzle.build import lacking
from ncu_swizzle.build.argument_check import NO_PARAMETERS
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.errors import LaunchLacking

PROGRAM = "ncu-swizzle"


def hint(error: LaunchLacking, typed: Sequence[str]) -> str:
    """Return what to type in place of a command whose kernel could not be launched, given its words."""
    nvcc = _value(typed, "--nvcc")
    options, entry = lacking.completed(error, Toolchain(Path(nvcc) if nvcc else None))
    if options == NO_PARAMETERS:
        return shlex.join([PROGRAM, *_without(typed, {"--arg"})])
    if not options.startswith("--"):
        return options
    named = ["--kernel", error.kernel] if error.kernel else []
    command = with_options(typed, [*named, *shlex.split(options)])
    if not entry or not isinstance(error.spec, KernelSpec):
        return command
    init = shlex.join([PROGRAM, "init", str(error.spec.source), "--kernel", error.spec.entry or error.spec.name])
    return f"{command}\n  or write this to ncu-swizzle.toml, as {init} does:\n{entry}"


def with_options(typed: Sequence[str], options: Sequence[str]) -> str:
    """Return the command with the options, which replace what was typed for them; sizes that were typed are kept."""
    pairs = list(zip(options[::2], options[1::2], strict=True))
    sizes = {part.partition("=")[0] for text in _values(typed, "--problem") for part in text.split(",")}
    added = [word for name, value in pairs if not (name == "--problem" and value.partition("=")[0] in sizes)
             for word in (name, value)]  # fmt: skip
    kept = _without(typed, {name for name, _ in pairs} - {"--problem"})
    end = kept.index("--") if "--" in kept else len(kept)
    return shlex.join([PROGRAM, *kept[:end], *added, *kept[end:]])


def _without(typed: Sequence[str], names: set[str]) -> list[str]:
    """Return the words without these options and their values."""
    end = typed.index("--") if "--" in typed else len(typed)
    kept: list[str] = []
    skip = False
    for word in typed[:end]:
        if skip or word in names:
            skip = not skip
        elif word.partition("=")[0] not in names:
            kept.append(word)
    return [*kept, *typed[end:]]


def _values(typed: Sequence[str], name: str) -> list[str]:
    separate = [value for word, value in itertools.pairwise(typed) if word == name]
    return separate + [word.partition("=")[2] for word in typed if word.startswith(f"{name}=")]


def _value(typed: Sequence[str], name: str) -> str:
    return next(iter(_values(typed, name)), "")
