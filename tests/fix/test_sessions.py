"""Command lines of fix and what comes of them: tests/data/sessions/fix."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
