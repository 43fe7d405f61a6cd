"""Limits and baselines are understood or refused, whatever they say."""

import contextlib
import math
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.gate import baseline
from ncu_swizzle.gate.baseline import Policy
from tests.support.corpus import bytewise, originals, trees
from tests.support.properties import chances, examples, holds

RULES = st.text(max_size=30) | st.text(alphabet="0123456789.:=*%einf-+LDSM(ab)?|[", max_size=30)
VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.lists(st.integers(), max_size=2)
)
HUGE = st.sampled_from(
    ["9" * 4300, "9" * 5000, "1e400", "nan", "-0", "1e308", "LDS=" + "9" * 4301, "x" * 200_000 + ":0"]
)


@examples
def test_any_text_is_a_rule_or_refused(examples: int) -> None:
    def check(criterion: str, text: str) -> None:
        with contextlib.suppress(NcuSwizzleError):
            rule = baseline.parse_rule(criterion, text)
            assert math.isfinite(rule.limit)
            assert rule.limit >= baseline.LEAST[criterion]

    holds(examples, check, st.sampled_from(baseline.LIMITS), RULES | HUGE)


@examples
def test_any_setting_is_a_rule_or_refused(examples: int) -> None:
    def check(criterion: str, limit: Any, kernel: Any, access: Any) -> None:
        with contextlib.suppress(NcuSwizzleError):
            rule = baseline.rule(criterion, limit, kernel, access, "here")
            limits = Policy(rules=(rule,)).limits(("kernel2", "void kernel2(int)"), ("LDS", "STS"))
            assert all(chosen is rule for chosen in limits.values())

    holds(examples, check, st.sampled_from(baseline.LIMITS), VALUES, VALUES, VALUES)


@examples
def test_a_baseline_with_a_hostile_value_is_read_or_refused(examples: int, tmp_path: Path) -> None:
    content, file = originals.baseline_content("transpose/transpose-xor"), tmp_path / "baseline.json"
    whole = trees.written(content)
    now = baseline.entry_of([originals.profile("transpose/transpose-xor")])

    def check(damage: str, chance: Random) -> None:
        if damage in bytewise.TEXT:
            file.write_bytes(bytewise.TEXT[damage](whole, whole, chance))
        else:
            file.write_bytes(trees.written(trees.with_hostile_value(content, chance), trees.sealed_baseline))
        with contextlib.suppress(NcuSwizzleError):
            found = baseline.load(file)
            for entry in found.entries:
                assert entry.duration_ns is None or entry.duration_ns >= 0
                assert isinstance(entry.spread, float)
                assert all(count.excessive is None or count.excessive >= 0 for count in entry.accesses.values())
            if nearest := found.nearest(now):
                baseline.differences(nearest, now)
            found.with_([now]).to_json()

    holds(examples, check, st.sampled_from(["sealed", "sealed", "sealed", *bytewise.TEXT]), chances)
