"""Values that somebody would put into a file to hurt whoever reads it; the texts are in tests/data/hostile."""

import math
import os
import pickle
import re
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.support.places import table

MARKER = "NCU_SWIZZLE_MARKER"  # the environment variable that names the file which no command may create
RUN = f'touch "${MARKER}"'
EVIL = "evil.sh"  # a program beside every hostile TOML file
PROGRAM = f"#!/bin/sh\n{RUN}\n".encode()
MODULE = f"import os\nos.system('{RUN}')\ndef fn(*_, **__): os.system('{RUN}')\n".encode()

INTEGERS = (
    *(0, -1, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**72 - 1, -(2**63)),
    *(10**20, 10**100, 10**308, 10**400, 10**4000, -(10**20)),
)
FLOATS = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.5, 1e20)
SURROGATES = ("\ud800", "kernel\udcff")


def _spelled_out(value: Any) -> Any:
    """Return the value with its repetitions written out: «3×ab» is ababab."""
    if isinstance(value, dict):
        return {_spelled_out(key): _spelled_out(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_spelled_out(part) for part in value]
    return re.sub(r"(?s)«(\d+)×(.*?)»", lambda m: m[2] * int(m[1]), value) if isinstance(value, str) else value


VALUES = _spelled_out(table("hostile/values.toml"))
CONTROLS, LONG = VALUES["texts"]["controls"], VALUES["texts"].pop("long")
TEXTS = tuple(text for texts in VALUES["texts"].values() for text in texts)
# By key of ncu-swizzle.toml.
SETTINGS = {
    **VALUES["settings"],
    **dict.fromkeys(("grid", "block", "shared", "bytes", "flops", "value"), VALUES["expressions"]),
    **dict.fromkeys(("file", "baseline"), VALUES["settings"]["source"]),
    **{key: [[path] for path in VALUES["settings"]["source"]] for key in ("include",)},
    "options": VALUES["settings"]["nvcc"],
    "args": [[text] for text in VALUES["arguments"]],
    "shape": [[text] for text in VALUES["expressions"]],
}


def text(chance: Random) -> str:
    """Return a text that does something to a screen, a page or a table, or that is long."""
    return chance.choice(chance.choice((TEXTS, TEXTS, TEXTS, LONG)))


def like(value: Any, chance: Random) -> Any:
    """Return a hostile value, usually of the same type: others are refused sooner."""
    if chance.random() < 0.2:
        return anything(chance)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return chance.choice(INTEGERS if isinstance(value, int) else (*FLOATS, *INTEGERS))
    if isinstance(value, str):
        return text(chance)
    if isinstance(value, list):
        longer = value * 300 if len(value) < 1000 else value[:-1]
        return chance.choice(([], value * 2, longer, value[:1], value[::-1], [value]))
    if isinstance(value, dict):
        renamed = {text(chance)[:2000]: part for part in value.values()}
        return chance.choice(({}, renamed, {**value, text(chance)[:2000]: 1}))
    return anything(chance)


def anything(chance: Random) -> Any:
    """Return a hostile value of any type that JSON and TOML know."""
    nested: list[Any] = []
    for _ in range(chance.choice((100, 900))):
        nested = [nested]
    kinds: Sequence[Any] = (None, True, [], {}, "", "x", [[]], {"": None}, nested)
    return chance.choice((chance.choice(INTEGERS), chance.choice(FLOATS), text(chance), chance.choice(kinds)))


class _Payload:
    def __reduce__(self) -> Any:
        return os.system, (RUN,)


def pickled() -> bytes:
    """Return a pickle that runs a command when it is loaded."""
    return pickle.dumps(_Payload())
