"""Other formats for a result: a file for each, or ``-`` for stdout, with nothing else printed there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import write_atomically
from ncu_swizzle.option import option

Makers = dict[str, Callable[[], str]]  # by format


@dataclass(frozen=True)
class Formats:
    """The files to write in addition to what a command prints."""

    json: str = option("", "Write everything as JSON; - prints only that.", "FILE|-")
    markdown: str = option("", "Write a summary for a pull request; - prints it.", "FILE|-")
    csv: str = option("", "Write the table of instructions or of sweep points; - prints it.", "FILE|-")

    def __post_init__(self) -> None:
        if [self.json, self.markdown, self.csv].count("-") > 1:
            raise UsageError("only one format can go to stdout", "name a file for the others")

    def write(self, makers: Makers) -> bool:
        """Write each format to its file or to stdout; return whether one went to stdout."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}
        for name, destination in chosen.items():
            if destination != "-":
                write_atomically(Path(destination), makers[name]().encode())
        for name, destination in chosen.items():
            if destination == "-":
                sys.stdout.write(makers[name]())
                return True
        return False
