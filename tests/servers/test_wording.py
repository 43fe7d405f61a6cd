"""Hints reach clients as calls, not as command lines."""

from __future__ import annotations

import pytest

from ncu_swizzle.base import errors
from ncu_swizzle.base.errors import Hint, TimeLimit, Typed, UnknownKernel, UsageError
from ncu_swizzle.servers import folders


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (
            Hint(Typed("ncu-swizzle profile alpha"), ", or ", Typed("--kernel alpha")),
            'profile {"kernel": "alpha"}, or launch={"kernel": "alpha"}',
        ),
        (
            Typed("--arg x=float32[n]:random --arg n=int32:n"),
            'launch={"args": ["x=float32[n]:random", "n=int32:n"]}',
        ),
        (Hint("use smaller sizes: ", Typed("--problem n=64")), 'use smaller sizes: launch={"problem": {"n": 64}}'),
        (Typed("--grid '128, 2'"), 'launch={"grid": "128, 2"}'),
        (Typed("--sample 1"), 'launch={"sample": 1}'),
        (Typed("--kernel 'unbalanced"), "--kernel 'unbalanced"),
        (Typed("--shared 1 --replay-mode kernel"), "--shared 1 --replay-mode kernel"),
        ("name a .cu file, a smaller --problem or --grid", "name a .cu file, a smaller --problem or --grid"),
    ],
)
def test_what_is_typed_becomes_a_call(hint: str, words: str) -> None:
    error = UsageError("wrong", hint)
    assert folders.hint(error) == words
    assert folders.hint(errors.of_json(errors.as_json(error))) == words, "also of an error of another process"


def test_what_only_the_server_takes_is_said_to_be_its_own() -> None:
    assert folders.hint(TimeLimit("slow", Hint("raise the limit with ", Typed("--timeout SECONDS")))).endswith(
        "the server's option --timeout SECONDS"
    )
    assert "list_kernels" in folders.hint(UnknownKernel("unknown kernel", "ncu-swizzle list shows all kernels"))
