"""Command lines of sweeps and what comes of them: tests/data/sessions/sweep."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("sweep"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
