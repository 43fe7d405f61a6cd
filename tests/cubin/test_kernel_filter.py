"""Which kernels -k means, for every command."""

from __future__ import annotations

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.cubin.names import KernelFilter

NAMES = ("tile-swizzled", "void ns::turn<(int)32>(float *, int)", "_ZN2ns4turnILi32EEEvPfi")


MEANT = ("", "turn", "turn<32>", "tile-swizzled", NAMES[2], NAMES[1], "regex:^tu.n$", "regex:ns::", "regex:swizzled$")
NOT_MEANT = ("tur", "tu.n", "regex:swizz$", "regex:ILi32E", "3", "32")  # the fourth is in the mangled name alone


def test_a_name_is_exact_and_an_expression_is_searched_for() -> None:
    assert [text for text in (*MEANT, *NOT_MEANT) if KernelFilter(text).passes(NAMES)] == [*MEANT]
    assert KernelFilter("3").passes(("3", ""))


def test_an_expression_that_is_not_valid_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"kernel_name: '\(' is not a valid regular expression"):
        KernelFilter("regex:(", "kernel_name").checked()
    assert KernelFilter("(").checked().text == "("
