"""Calls of agents and what comes of them: tests/data/sessions/servers."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
