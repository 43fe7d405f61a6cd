"""A kernel's entry for ncu-swizzle.toml, made from what its user said and from its signature."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncu_swizzle.build.launch_guess import LaunchGuess
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.texts import encodable, in_commas, one_line

GUESSED = "guessed"
HEADER = '# Made from the signature. "guessed" marks what it does not say: check it.'
WIDTH = 48  # columns before a comment
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ProjectEntry:
    """An entry: the kernel's name, its source relative to the file, what the user gave, and guesses for the rest."""

    name: str
    source: str
    spec: KernelSpec
    guess: LaunchGuess
    outer: str = ""  # "tool.ncu-swizzle." in pyproject.toml
    options: tuple[str, ...] = ()  # nvcc's, with paths relative to the file

    def text(self) -> str:
        """Return the entry as TOML."""
        key = self.name if _BARE.fullmatch(self.name) else quoted(self.name)
        return "\n".join([HEADER, f"[{self.outer}kernel.{key}]", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        spec, guess = self.spec, self.guess
        yield f"source = {quoted(self.source)}"
        yield f"entry = {quoted(guess.function)}"
        sizes = {parameter.name: parameter.default for parameter in spec.problem}
        problem = {**guess.problem, **sizes}
        yield _line(f"problem = {_table(problem)}", "" if guess.problem.keys() <= sizes.keys() else GUESSED)
        for what, given, guessed in (("grid", spec.grid, guess.grid), ("block", spec.block, guess.block)):
            yield _line(f"{what} = {quoted(in_commas(given) or guessed)}", "" if given else GUESSED)
        shared = spec.shared if spec.shared not in ("", "0") else str(guess.shared)
        if shared != "0":
            yield _line(f"shared = {quoted(shared)}", GUESSED if shared == str(guess.shared) else "")
        if self.options:
            yield f"nvcc = [{', '.join(map(quoted, self.options))}]"
        yield from _array(spec.args or guess.args, () if spec.args else guess.doubts)
        yield '# reference = "reference.py:FUNCTION"  a NumPy function; without it, outputs are not checked'


def _array(texts: Sequence[str], doubts: Sequence[str]) -> Iterator[str]:
    if not texts:
        yield "args = []"
        return
    yield "args = ["
    for number, text in enumerate(texts):
        yield _line(f"    {quoted(text)},", doubts[number] if number < len(doubts) else "")
    yield "]"


def _line(text: str, comment: str) -> str:
    return f"{text:<{WIDTH}}  # {one_line(comment)}" if comment else text  # a type's name can hold anything


def _table(sizes: dict[str, int]) -> str:
    return f"{{ {', '.join(f'{name} = {size}' for name, size in sizes.items())} }}"


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML, or a literal one if that needs no escapes."""
    text = encodable(text)
    if text.isprintable() and "\\" in text and "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
