"""Damage to a file whatever it holds: cut, flipped, spliced with another of its kind."""

from collections.abc import Callable, Mapping
from random import Random

from bench.attacks.corpus import hostile

Damage = Callable[[bytes, bytes, Random], bytes]  # the file, another of its kind, chance


def _flipped(data: bytes, bits: int, chance: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(bits):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _within(data: bytes, chance: Random, change: Callable[[bytes], bytes]) -> bytes:
    """Return the file with a piece of at most 4096 bytes changed."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randrange(1, max(2, min(4096, len(data)))))
    return data[:start] + change(data[start:end]) + data[end:]


def _word(data: bytes, chance: Random) -> bytes:
    """Put a hostile value in place of a number or a text of a file that people can read."""
    marks = [index for index, byte in enumerate(data) if byte in b":=,["]
    start = chance.choice(marks) + 1 if marks else 0
    end = start + 1
    while end < len(data) and data[end] not in b",]}\n":
        end += 1
    return data[:start] + b" " + chance.choice(hostile.VALUES["words"]).encode("latin-1") + data[end:]


BINARY: Mapping[str, Damage] = {
    "cut": lambda data, other, chance: data[: chance.randrange(len(data))],
    "one bit": lambda data, other, chance: _flipped(data, 1, chance),
    "many bits": lambda data, other, chance: _flipped(data, chance.randrange(2, 60), chance),
    "spliced with another": lambda data, other, chance: (
        data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]
    ),
    "a hole of zeros": lambda data, other, chance: _within(data, chance, lambda piece: bytes(len(piece))),
    "a piece lost": lambda data, other, chance: _within(data, chance, lambda piece: b""),
    "a piece twice": lambda data, other, chance: _within(data, chance, lambda piece: piece * 2),
    "noise": lambda data, other, chance: _within(data, chance, lambda piece: chance.randbytes(len(piece))),
    "longer": lambda data, other, chance: data + chance.choice([b"\0", b"\n\n{}", chance.randbytes(40), other]),
}
TEXT: Mapping[str, Damage] = {**BINARY, "a hostile word": lambda data, other, chance: _word(data, chance)}
