"""The one filter of kernels by name: `-k` of every command, of captures and of the Python API.

It means what ncu's `--kernel-name` means: a plain text is the whole name, and what follows ``regex:`` is searched for.
Numbers are names too; launches have options of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ncu_swizzle.bounds.patterns import NamePattern
from ncu_swizzle.cubin import demangled

REGEX = "regex:"
FORM = "NAME|regex:EXPR"


@dataclass(frozen=True)
class KernelFilter:
    """A kernel's exact name, or ``regex:EXPRESSION``; empty lets every kernel pass. `origin` is what was typed."""

    text: str = ""
    origin: str = "--kernel-name"

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def expression(self) -> str:
        """What is searched for; empty for a plain name."""
        return self.text.removeprefix(REGEX) if self.text.startswith(REGEX) else ""

    def checked(self) -> KernelFilter:
        """Return the filter, or raise UsageError if its expression is not valid."""
        if self.expression:
            _ = self._pattern.compiled
        return self

    def passes(self, names: Iterable[str]) -> bool:
        """Return whether a kernel with these names passes: its mangled and demangled one, that of the catalogue.

        Each also counts without namespace and parameters, and without template arguments. Raises UsageError if the
        expression is not valid, or takes too long to match.
        """
        if not self.text:
            return True
        full = [name for name in names if name]
        short = [part(name) for name in full for part in (demangled.function, demangled.shorten)]
        every = dict.fromkeys((*full, *short))
        if not self.text.startswith(REGEX):
            return self.text in every
        # Nobody means the letters of a mangled name; one that cannot be demangled has nothing else.
        return self._pattern.found_in([name for name in every if not name.startswith("_Z")] or every)

    @property
    def _pattern(self) -> NamePattern:
        return NamePattern(self.expression, self.origin)
