"""Kernels by name: found in a cubin, declared by a source, let pass by the one filter.

The filter is `-k` of every command, of captures and of the Python API. It means what ncu's `--kernel-name` means: a
plain text is the whole name, and what follows ``regex:`` is searched for. Numbers are names too; launches have options
of their own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ncu_swizzle.base.bounds import NamePattern
from ncu_swizzle.base.errors import Hint, Typed, UnknownKernel, UsageError
from ncu_swizzle.cubin.demangled import SPELLINGS, demangle_all, function, qualified, shorten, spaceless, split
from ncu_swizzle.cubin.elf import Cubin

# Find a kernel in a cubin by any spelling of its name, and the kernels that a source declares.


MOST_LISTED = 8

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DECLARATION = re.compile(r"\b__global__\b([^;{]*)")
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")  # __launch_bounds__(256), …
_CALLED = re.compile(r"(\w+)\s*\(")


def find(cubin: Cubin, wanted: str) -> str:
    """Return the mangled name of the kernel called `wanted`; raise UnknownKernel, or UsageError if it is ambiguous.

    `wanted` is mangled or demangled, with or without parameters, namespace and template arguments; empty means the
    only kernel.
    """
    if not wanted:
        return only_kernel(cubin)
    if wanted in cubin.kernels:
        return wanted
    named = demangle_all(cubin.kernels)
    for spelled in SPELLINGS:
        matching = [
            mangled
            for mangled, name in sorted(named.items(), key=lambda item: item[1])
            if spaceless(spelled(name)) == spaceless(wanted)
        ]
        if len(matching) == 1:
            return matching[0]
        if matching:
            names = _listed(named[mangled] for mangled in matching)
            raise UsageError(
                f"{cubin.name} has {len(matching)} kernels called {wanted}: {names}",
                Hint("give the full name of one: ", Typed(f'--kernel "{qualified(named[matching[0]])}"')),
            )
    near = difflib.get_close_matches(wanted, list(map(qualified, named.values())), n=1, cutoff=0)[0]
    raise UnknownKernel(
        f"{cubin.name} has no kernel {wanted}; it has {_listed(named.values())}", Typed(f'--kernel "{near}"')
    )


def only_kernel(cubin: Cubin) -> str:
    """Return the mangled name of the only kernel; raise UnknownKernel, with the candidates, if there are several."""
    if len(cubin.kernels) == 1:
        return cubin.kernels[0]
    names = _listed(demangle_all(cubin.kernels).values())
    raise UnknownKernel(
        f"{cubin.name} has {len(cubin.kernels)} kernels: {names}",
        Typed(f'--kernel "{qualified(demangle_all(cubin.kernels)[cubin.kernels[0]])}"'),
    )


def _listed(names: Iterable[str]) -> str:
    shown = sorted(map(qualified, names))
    more = f" and {len(shown) - MOST_LISTED} more" if len(shown) > MOST_LISTED else ""
    return ", ".join(shown[:MOST_LISTED]) + more


def declared_kernels(text: str) -> list[str]:
    """Return the names of the ``__global__`` functions that a source text declares or defines, each once."""
    code = _COMMENT.sub(" ", text)
    heads = (_CALLED.search(_ATTRIBUTE.sub(" ", match[1])) for match in _DECLARATION.finditer(code))
    return list(dict.fromkeys(head[1] for head in heads if head))


def declared_parameters(text: str, function: str) -> list[str]:
    """Return the parameters of a ``__global__`` function as a source text declares them; empty if it does not."""
    code = _COMMENT.sub(" ", text)
    for match in _DECLARATION.finditer(code):
        head = _CALLED.search(plain := _ATTRIBUTE.sub(" ", match[1]))
        if head and head[1] == function:
            return [" ".join(part.split()) for part in split(plain[head.end() : plain.rfind(")")], ",") if part.strip()]
    return []


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
        short = [part(name) for name in full for part in (function, shorten)]
        every = dict.fromkeys((*full, *short))
        if not self.text.startswith(REGEX):
            return self.text in every
        # Nobody means the letters of a mangled name; one that cannot be demangled has nothing else.
        return self._pattern.found_in([name for name in every if not name.startswith("_Z")] or every)

    @property
    def _pattern(self) -> NamePattern:
        return NamePattern(self.expression, self.origin)
