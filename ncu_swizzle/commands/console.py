"""The console that commands print to, and hints that are the whole command with what it lacks; slow to import."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ncu_swizzle.base.errors import LaunchLacking, Typed
from ncu_swizzle.base.texts import on_terminal

# The command that was typed, with the options that it lacked.

PROGRAM = "ncu-swizzle"


def hint(error: LaunchLacking, typed: Sequence[str]) -> str:
    """Return the corrected command line if the kernel of the typed one could not be launched."""
    # Slow to import, and most commands end well.
    from ncu_swizzle.kernels import check
    from ncu_swizzle.kernels.check import NO_PARAMETERS
    from ncu_swizzle.kernels.toolchain import Toolchain

    nvcc = _value(typed, "--nvcc")
    lacking = check.completed(error, Toolchain(Path(nvcc) if nvcc else None))
    if lacking == NO_PARAMETERS:
        return Typed(shlex.join([PROGRAM, *_without(typed, {"--arg"})]))
    return Typed(with_options(typed, shlex.split(lacking))) if lacking.startswith("--") else lacking


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


# The console that commands print to, in its own module because rich is slow to import.


class Output(Console):
    """A console that prints only visible text and rich's own styles, whatever is printed.

    It neither highlights numbers nor replaces ``:x:`` in C++ names by pictures, and raises BrokenPipeError when the
    reader (head, less) exits.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(file=file, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of the output; styles and cursor movements are separate parts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(on_terminal(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
