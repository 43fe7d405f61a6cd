"""Layouts, swizzles, accesses and expressions are understood or refused, whatever they say."""

from __future__ import annotations

import contextlib

import numpy as np
from hypothesis import strategies as st

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.smem import access, layout, swizzle
from ncu_swizzle.smem.layout import Layout
from tests.support.corpus import hostile
from tests.support.properties import examples, holds

HOSTILE = st.sampled_from(
    (
        *hostile.VALUES["sizes"],
        *hostile.VALUES["numbers"],
        "(" * 5000 + "2" + ")" * 5000,
        "٣:١",
        "²:1",
        "(2,2):(1,2) o " * 200 + "4:1",
    )
)
LAYOUTS = st.text(alphabet="0123456789(),:_ o∘", max_size=30) | st.text(max_size=20) | HOSTILE
EXPRESSIONS = st.text(alphabet="tidlanewrp0123456789+-*/%<>&|^~()= .", max_size=30) | st.text(max_size=20) | HOSTILE
SHAPES = st.recursive(st.integers(1, 4), lambda part: st.lists(part, min_size=1, max_size=3).map(tuple), max_leaves=5)


@examples
def test_any_text_is_a_layout_or_refused(examples: int) -> None:
    def check(text: str) -> None:
        with contextlib.suppress(NcuSwizzleError):
            found = layout.parse_layout(text)
            assert layout.parse_layout(str(found)) == found
            assert found.size >= 1

    holds(examples, check, LAYOUTS)


@examples
def test_a_layout_is_read_as_it_was_written(examples: int) -> None:
    def check(shape: layout.IntTuple) -> None:
        strided = Layout(shape, shape)
        assert layout.parse_layout(str(strided)) == strided
        assert layout.parse_layout(str(strided).replace("(", "( _").replace("_(", "(")) == strided

    holds(examples, check, SHAPES)


@examples
def test_any_text_is_an_expression_or_refused(examples: int) -> None:
    def check(text: str, threads: int) -> None:
        with contextlib.suppress(NcuSwizzleError):
            values = access.evaluate(text, threads)
            assert values.shape == (threads,)
            assert values.dtype == np.int64

    holds(examples, check, EXPRESSIONS, st.sampled_from([32, 1024]))


@examples
def test_splitting_loses_nothing(examples: int) -> None:
    def check(text: str) -> None:
        assert ",".join(access.split(text)) == text

    holds(examples, check, st.text(alphabet="(),a ", max_size=40))


@examples
def test_any_text_is_a_swizzle_or_refused(examples: int) -> None:
    def check(text: str, element_bytes: int) -> None:
        with contextlib.suppress(NcuSwizzleError):
            found = swizzle.parse_swizzle(text, element_bytes, 32)
            assert len(set(found(np.arange(1024)).tolist())) <= 1024
            assert str(found)

    texts = st.text(alphabet="0123456789,- bytesxorandSwizzle<>B:", max_size=20)
    numbers = st.tuples(*[st.integers(0, 70)] * 2, st.integers(-70, 70)).map("{0[0]},{0[1]},{0[2]}".format)
    holds(examples, check, texts | numbers | HOSTILE, st.sampled_from([1, 2, 4, 8, 16]))


@examples
def test_any_text_is_an_access_or_refused(examples: int) -> None:
    tile = layout.parse_layout("(32,32):(32,1)")

    def check(text: str, write: bool) -> None:
        with contextlib.suppress(NcuSwizzleError):
            found = access.parse(text, tile, 4, write)
            assert found.requests >= 1

    names = st.sampled_from(
        ["row", "rows:16", "column", "cp.async:4", "ldmatrix.x2.trans", "mma:8", "ld.shared.b32@tid%32,0"]
    )
    holds(examples, check, names | st.builds("{}{}".format, names, st.text(max_size=6)) | HOSTILE, st.booleans())
