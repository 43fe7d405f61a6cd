"""Index expressions are taken apart into products, and constants are computed as C++ does."""

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.sums import Constants, Term


def terms(expression: str) -> tuple[Term, ...]:
    file = cuda.parse(f"int f() {{ return {expression}; }}".encode(), "test.cu")
    (returned,) = file.nodes("return_statement")
    return Constants(file=file, name=lambda node: {"W": 32, "H": 8}.get(file.of(node))).terms(
        returned.named_children[0]
    )


def test_the_constant_of_each_product() -> None:
    expected = {
        "y * 32 + x": [32, 1],
        "(y + 4) * W + x": [32, 1],
        "y << 5 | 1": [1],
        "(y << 5) + x": [32, 1],
        "s * W * H + y * W + x": [256, 32, 1],
        "x - W / 2": [1, 16],
        "010 + 0x10": [8, 16],
        "W * sizeof(float4)": [512],
    }
    assert {text: [term.constant for term in terms(text)] for text in expected} == expected
    assert [term.negative for term in terms("a - (b - c)")] == [False, True, False]
    (term,) = terms("n * W")  # an unknown name is a variable
    assert [factor.value for factor in term.factors] == [None, 32]
