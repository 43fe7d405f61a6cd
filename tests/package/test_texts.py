"""The borders at which texts leave the program, function by function."""

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup

from bench.corpus.hostile import SURROGATES, TEXTS
from ncu_swizzle.base import texts
from tests.support.hostile import EVERYTHING, STARTS, commands, hidden
from tests.support.properties import examples, holds

ANYTHING = st.text(st.characters(exclude_categories=())) | st.sampled_from((EVERYTHING, *STARTS, *TEXTS, *SURROGATES))
SHOWN = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.long
def test_every_character_is_shown_or_replaced() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = texts.visible(everything)
    assert hidden(shown) == []
    replaced = {
        before for before, after in zip(everything, shown, strict=True) if before.isprintable() and before != after
    }
    assert replaced == set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
    printable = {letter for letter in everything if letter.isprintable()}
    assert set(shown) - {SHOWN, *"\n\t"} == printable - replaced - {SHOWN}


@examples
def test_every_border_shows_all_and_changes_nothing_twice(examples: int) -> None:
    def check(text: str) -> None:
        for border in (texts.visible, texts.one_line, texts.on_terminal):
            shown = border(text)
            assert border(shown) == shown
            assert hidden(shown) == []
            assert isinstance(shown.encode(), bytes), "it can be written"
        assert hidden(texts.in_csv(text)) == []
        assert "\n" not in texts.one_line(text)
        assert commands(texts.on_terminal(text)) == []
        assert commands(texts.in_csv(text)) == []
        assert len(texts.visible(text)) == len(text) or "\r" in text
        if text.isascii() and text.isprintable() and "##[" not in text and "::" not in text:
            assert texts.one_line(text) == text, "what is harmless stays as it is"

    holds(examples, check, ANYTHING)


def test_windows_line_ends_are_line_ends_and_other_returns_are_shown() -> None:
    assert texts.visible("a\r\nb\rc\r\r\nd\r") == f"a\nb{SHOWN}c\nd"


@pytest.mark.long
@given(st.recursive(ANYTHING | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(ANYTHING, one)))
def test_json_is_exact_and_ascii(content: object) -> None:
    text = texts.in_json(content)
    assert text.isascii()
    assert hidden(text) == []
    assert commands(text) == []
    assert texts.in_json(json.loads(text)) == text
    assert json.loads(text) == json.loads(json.dumps(content))


def test_plain_content_is_written_as_ever() -> None:
    content = {"a": [1, 2.5, None, "text #1 ## x"]}
    assert texts.in_json(content, indent=1) == json.dumps(content, indent=1) + "\n"


@given(ANYTHING)
def test_markdown_shows_text_as_it_is(text: str) -> None:
    (paragraph,) = MarkdownIt("gfm-like", {"linkify": False}).parse(f"x {texts.in_markdown(text)}")[1:2]
    assert {child.type for child in paragraph.children or ()} <= {"text", "text_special"}
    shown = "".join(child.content for child in paragraph.children or ())
    assert shown.replace("\u200b", "") == " ".join(f"x {texts.one_line(text)}".split())


FORMULAS = ("=1+1", "+1+1", "-a", "@SUM(1)", "\t=1", "\r=1", '"=1', " '=1", "\uff1d1", "::error::x", "@P0 X(1)",
            "@P0 A|b!c")  # fmt: skip
PLAIN = ("-5", "+1.5e-3", "a=b", "f<-1>", "@!P0 LDS R1, [R2+-0x10]", "@UP1 FADD R1, |R2|, R3", "")


def test_formulas_are_text_in_csv_and_numbers_and_instructions_stay_as_they_are() -> None:
    assert [text for text in FORMULAS if texts.in_csv(text)[0] not in "'\ufffd"] == []
    assert [texts.in_csv(text) for text in PLAIN] == list(PLAIN)


def test_a_template_shows_values_of_any_type_and_keeps_markup() -> None:
    template = Environment(autoescape=True, finalize=texts.on_page).from_string("{{ x }}")
    assert template.render(x="<\x1b>") == f"&lt;{SHOWN}&gt;"
    assert template.render(x=Markup("<b>\u202e</b>")) == f"<b>{SHOWN}</b>"
    assert template.render(x=5) == "5"


def test_a_later_line_of_an_error_does_not_pass_for_ours() -> None:
    for line in ("error: forged", "  try: forged", "Note: x", "usage: y"):
        assert texts.message(f"x\n{line}\nmy.cu(3): error: y") == f"x\n| {line}\nmy.cu(3): error: y"


def test_stderr_takes_only_visible_text(monkeypatch: pytest.MonkeyPatch) -> None:
    beneath = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stderr", beneath)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    texts.prepare_streams()
    texts.prepare_streams()
    print("a\x1b[2J→\n::error::b", file=sys.stderr)
    assert texts.beneath(sys.stderr) is beneath
    assert beneath.buffer.getvalue() == b"a\\ufffd[2J\\u2192\n: :error::b\n"  # type: ignore[attr-defined]
