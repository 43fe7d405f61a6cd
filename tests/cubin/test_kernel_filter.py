"""Which kernels -k means, for every command."""

from __future__ import annotations

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.cubin.names import KernelFilter

NAMES = ("tile-swizzled", "void ns::turn<(int)32>(float *, int)", "_ZN2ns4turnILi32EEEvPfi")


MEANT = {
    "": True,
    "turn": True,
    "turn<32>": True,
    "tile-swizzled": True,
    "_ZN2ns4turnILi32EEEvPfi": True,
    "void ns::turn<(int)32>(float *, int)": True,
    "tur": False,
    "tu.n": False,
    "regex:^tu.n$": True,
    "regex:ns::": True,
    "regex:swizzled$": True,
    "regex:swizz$": False,
    "regex:ILi32E": False,  # of the mangled name alone
    "3": False,
    "32": False,
}


def test_a_name_is_exact_and_an_expression_is_searched_for() -> None:
    assert {text: KernelFilter(text).passes(NAMES) for text in MEANT} == MEANT
    assert KernelFilter("3").passes(("3", ""))


def test_an_expression_that_is_not_valid_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match=r"kernel_name: '\(' is not a valid regular expression"):
        KernelFilter("regex:(", "kernel_name").checked()
    assert KernelFilter("(").checked().text == "("
