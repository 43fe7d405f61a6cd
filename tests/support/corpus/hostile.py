"""Values that somebody would put into a file to hurt whoever reads it."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Sequence
from random import Random
from typing import Any

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

MARKUP = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</script><svg onload=alert(1)>",
    "<!--<script>]]>&amp;</style>",
    "'\"><img src=x onerror=alert(1)>",
)
CONTROLS = (
    "\x1b[2J\x1b]0;owned\x07kernel",
    "\x1b]8;;file:///etc/passwd\x1b\\kernel\x1b]8;;\x1b\\",
    "kernel\u202e)tni ,*taolf(\u2066 x \u2069\u200f",
    "\x9b31mkernel\x9d0;owned\x9c\x85",
    "\x00\x01\x07\x08\x0b\x0c\x7f",
    "one\rtwo\r\nthree\n\n::stop-commands::x\n::error file=x::owned\n",
    "\u2028\u2029\ufeff\u200b\ufffe",
)
FORMULAS = (
    '=HYPERLINK("http://x","y")',
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "\t=1+1",
    "\r=1",
)
TEMPLATES = (
    "{{ 7 * 7 }}{% for x in y %}",
    "[bold red]kernel[/] [/nothing] [link=file:///etc/passwd]x[/link]",
    "%n%s%x {0} {}",
)
TABLES = ("a | b |\n| --- | --- |\n# head\n[x](javascript:alert(1)) `` ``` ~~~", "..", "/", "../../victim", ".", "")
TEXTS = (*MARKUP, *CONTROLS, *FORMULAS, *TEMPLATES, *TABLES)
SURROGATES = ("\ud800", "kernel\udcff")

LONG = (
    "x" * 10**6,
    "\n" * 50_000,
    "(" * 10**6,
    "([{<" * 5_000,
    "<" * 20_000,
    "<" * 20_000 + ">" * 20_000,
    "void f(" * 10_000,
    "/*" * 50_000,
    '"' * 50_001,
    "a::" * 30_000,
    "🦆" * 100_000,
    " " * 10**6,
)


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
        return chance.choice(
            ([], value * 2, value * 300 if len(value) < 1000 else value[:-1], value[:1], value[::-1], [value])
        )
    if isinstance(value, dict):
        return chance.choice(
            ({}, {text(chance)[:2000]: part for part in value.values()}, {**value, text(chance)[:2000]: 1})
        )
    return anything(chance)


def anything(chance: Random) -> Any:
    """Return a hostile value of any type that JSON and TOML know."""
    kinds: Sequence[Any] = (None, True, [], {}, "", "x", [[]], {"": None}, nested(chance.choice((100, 900))))
    return chance.choice((chance.choice(INTEGERS), chance.choice(FLOATS), text(chance), chance.choice(kinds)))


def nested(depth: int) -> list[Any]:
    """Return lists within lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class _Payload:
    def __reduce__(self) -> Any:
        return os.system, (RUN,)


def pickled() -> bytes:
    """Return a pickle that runs a command when it is loaded."""
    return pickle.dumps(_Payload())
