"""Hints reach clients as calls, not as command lines."""

from __future__ import annotations

import pytest

from ncu_swizzle.base.errors import TimeLimit, UnknownKernel, UsageError
from ncu_swizzle.servers import folders


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("ncu-swizzle profile alpha, or --kernel alpha", 'profile {"kernel": "alpha"}, or launch={"kernel": "alpha"}'),
        ("--arg x=float32[n]:random --arg n=int32:n", 'launch={"args": ["x=float32[n]:random", "n=int32:n"]}'),
        ("use smaller sizes: --problem n=64", 'use smaller sizes: launch={"problem": {"n": 64}}'),
        ("--grid '128, 2'", 'launch={"grid": "128, 2"}'),
        ("take --sample 1.", 'take launch={"sample": 1}.'),
        ("--kernel 'unbalanced", "--kernel 'unbalanced"),
        ("name a .cu file", "name a .cu file"),
    ],
)
def test_options_become_a_launch(hint: str, words: str) -> None:
    assert folders.hint(UsageError("wrong", hint)) == words


def test_what_only_the_server_takes_is_said_to_be_its_own() -> None:
    assert folders.hint(TimeLimit("slow", "raise the limit with --timeout SECONDS")).endswith(
        "the server's option --timeout SECONDS"
    )
    assert "list_kernels" in folders.hint(UnknownKernel("unknown kernel", "ncu-swizzle list shows all kernels"))
