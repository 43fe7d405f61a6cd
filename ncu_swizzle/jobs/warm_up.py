"""Load what is needed after ncu while ncu measures."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping

WARM_UP_AFTER_S = 0.5


@contextlib.contextmanager
def meanwhile(sources: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Prepare rendering while ncu measures, after a short delay in case it fails at once.

    `sources` returns the source texts that the page will show by path, as far as known.
    """
    warming = threading.Timer(WARM_UP_AFTER_S, _warm_up, (sources,))
    warming.start()
    try:
        yield
    finally:
        warming.cancel()
        warming.join()  # a thread that imports must not outlive the interpreter


def _warm_up(sources: Callable[[], Mapping[str, str]]) -> None:
    """Load the report reader, pandas, Jinja and the templates, which takes most of a second."""
    with contextlib.suppress(Exception):  # whatever needs it will raise the same error
        from ncu_swizzle.ncurep import reader  # noqa: F401
        from ncu_swizzle.render import page

        page.prepare(sources())
