"""Questions to `explain` and its answers: tests/data/sessions/explain."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
