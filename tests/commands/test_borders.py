"""Hostile text in every field of every input, and no output that it harms.

The fields are found by walking the dataclasses, so a new one is covered without a change here.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ncu_swizzle.render import formats, terminal
from ncu_swizzle.reports.model import Profile
from tests.support import writers
from tests.support.hostile import CHECKS, EVERYTHING, PARTS, STARTS, check_json, poisoned, text_fields, texts_in
from tests.support.writers import Made, Writer

GROUPS = 2  # of fields
KINDS = ("profiles", "verdict", "sweep", "catalog", "times", "diagnosis", "maps")
Inputs = dict[str, tuple[Any, Made]]


def check_all(made: Iterator[Writer]) -> None:
    for kind, write in made:
        CHECKS[kind](write())


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_harms_no_output(kind: str, inputs: Inputs) -> None:
    """In every field at once, and in some beside good text, so that everything is written that is written of that."""
    value, made = inputs[kind]
    check_all(made(lambda text: f"{STARTS[0]}{text}{EVERYTHING}", ()))
    fields = text_fields(value)
    for group in filter(None, (fields[first::GROUPS] for first in range(GROUPS))):
        check_all(made(lambda text: f"{STARTS[1]}{text}{EVERYTHING}", group))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_hostile_text_alone_harms_no_output(kind: str, inputs: Inputs) -> None:
    value, made = inputs[kind]
    fields = text_fields(value)
    for number, part in enumerate((*STARTS, *PARTS)):
        check_all(made(lambda text, part=part: part, fields[number % GROUPS :: GROUPS]))  # type: ignore[misc]


def test_saved_profiles_and_json_keep_hostile_text_exactly(pair: tuple[Profile, ...]) -> None:
    hostile = poisoned(pair, lambda text: f"{text}{EVERYTHING}")
    for profile in hostile:
        text = profile.to_json()
        check_json(text)
        assert Profile.from_json(text) == profile
    whole = formats.to_json(writers.result_of(hostile))
    assert f"{pair[0].kernel.name}{EVERYTHING}" in set(texts_in(json.loads(whole)))


@pytest.mark.long
def test_styles_are_the_only_control_characters_on_a_terminal(pair: tuple[Profile, ...]) -> None:
    hostile = poisoned(pair, lambda text: f"{text}{EVERYTHING}")
    for kind, write in writers.profiles(hostile, styled=True):
        CHECKS[kind](write())
    (shown,) = {writers.printed(terminal.show, writers.result_of(hostile), styled=True)}
    assert "\x1b[1" in shown


def test_markup_in_a_name_is_text(pair: tuple[Profile, ...]) -> None:
    name = "[red]a[/] ns::x::f [/] \\"
    made = poisoned(pair[:1], lambda text: name, ["KernelId.name"])
    assert name in " ".join(writers.printed(terminal.show, writers.result_of(made)).split())
