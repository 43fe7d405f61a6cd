"""Command lines with kernels written in Python, and what comes of them: tests/data/sessions/frontends."""

from tests.support.sessions import test_what_comes_of_it  # noqa: F401
