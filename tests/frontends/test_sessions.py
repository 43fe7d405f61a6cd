"""Command lines with kernels written in Python, and what comes of them: tests/data/sessions/frontends."""

import pytest

from tests.support.sessions import Session, sessions


@pytest.mark.parametrize("session", sessions("frontends"))
def test_what_comes_of_a_command(session: Session, request: pytest.FixtureRequest) -> None:
    session.replay(request)
