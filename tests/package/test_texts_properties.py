"""What leaves the program is printable, whatever came in."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from ncu_swizzle.base import texts
from tests.support.corpus import hostile
from tests.support.properties import examples, holds

RAW = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ANYTHING = st.text(st.characters(codec=None), max_size=60) | st.sampled_from((*hostile.TEXTS, *hostile.SURROGATES))


@examples
def test_one_line_is_one_printable_line(examples: int) -> None:
    def check(text: str) -> None:
        line = texts.one_line(text)
        assert not RAW.search(line)
        assert texts.one_line(line) == line
        assert isinstance(line.encode(), bytes), "it can be written"
        if text.isascii() and text.isprintable():
            assert line == text, "what is harmless stays as it is"

    holds(examples, check, ANYTHING)


@examples
def test_visible_text_moves_no_cursor(examples: int) -> None:
    def check(text: str) -> None:
        shown = texts.visible(text)
        assert not RAW.search(shown.replace("\n", "").replace("\t", ""))
        assert texts.visible(shown) == shown
        assert len(shown) == len(text) or "\r" in text

    holds(examples, check, ANYTHING)
