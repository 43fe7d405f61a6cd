"""Sources in colours: lines of tokens, in bounded time whatever the text. Only this module imports Pygments.

A process with little memory also runs it, so it imports little.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, _TokenType, is_token_subtype

from ncu_swizzle.base.bounds import OutOfTime, answer_of, interruptible, within


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a source line; `kind` is a CSS class, empty for plain text."""

    kind: str
    text: str


Line = tuple[Token, ...]


@dataclass(frozen=True)
class Coloured:
    """The lines of a source, and why they have no colours; the note is empty if they have."""

    lines: Sequence[Line]
    note: str = ""


MOST_COLOURED = 500_000  # of a file
FILE_S = 3.0  # processor time: a hundred times what an ordinary file takes
PAGE_S = 6.0  # for all files of a page

# The first match gives a token's CSS class; other tokens are plain.
_KINDS = (
    (Comment.Preproc, "pre"),
    (Comment.PreprocFile, "pre"),
    (Comment, "com"),
    (Keyword.Type, "typ"),
    (Keyword, "key"),
    (Name.Class, "typ"),
    (Name.Function, "fun"),
    (Number, "num"),
    (Literal, "str"),
)


class Colours:
    """Colours the files of one page. A file that would take too long is plain, and the answer says why."""

    def __init__(self) -> None:
        self._left_s = PAGE_S

    def __call__(self, text: str, path: str) -> Coloured:
        """Split a source into lines of tokens: as Python if the path ends in .py, else as CUDA C++."""
        if len(text) > MOST_COLOURED:
            return _plain(text, f"the file has {len(text):,} characters, and the most coloured are {MOST_COLOURED:,}")
        if self._left_s <= 0:
            return _plain(text, f"colouring the files above took {PAGE_S:g} s of processor time")
        start = time.process_time()
        try:
            return Coloured(_coloured_lines(text, "python" if path.endswith(".py") else "cuda"))
        except OutOfTime:
            return _plain(text, f"it takes longer than {FILE_S:g} s of processor time")
        finally:
            self._left_s -= time.process_time() - start


def _plain(text: str, reason: str) -> Coloured:
    lines = text.split("\n")
    return Coloured(
        [(Token("", line),) if line else () for line in (lines if lines[-1] else lines[:-1])],
        f"Shown without colours: {reason}.",
    )


_PROGRAM = """
from ncu_swizzle.render import colours
answer = [[[token.kind, token.text] for token in line] for line in colours.tokens(*question)]
"""


@lru_cache(maxsize=64)
def _coloured_lines(text: str, language: str) -> Sequence[Line]:
    if interruptible():
        with within(FILE_S):
            return tokens(text, language)
    return [tuple(Token(*token) for token in line) for line in answer_of(_PROGRAM, [text, language], FILE_S)]


def tokens(text: str, language: str) -> Sequence[Line]:
    """Return the lines of tokens; some texts take Pygments minutes."""
    lexer = get_lexer_by_name(language)
    lines: list[Line] = []
    line: list[Token] = []
    # get_tokens would drop empty lines at the start and turn lone carriage returns into new lines.
    for _, token, value in lexer.get_tokens_unprocessed(text):
        kind = _kind(token)
        first, *others = value.split("\n")
        _append(line, kind, first)
        for part in others:
            lines.append(tuple(line))
            line = []
            _append(line, kind, part)
    return [*lines, tuple(line)] if line else lines


@cache
def _kind(token: _TokenType) -> str:
    return next((name for parent, name in _KINDS if is_token_subtype(token, parent)), "")


def _append(line: list[Token], kind: str, text: str) -> None:
    """Append text to a line, merging it into a last token of the same kind."""
    if line and line[-1].kind == kind:
        text = line.pop().text + text
    if text:
        line.append(Token(kind, text))
