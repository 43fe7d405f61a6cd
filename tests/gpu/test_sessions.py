"""Command lines that need a GPU and what comes of them: tests/data/sessions/gpu."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
