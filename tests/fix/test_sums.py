"""Index expressions are taken apart into products, and constants are computed as C++ does."""

from __future__ import annotations

import pytest

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.sums import Constants, Term


def terms(expression: str) -> tuple[Term, ...]:
    file = cuda.parse(f"int f() {{ return {expression}; }}".encode(), "test.cu")
    (returned,) = file.nodes("return_statement")
    return Constants(file=file, name=lambda node: {"W": 32, "H": 8}.get(file.of(node))).terms(
        returned.named_children[0]
    )


@pytest.mark.parametrize(
    ("expression", "constants"),
    [
        ("y * 32 + x", [32, 1]),
        ("(y + 4) * W + x", [32, 1]),
        ("y << 5 | 1", [1]),
        ("(y << 5) + x", [32, 1]),
        ("s * W * H + y * W + x", [256, 32, 1]),
        ("x - W / 2", [1, 16]),
        ("010 + 0x10", [8, 16]),
        ("W * sizeof(float4)", [512]),
    ],
)
def test_the_constant_of_each_product(expression: str, constants: list[int]) -> None:
    assert [term.constant for term in terms(expression)] == constants


def test_what_is_subtracted_is_negative() -> None:
    assert [term.negative for term in terms("a - (b - c)")] == [False, True, False]


def test_an_unknown_name_is_a_variable() -> None:
    (term,) = terms("n * W")
    assert [factor.value for factor in term.factors] == [None, 32]
