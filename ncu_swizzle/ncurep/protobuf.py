"""The wire format of protobuf messages, which make up a .ncu-rep; field numbers come from its ``.proto`` files.

Everything raises ValueError, IndexError or struct.error if the bytes are not a valid message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | memoryview


class Message:
    """The fields of one message by number; a missing one reads as 0 or empty, a repeated one as its last value."""

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value, _ in fields(data):
            self._fields.setdefault(number, []).append(value)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def __contains__(self, field: int) -> bool:
        return field in self._fields

    def number(self, field: int) -> int:
        value = self._fields.get(field, [0])[-1]
        if not isinstance(value, int):
            raise ValueError(f"field {field} is not a number")
        return value

    def bytes(self, field: int) -> memoryview:
        return self.all_bytes(field)[-1] if field in self._fields else memoryview(b"")

    def all_bytes(self, field: int) -> list[memoryview]:
        """Return every value of a repeated field."""
        values = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                raise ValueError(f"field {field} is a number")
            values.append(value)
        return values

    def text(self, field: int) -> str:
        return text(self.bytes(field))

    def texts(self, field: int) -> list[str]:
        return [text(value) for value in self.all_bytes(field)]

    def message(self, field: int) -> Message:
        return Message(self.bytes(field))

    def messages(self, field: int) -> list[Message]:
        return [Message(value) for value in self.all_bytes(field)]

    def float32(self, field: int) -> float:
        return float(struct.unpack("<f", self.bytes(field))[0])

    def float64(self, field: int) -> float:
        return float(struct.unpack("<d", self.bytes(field))[0])


def fields(message: memoryview, position: int = 0) -> Iterator[tuple[int, Value, int]]:
    """Yield number, value and start of each field in a message, from a field's start on; raise ValueError."""
    while position < len(message):
        start = position
        tag, position = varint(message, position)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a message has field number 0")
        if wire == 0:
            value, position = varint(message, position)
            yield number, value, start
            continue
        if wire == 2:
            size, position = varint(message, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a message has a field of unknown wire type {wire}")
        if position + size > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[position : position + size], start
        position += size


def varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Return the number at the position, and the position after it."""
    value = shift = 0
    while shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise ValueError("a number does not end")


def text(value: memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")
