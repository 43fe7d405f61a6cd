"""Descriptions of kernels are understood or refused: expressions, arguments, sizes, options, settings, families."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st

from bench.corpus import bytewise, hostile, originals, trees
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.kernels import arguments, catalog, fills, naming, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.project import specs
from tests.support.properties import chances, examples, holds

N = {"n": 8, "m": 3}
HOSTILE = st.sampled_from((*hostile.VALUES["expressions"], *hostile.VALUES["arguments"]))
TEXTS = st.text(max_size=40) | st.text(alphabet="nm0189+-*/%() ,:=[]xfloatin32_.e", max_size=40) | HOSTILE


@examples
def test_any_expression_is_an_integer_or_refused(examples: int) -> None:
    def check(text: str) -> None:
        with contextlib.suppress(NcuSwizzleError):
            value = evaluate(text, N)
            assert type(value) is int
            str(value)

    holds(examples, check, TEXTS)


Expression = tuple[str, int]
LEAVES = st.integers(0, 2**31).map(lambda value: (str(value), value)) | st.sampled_from([("n", 8), ("m", 3)])


def _together(parts: tuple[Expression, str, Expression]) -> Expression:
    (left, a), operation, (right, b) = parts
    values = {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0}
    return f"({left}) {operation} ({right})", values[operation]


@examples
def test_an_expression_has_the_value_that_it_has_in_python(examples: int) -> None:
    def check(expression: Expression) -> None:
        text, value = expression
        try:
            found = evaluate(text, N)
        except NcuSwizzleError:
            assert "//" in text or "%" in text or abs(value) > 2**31, (
                "only a division by zero or a huge number is refused"
            )
        else:
            assert "// (0)" in text or "% (0)" in text or found == eval(text, {}, dict(N)), text

    operations = st.sampled_from(["+", "-", "*", "//", "%"])
    holds(
        examples,
        check,
        st.recursive(LEAVES, lambda part: st.tuples(part, operations, part).map(_together), max_leaves=6),
    )


@examples
def test_any_argument_is_understood_or_refused(examples: int) -> None:
    def check(texts: Sequence[str]) -> None:
        with contextlib.suppress(NcuSwizzleError):
            for argument in arguments.parse_arguments(texts, Path("/nowhere"), N):
                if argument.shape:
                    assert all(size >= 1 for size in fills.shape(argument, N))
                else:
                    assert fills.scalar(argument, N).dtype == fills.numpy_dtype(argument.dtype)

    holds(examples, check, st.lists(TEXTS, max_size=3))


def _settings(file: Path) -> None:
    with contextlib.suppress(NcuSwizzleError):
        settings = project.project_in(file)
        assert all(isinstance(folder, Path) for folder in settings.catalog)
        for spec in specs(settings):
            assert spec.name
        naming.everything(CatalogOptions(str(file)))


def _family(file: Path) -> None:
    with contextlib.suppress(NcuSwizzleError):
        for family in catalog.load(file.parent.parent).families:
            with contextlib.suppress(NcuSwizzleError):
                problem = family.problem()
                for kernel in family.kernels:
                    assert Target(family, kernel, problem).launch
                    family.source(kernel)


@examples
@pytest.mark.parametrize("name", ["ncu-swizzle.toml", "family.toml"])
def test_any_settings_are_read_or_refused(name: str, examples: int, tmp_path: Path) -> None:
    content = originals.project() if name == "ncu-swizzle.toml" else originals.family("transpose/transpose-xor")
    read = _settings if name == "ncu-swizzle.toml" else _family
    file = tmp_path / "kernels" / "mine" / name
    file.parent.mkdir(parents=True)

    def check(damage: str, chance: Random) -> None:
        if damage == "wanted":
            file.write_bytes(trees.toml(trees.with_wanted(content, chance)))
        elif damage == "a hostile value":
            changed = trees.with_hostile_value(content, chance)
            file.write_bytes(trees.toml(changed if isinstance(changed, dict) else {}))
        else:
            whole = trees.toml(content)
            file.write_bytes(bytewise.TEXT[damage](whole, whole, chance))
        read(file)

    holds(examples, check, st.sampled_from(["wanted", "a hostile value", *bytewise.TEXT]), chances)
