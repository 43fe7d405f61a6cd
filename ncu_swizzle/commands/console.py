"""The console that commands print to, in its own module because rich is slow to import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ncu_swizzle.texts import on_terminal


class Output(Console):
    """A console that prints only visible text and rich's own styles, whatever is printed.

    It neither highlights numbers nor replaces ``:x:`` in C++ names by pictures, and raises BrokenPipeError when the
    reader (head, less) exits.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(file=file, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of what is printed; styles and the cursor's movements are parts of their own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(on_terminal(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
