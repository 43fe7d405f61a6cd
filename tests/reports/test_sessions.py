"""Command lines about the rule pack and what comes of them: tests/data/sessions/reports."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("reports"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
