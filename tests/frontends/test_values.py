"""Literals of arguments and options, and grids over them."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.frontends import compiled
from ncu_swizzle.frontends.contract import CompileRequest


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128", 128),
        ("n // 2", 2048),
        ("-1", -1),
        ("1e-5", 1e-5),
        ("True", True),
        ("false", False),
        ("None", None),
        ("'n'", "n"),
        ("(1, 2)", (1, 2)),
        ("leaky_relu", "leaky_relu"),
        ("tl.float16", "half"),
        ("tl.nothing", "tl.nothing"),
        ("a.b", "a.b"),
    ],
)
def test_a_text_becomes_the_value_that_the_function_gets(text: str, value: Any) -> None:
    module = ModuleType("kernels")
    vars(module).update(tl=SimpleNamespace(float16="half"), leaky_relu=len)
    found = compiled.literal(text, {"n": 4096}, module)
    assert found == value
    assert type(found) is type(value)


def test_a_grid_has_sizes_and_the_functions_own_integers() -> None:
    request = CompileRequest(file="kernels.py", function="f", grid=("n // BM", "2", "1"), sizes={"n": 4096})
    assert compiled.grid(request, {"BM": 128, "flag": True, "name": "x"}) == (32, 2, 1)
    with pytest.raises(UsageError, match=r"grid: .* no size 'BM'"):
        compiled.grid(request, {})
    with pytest.raises(UsageError, match=r"kernels.py::f has no grid") as refused:
        compiled.grid(CompileRequest(file="kernels.py", function="f"), {})
    assert refused.value.hint == "--grid 128 gives it, one to three sizes"
