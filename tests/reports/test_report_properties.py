"""The parsers of a .ncu-rep read any bytes or refuse them: messages, containers, results, instruction tables."""

from __future__ import annotations

import contextlib
import struct
from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.reports import container, results
from tests.support.corpus import bytewise, frames, originals
from tests.support.properties import chances, examples, holds

INVALID = (ValueError, IndexError, struct.error)  # what `protobuf` says that it raises
NUMBERS = st.integers(0, 2**64 - 1)
FIELDS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 2**29 - 1), st.just(0), NUMBERS),
        st.tuples(st.integers(1, 40), st.just(1), st.binary(min_size=8, max_size=8)),
        st.tuples(st.integers(1, 40), st.just(2), st.binary(max_size=40)),
        st.tuples(st.integers(1, 40), st.just(5), st.binary(min_size=4, max_size=4)),
    ),
    max_size=12,
)


@examples
def test_a_message_is_read_as_it_was_written(examples: int) -> None:
    def check(parts: list[frames.Field]) -> None:
        written = frames.put_together(parts)
        assert frames.taken_apart(written) == parts
        message = results.Message(memoryview(written))
        for number, _, value in {part[0]: part for part in parts}.values():
            read = message.number(number) if isinstance(value, int) else None
            assert read == (value if isinstance(value, int) else None)

    holds(examples, check, FIELDS)


@examples
def test_a_number_is_read_as_it_was_written(examples: int) -> None:
    def check(number: int, more: bytes) -> None:
        written = frames.varint(number)
        assert results.varint(written + more, 0) == (number, len(written))

    holds(examples, check, NUMBERS, st.binary(max_size=4))


@examples
def test_any_bytes_are_a_message_or_none(examples: int) -> None:
    def check(data: bytes) -> None:
        with contextlib.suppress(*INVALID):
            for number, value, start in results.fields(memoryview(data)):
                assert number > 0
                assert 0 <= start < len(data)
                assert isinstance(value, int | memoryview)
        with contextlib.suppress(*INVALID):
            message = results.Message(memoryview(data))
            for read in (
                message.number,
                message.text,
                message.message,
                message.messages,
                message.float32,
                message.float64,
            ):
                with contextlib.suppress(*INVALID):
                    read(1)

    holds(examples, check, st.binary(max_size=80))


@examples
def test_any_message_is_a_result_or_none(examples: int) -> None:
    def check(data: bytes) -> None:
        for read in (
            lambda: results.source(memoryview(data)),
            lambda: results.kernel(memoryview(data), ["a", "b"], {}),
            *(lambda kind=kind: results.other(kind, memoryview(data), ["a"]) for kind in results.OTHERS),
            lambda: results._by_address(memoryview(data)),
        ):
            with contextlib.suppress(*INVALID, OverflowError):
                read()

    holds(examples, check, st.binary(max_size=80) | FIELDS.map(frames.put_together))


def _read(data: bytes) -> container.Container | None:
    """Return what the container holds; None if it is refused. Counts are decoded as a reader of it would."""
    try:
        found = container.container_of(data, "k.ncu-rep")
    except (BadFile, DamagedFile):
        return None
    for result in found.results:
        for name in result.lists:
            with contextlib.suppress(*INVALID, OverflowError):
                assert all(isinstance(count, int) for count in result.per_instruction(name).values())
    return found


@pytest.mark.long
@examples
def test_a_container_with_a_hostile_field_is_read_or_refused(examples: int) -> None:
    whole = frames.Report.taken_apart(originals.report("basic"))

    def check(chance: Random) -> None:
        _read(whole.changed(lambda message: frames.with_hostile_field(message, chance), chance).put_together())

    holds(examples // 4, check, chances)


@pytest.mark.long
@examples
def test_a_damaged_container_is_read_or_refused(examples: int) -> None:
    whole = originals.report("vectors/vectors-4-stride")

    def check(name: str, chance: Random) -> None:
        _read(bytewise.BINARY[name](whole, whole, chance))

    holds(examples, check, st.sampled_from(list(bytewise.BINARY)), chances)


@pytest.mark.long
def test_every_report_is_put_together_as_it_was() -> None:
    for source in (*originals.RECORDED, *originals.FOREIGN):
        data = originals.report(source)
        assert _read(frames.Report.taken_apart(data).put_together()) == _read(data)
