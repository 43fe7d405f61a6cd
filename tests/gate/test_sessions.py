"""Command lines of the gate and what comes of them: tests/data/sessions/gate."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
