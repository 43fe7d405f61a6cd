"""Command lines of many commands and what comes of them: tests/data/sessions/commands."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
