"""Functions in Python with live tensors on a real GPU: measured, their outputs checked against a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import WrongOutput
from ncu_swizzle.commands.answers import Profile


def test_a_function_with_live_tensors_is_measured_and_checked(
    ncu_profile: Callable[..., Profile], tiles: Any, launch: dict[str, Any]
) -> None:
    profile = ncu_profile(tiles.transpose, reference=lambda x: x.T, **launch)
    assert profile.engine == "ncu"
    assert profile.errors == {"y": 0}
    assert profile.machine.gpu
    ncu_swizzle.assert_no_excess(profile)


def test_an_output_that_differs_from_the_function_is_refused(
    ncu_profile: Callable[..., Profile], tiles: Any, launch: dict[str, Any]
) -> None:
    with pytest.raises(WrongOutput, match=r"y differs from the reference: relative error .* \(allowed: "):
        ncu_profile(tiles.transpose, reference=lambda x: x, **launch)
