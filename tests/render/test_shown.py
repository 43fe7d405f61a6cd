"""What is shown of profiles, in whole; ``python -m tests.support.shown`` writes it down again, for you to look at."""

import difflib

import pytest

from tests.support.recordings import Recorded
from tests.support.shown import SCENARIOS, SHOWN, file_of, text_of


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_shown_is_what_was_written_down(name: str, recorded: Recorded) -> None:
    written, now = file_of(name).read_text(encoding="utf-8"), text_of(name, recorded)
    if now != written:
        pytest.fail("\n".join(difflib.unified_diff(written.splitlines(), now.splitlines(), n=1)), pytrace=False)


def test_nothing_else_is_written_down() -> None:
    assert set(SHOWN.iterdir()) == {file_of(name) for name in SCENARIOS}
