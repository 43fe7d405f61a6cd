"""Command lines of sweeps and what comes of them: tests/data/sessions/sweep."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
