"""Command lines of many commands and what comes of them: tests/data/sessions/commands."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("commands"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
