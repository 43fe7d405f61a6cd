"""What is shown of profiles, in whole; ``python -m tests.support.shown`` writes it down again, for you to look at."""

import difflib
from collections.abc import Callable

import pytest

from tests.support.recordings import Recorded
from tests.support.shown import NAMES, SHOWN, texts

Texts = dict[str, Callable[[], str]]


@pytest.fixture(scope="module")
def shown(recorded: Recorded) -> Texts:
    return texts(recorded)


QUICK = {"one", "unknown", "computed", "a-long-source"}  # one of each kind


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n not in QUICK)) for n in NAMES])
def test_what_is_shown_is_what_was_written_down(name: str, shown: Texts) -> None:
    written, now = (SHOWN / f"{name}.txt").read_text(encoding="utf-8"), shown[name]()
    if now != written:
        pytest.fail("\n".join(difflib.unified_diff(written.splitlines(), now.splitlines(), n=1)), pytrace=False)


def test_nothing_else_is_written_down(shown: Texts) -> None:
    assert sorted(shown) == sorted(NAMES)
