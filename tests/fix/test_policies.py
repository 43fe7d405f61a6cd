"""Layout policies are found with their siblings, wherever a kernel's own source names them."""

import contextlib

import pytest

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.edits import BEGIN, END, edited
from ncu_swizzle.fix.named import declared_layouts, renamings
from ncu_swizzle.fix.scopes import Scopes
from tests.support.places import table

FACTS = table("facts/policies.toml")
TEXTS = FACTS["texts"]


def names(kernel: str, policies: str = TEXTS["policies"]) -> list[str]:
    """Return what a kernel may name, and where: the source with the names changed."""
    text = (policies + kernel).encode()
    file = cuda.parse(text, "k.cu")
    return [edited(text, renaming.edits).decode().removeprefix(policies) for renaming in renamings(file, "k")]


def test_siblings_can_stand_in_place_of_a_policy() -> None:
    assert {kernel: names(kernel) for kernel in FACTS["siblings"]} == FACTS["siblings"]


def test_a_header_stays_as_it_is() -> None:
    begin, end = BEGIN.decode() + b"p.cuh\0#include\n".hex() + "\n", END.decode() + "\n"
    assert names("", f"{begin}{TEXTS['policies']}using L = near::A;\n{end}") == []
    assert len(names("using L = near::A;", f"{begin}{TEXTS['policies']}using L = near::A;\n{end}")) == 1


def test_a_layout_is_composed_where_it_is_declared() -> None:
    kernel = "__global__ void k() {{ {} }}"
    for declared, composed in FACTS["composed"].items():
        text = kernel.format(declared).encode()
        layouts = declared_layouts(cuda.parse(text, "k"), "k")
        written = [edited(text, layout.composed("Swizzle<3,2,3>")).decode() for layout in layouts]
        assert written == [kernel.format(layout) for layout in composed], declared


def escapes(body: str) -> list[str]:
    """Return why a kernel with these statements cannot name the other policy."""
    file = cuda.parse((TEXTS["placed"] + TEXTS["turn"].replace("BODY", body)).encode(), "k.cu")
    reasons = []
    for renaming in renamings(file, "k"):
        assert renaming.name == "Mixed"
        try:
            renaming.placed_only(Scopes(file), (32, 32, 1))
        except Unfit as reason:
            reasons.append(str(reason))
    return reasons


def test_a_policy_that_does_more_than_to_place_elements_is_not_exchanged() -> None:
    for body, said in FACTS["more"].items():
        reasons = escapes(body)
        assert len(reasons) == bool(said), body
        assert said in "".join(reasons), body


def test_a_layout_of_global_memory_is_not_swizzled() -> None:
    for body, escaping in FACTS["escaping"].items():
        file = cuda.parse(TEXTS["laid_out"].replace("BODY", body).encode(), "k.cu")
        (layout,) = declared_layouts(file, "k")
        with pytest.raises(Unfit) if escaping else contextlib.nullcontext():
            layout.shared_only(Scopes(file))
