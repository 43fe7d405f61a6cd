"""Command lines of the gate and what comes of them: tests/data/sessions/gate."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("gate"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
