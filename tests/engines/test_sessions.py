"""Command lines of the emulated engine and what comes of them: tests/data/sessions/engines."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
