"""Calls of agents and what comes of them: tests/data/sessions/servers."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("servers"))
def test_what_comes_of_a_call(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
