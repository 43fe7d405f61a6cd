"""An answer's pages hold all of its rows, and no page is long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.servers import answer
from ncu_swizzle.servers.answer import Answer, Call, Page

CALL = Call("lint", {"files": ["a.cu"]})
ROWS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.text(max_size=9000) | st.integers() | st.none(), min_size=1), max_size=40
)


def pages(made: Answer) -> list[Page]:
    first = answer.page(made, CALL)
    return [first, *(answer.page(made, CALL, number) for number in range(2, first.pages + 1))]


@given(ROWS, st.text(max_size=300))
def test_pages_hold_every_row_once(rows: list[dict[str, object]], summary: str) -> None:
    made = pages(Answer(summary=summary, rows=tuple(rows)))
    whole: list[dict[str, object]] = []
    for row in (dict(row) for each in made for row in each.rows):
        if whole and set(row) <= set(whole[-1]) and whole[-1] != rows[len(whole) - 1]:  # the rest of a long text
            (name,) = row
            whole[-1][name] = f"{whole[-1][name]}{row[name]}"
        else:
            whole.append(row)
    assert whole == rows


@given(ROWS)
def test_no_page_is_long(rows: list[dict[str, object]]) -> None:
    longest = answer.MOST_CHARACTERS + answer.LONGEST_TEXT
    for each in pages(Answer(summary="fine", rows=tuple(rows))):
        assert len(in_json(each.data())) <= longest


def test_plain_text_has_pages_of_the_stated_length() -> None:
    rows = tuple({"line": f"kernels/my.cu:{number}", "wavefronts": 1000 + number} for number in range(2000))
    made = pages(Answer(summary="2000 lines", rows=rows))
    assert len(made) > 10
    assert all(len(each.text()) <= answer.MOST_CHARACTERS + 100 for each in made)
    assert made[0].data()["next"] == {"tool": "lint", "arguments": {"files": ["a.cu"], "page": 2}}
    assert 'next: lint {"files": ["a.cu"], "page": 2}' in made[0].text()
    assert "next" not in made[-1].data()


def test_code_that_is_cut_is_whole_again_when_joined() -> None:
    code = "".join(f"line {number};\n" for number in range(2000))
    made = pages(Answer(summary="code", rows=({"CUDA": code},)))
    assert "".join(row["CUDA"] for each in made for row in each.rows) == code


def test_a_page_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UsageError, match="no page 2") as error:
        answer.page(Answer(summary="one"), CALL, 2)
    assert error.value.hint == "page is at least 1 and at most 1"


def test_texts_of_files_reach_the_client_visibly() -> None:
    shown = answer.page(Answer(summary="a\x1b[2J", rows=({"kernel": "b\u202ec"},)), CALL).text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_unknown_is_said_and_empty_is_not() -> None:
    shown = answer.page(Answer(summary="counts", rows=({"wavefronts": None, "note": "", "ideal": 0},)), CALL).text()
    assert shown == "counts\nwavefronts: unknown, ideal: 0"
