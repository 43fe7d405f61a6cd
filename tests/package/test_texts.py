"""The borders at which texts leave the program, function by function; DataFrames, and how a notebook shows them."""

import io
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from markdown_it import MarkdownIt
from markupsafe import Markup

import ncu_swizzle
from bench.attacks.corpus.hostile import SURROGATES, TEXTS
from ncu_swizzle import Comparison, Profile
from ncu_swizzle.base import texts
from ncu_swizzle.reports import frames
from ncu_swizzle.reports.comparison import compare as compared
from ncu_swizzle.reports.counts import Instruction
from tests.support.hostile import EVERYTHING, STARTS, commands, hidden
from tests.support.properties import examples, holds
from tests.support.recordings import Recorded

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


def lay_out(profiles: Sequence[Profile]) -> Comparison:
    return Comparison.of(compared(profiles))


def test_every_table_has_its_columns_and_those_of_a_comparison_are_below_each_other(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    for kind, columns in frames.COLUMNS.items():
        table = profile.to_frame(kind)
        names = [column.name for column in columns]
        assert list(table.columns)[: len(names)] == names
        assert len(table)
        for column in columns:
            assert table[column.name].dtype == pd.Series([], dtype=column.dtype).dtype
    rest = [name for name in profile.to_frame().columns if name.startswith("stall_")]
    assert profile.to_frame()[rest].sum().sum() == sum(sum(i.samples.values()) for i in profile.instructions)
    with pytest.raises(ValueError, match="choose one of instructions, lines"):
        profile.to_frame("instruction")  # type: ignore[arg-type]
    before, after = recorded("kernel1"), recorded("kernel2")
    comparison = lay_out([before, after])
    for kind in frames.COLUMNS:
        table = comparison.to_frame(kind)
        assert list(table.columns[:2]) == ["profile", "engine"]
        assert len(table) == len(before.to_frame(kind)) + len(after.to_frame(kind))
        assert list(dict.fromkeys(table.profile)) == ["kernel1", "kernel2"]


def test_tables_hold_what_the_profile_holds(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    instructions = profile.to_frame()
    assert list(instructions.pc) == [i.pc for i in profile.instructions]
    assert instructions.excessive.sum() == profile.total.excessive
    accesses = profile.to_frame("accesses").set_index("access")
    assert accesses.degree["LDSM"] == 8
    assert accesses.transfer["STS"] == "RF→SMEM"
    stalls = profile.to_frame("stalls")
    assert stalls.share.sum() == pytest.approx(100)
    metrics = profile.to_frame("metrics").set_index("name")
    assert metrics.value["gpu__time_duration.sum"] == profile.duration_ns
    comparison = lay_out([profile])
    for kind in ("lines", "accesses"):
        ours, theirs = profile.to_frame(kind), getattr(comparison, kind)
        for name in set(ours.columns) & set(theirs.columns):
            assert list(ours[name].fillna(-1)) == list(theirs[name].fillna(-1)), (kind, name)


def test_what_is_unknown_is_na_and_large_counts_are_exact(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    large = 2**62 + 1
    rows = (
        Instruction(16, "LDS R0, [R1]", "LDS", "LDS", executed=1, wavefronts=large, ideal=1),
        Instruction(32, "LDS R2, [R1]", "LDS", "LDS"),
    )
    table = replace(profile, instructions=rows).to_frame()
    assert table.wavefronts[0] == large
    assert pd.isna(table.wavefronts[1])
    assert pd.isna(table.degree[1])
    assert pd.isna(table.line[0])
    empty = replace(profile, instructions=(), metrics={})
    for kind in frames.COLUMNS:
        assert len(empty.to_frame(kind)) == 0
    assert len(lay_out([empty, profile]).to_frame()) == len(profile.instructions)


def test_a_notebook_shows_the_figures_and_where_they_come_from(recorded: Recorded) -> None:
    html = recorded("kernel1")._repr_html_()
    duration = f"{(recorded('kernel1').duration_ns or 0) / 1e6:.3f} ms"
    for part in ("1,882,718,208", "8.00", "recorded (measured earlier", "NVIDIA H100 80GB HBM3", duration):
        assert part in html
    many = ncu_swizzle.Profiles([recorded("kernel1")] * 300)._repr_html_()
    assert "300 profiles" in many
    assert "and 250 more" in many
    assert len(many) < 60_000
    bare = replace(recorded("kernel1"), instructions=(), metrics={})._repr_html_()
    assert "unknown" in bare
    assert "300 profiles" not in ncu_swizzle.Profiles([])._repr_html_()
