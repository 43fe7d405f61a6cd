"""Questions to `explain` and its answers: tests/data/sessions/explain."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("explain"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
