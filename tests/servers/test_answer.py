"""An answer's pages hold all of its rows, and no page is long."""

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


def pages(answered: Answer) -> list[Page]:
    first = answer.page(answered, CALL)
    return [first, *(answer.page(answered, CALL, number) for number in range(2, first.pages + 1))]


@given(ROWS, st.text(max_size=300))
def test_pages_hold_every_row_once_and_none_is_long(rows: list[dict[str, object]], summary: str) -> None:
    shown = pages(Answer(summary=summary, rows=tuple(rows)))
    joined: list[dict[str, object]] = []
    for row in (dict(row) for page in shown for row in page.rows):
        if joined and set(row) <= set(joined[-1]) and joined[-1] != rows[len(joined) - 1]:  # the rest of a long text
            (name,) = row
            joined[-1][name] = f"{joined[-1][name]}{row[name]}"
        else:
            joined.append(row)
    assert joined == rows
    for page in pages(Answer(summary="fine", rows=tuple(rows))):
        assert len(in_json(page.data())) <= answer.MOST_CHARACTERS + answer.LONGEST_TEXT


def test_plain_text_has_pages_of_the_stated_length_and_cut_code_is_whole_when_joined() -> None:
    rows = tuple({"line": f"kernels/my.cu:{number}", "wavefronts": 1000 + number} for number in range(2000))
    first, *others = pages(Answer(summary="2000 lines", rows=rows))
    assert len(others) > 10
    assert all(len(page.text()) <= answer.MOST_CHARACTERS + 100 for page in (first, *others))
    assert first.data()["next"] == {"tool": "lint", "arguments": {"files": ["a.cu"], "page": 2}}
    assert 'next: lint {"files": ["a.cu"], "page": 2}' in first.text()
    assert "next" not in others[-1].data()
    code = "".join(f"line {number};\n" for number in range(2000))
    shown = pages(Answer(summary="code", rows=({"CUDA": code},)))
    assert "".join(row["CUDA"] for page in shown for row in page.rows) == code
    with pytest.raises(UsageError, match="no page 2") as error:
        answer.page(Answer(summary="one"), CALL, 2)
    assert error.value.hint == "page is at least 1 and at most 1"


def test_texts_of_files_reach_the_client_visibly_and_unknown_is_said() -> None:
    shown = answer.page(Answer(summary="a\x1b[2J", rows=({"kernel": "b\u202ec"},)), CALL).text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    counts = Answer(summary="counts", rows=({"wavefronts": None, "note": "", "ideal": 0},))
    assert answer.page(counts, CALL).text() == "counts\nwavefronts: unknown, ideal: 0"
