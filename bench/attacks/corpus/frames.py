"""A .ncu-rep taken apart into its messages and put together again, with one of their fields changed.

Every length around the changed field is right afterwards: what reads the report gets as far as the field itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from bench.attacks.corpus import hostile
from ncu_swizzle.reports import container

Field = tuple[int, int, int | bytes]  # number, wire type, value
START = len(container.MAGIC)
_PAYLOAD_SIZE, _PAYLOAD_ORDER = container._PAYLOAD_SIZE, container._PAYLOAD_ORDER


@dataclass(frozen=True)
class Block:
    """A block's header, and the type and content of each message in its payload."""

    header: bytes
    payload: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True)
class Report:
    """A report's head and its blocks."""

    head: bytes
    blocks: tuple[Block, ...]

    @classmethod
    def taken_apart(cls, data: bytes) -> Report:
        head, position = _sized(data, START)
        blocks = []
        while position < len(data):
            header, position = _sized(data, position)
            counts = container.Message(memoryview(header))
            payload = []
            for kind in _PAYLOAD_ORDER:
                for _ in range(counts.number(kind)):
                    content, position = _sized(data, position)
                    payload.append((kind, content))
            blocks.append(Block(header, tuple(payload)))
        return cls(head, tuple(blocks))

    def put_together(self) -> bytes:
        parts = [container.MAGIC, _framed(self.head)]
        for block in self.blocks:
            content = b"".join(_framed(message) for _, message in block.payload)
            parts += [_framed(_resized(block.header, len(content))), content]
        return b"".join(parts)

    def changed(self, change: Callable[[bytes], bytes], chance: Random, kind: int | None = None) -> Report:
        """Return the report with one message changed: of that type, or any, or a header."""
        blocks = list(self.blocks)
        places = [
            (b, m) for b, block in enumerate(blocks) for m, part in enumerate(block.payload) if kind in (None, part[0])
        ]
        if not places or (kind is None and chance.random() < 0.2):
            number = chance.randrange(len(blocks))
            blocks[number] = replace(blocks[number], header=change(blocks[number].header))
            return replace(self, blocks=tuple(blocks))
        number, message = chance.choice(places)
        payload = list(blocks[number].payload)
        payload[message] = (payload[message][0], change(payload[message][1]))
        blocks[number] = replace(blocks[number], payload=tuple(payload))
        return replace(self, blocks=tuple(blocks))


def _sized(data: bytes, position: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + size], position + 4 + size


def _framed(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _resized(header: bytes, size: int) -> bytes:
    parts = taken_apart(header)
    return put_together([(n, w, size if n == _PAYLOAD_SIZE else value) for n, w, value in parts])


# ------------------------------------------------------------------------------------------------ messages


def taken_apart(message: bytes) -> list[Field]:
    """Return the fields of a message; raise ValueError or IndexError if it is none."""
    parts: list[Field] = []
    for number, value, start in container.fields(memoryview(message)):
        tag, _ = container.varint(message, start)
        parts.append((number, tag & 7, value if isinstance(value, int) else bytes(value)))
    return parts


def put_together(parts: list[Field]) -> bytes:
    """Return the message with these fields."""
    return b"".join(field(*part) for part in parts)


def field(number: int, wire: int, value: int | bytes) -> bytes:
    """Return a field as protobuf writes it."""
    tag = varint(number << 3 | wire)
    if isinstance(value, int):
        return tag + varint(value)
    return tag + (varint(len(value)) if wire == 2 else b"") + value


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def with_hostile_field(message: bytes, chance: Random) -> bytes:
    """Return the message with one field, at any depth, changed, dropped or repeated."""
    parts = taken_apart(message)
    if not parts:
        return message + field(1, 0, chance.choice(hostile.INTEGERS))
    number = chance.choice(sorted({part[0] for part in parts}))
    index = chance.choice([i for i, part in enumerate(parts) if part[0] == number])
    _, wire, value = parts[index]
    if (fate := chance.random()) < 0.06:
        del parts[index]
    elif fate < 0.12:
        parts.insert(index, parts[index])
    elif isinstance(value, int):
        parts[index] = (number, wire, chance.choice(hostile.INTEGERS))
    elif wire != 2:
        parts[index] = (number, wire, chance.choice((b"\xff" * 8, b"\0" * 8, struct.pack("<d", 1e308)))[: len(value)])
    else:
        parts[index] = (number, wire, _changed(value, chance))
    return put_together(parts)


def _changed(value: bytes, chance: Random) -> bytes:
    if not is_text(value) and chance.random() < 0.9:
        try:
            return with_hostile_field(value, chance)
        except (ValueError, IndexError):
            pass
    return hostile.text(chance).encode("utf-8", "replace")


def is_text(value: bytes) -> bool:
    """Say whether a field is a text rather than a message or code."""
    try:
        return len(value) > 1 and value.decode().isprintable()
    except UnicodeDecodeError:
        return False
