"""How often a property is tried: with a few values in `make test`, with many in `make test-all`, always the same.

bench/attacks/damage.py finds new ones: it takes a seed.
"""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HANG = timedelta(seconds=60)  # for one value; generous, for other tests run beside it

examples = pytest.mark.parametrize(
    "examples", [pytest.param(60, id="few"), pytest.param(3000, id="many", marks=pytest.mark.slow)]
)
# A seeded generator: hypothesis chooses and shrinks the seed, and prints it.
chances: st.SearchStrategy[Random] = st.integers(0, 2**32 - 1).map(Random)


def holds(examples: int, check: Callable[..., Any], *values: st.SearchStrategy[Any]) -> None:
    """Try the property on so many values; none may take longer than a hang."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    limits = settings(max_examples=examples, deadline=HANG, derandomize=True, suppress_health_check=slow)
    limits(given(*values)(check))()
