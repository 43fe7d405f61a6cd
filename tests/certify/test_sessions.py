"""Command lines of ``prove`` and what comes of them: tests/data/sessions/certify."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
