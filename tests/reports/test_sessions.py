"""Command lines about the rule pack and what comes of them: tests/data/sessions/reports."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
