"""Damage to a file whatever it holds: cut, flipped, spliced with another of its kind."""

# ruff: noqa: ARG001 - every kind of damage is given the same

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

Damage = Callable[[bytes, bytes, Random], bytes]  # the file, another of its kind, chance


def _cut(data: bytes, other: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _flip(data: bytes, other: bytes, chance: Random) -> bytes:
    return _flipped(data, 1, chance)


def _flips(data: bytes, other: bytes, chance: Random) -> bytes:
    return _flipped(data, chance.randrange(2, 60), chance)


def _flipped(data: bytes, bits: int, chance: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(bits):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _splice(data: bytes, other: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


def _hole(data: bytes, other: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + bytes(end - start) + data[end:]


def _lost(data: bytes, other: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _twice(data: bytes, other: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:]


def _noise(data: bytes, other: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + chance.randbytes(end - start) + data[end:]


def _longer(data: bytes, other: bytes, chance: Random) -> bytes:
    return data + chance.choice([b"\0", b"\n\n{}", chance.randbytes(40), other])


def _span(data: bytes, chance: Random) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.randrange(1, max(2, min(4096, len(data)))))


def _words(data: bytes, other: bytes, chance: Random) -> bytes:
    """Put a hostile value in place of a number or a text of a file that people can read."""
    marks = [index for index, byte in enumerate(data) if byte in b":=,["]
    start = chance.choice(marks) + 1 if marks else 0
    end = start + 1
    while end < len(data) and data[end] not in b",]}\n":
        end += 1
    return data[:start] + b" " + chance.choice(WORDS) + data[end:]


WORDS = (
    *(
        b"1e400",
        b"-1e400",
        b"NaN",
        b"nan",
        b"inf",
        b"-1",
        b"9" * 400,
        b"9" * 4300,
        b"9" * 5000,
        b"null",
        b"true",
        b"{}",
    ),
    *(b"[]", b'""', b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"0x7f"),
    *(b"'''", b'"../../../etc/passwd"', b'"2 ** 9999"', b'"n // 0"', b'"(" ', b"\"__import__('os')\"", b"1979-05-27"),
    *(b"[[1]]", b"0x" + b"f" * 5000, b"1_000_000_000_000_000_000_000", b"1e308", b'"\\u202e\\u001b[31m"'),
)

BINARY: Mapping[str, Damage] = {
    "cut": _cut,
    "one bit": _flip,
    "many bits": _flips,
    "spliced with another": _splice,
    "a hole of zeros": _hole,
    "a piece lost": _lost,
    "a piece twice": _twice,
    "noise": _noise,
    "longer": _longer,
}
TEXT: Mapping[str, Damage] = {**BINARY, "a hostile word": _words}
