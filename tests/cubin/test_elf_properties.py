"""A cubin is read or refused, whatever its header, sections, symbols, attributes, relocations, lines and names hold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError
from ncu_swizzle.cubin import demangled, lines, symbols
from ncu_swizzle.cubin.elf import Cubin
from tests.support.corpus import binaries, bytewise, originals
from tests.support.properties import chances, examples, holds

SOURCE = "vectors/vectors-4-stride"


def read(data: bytes) -> None:
    """Read everything that commands read of a cubin."""
    try:
        cubin = Cubin(data, "k.cubin")
        for kernel in cubin.kernels:
            attributes = cubin.attributes(kernel)
            assert attributes.registers >= 0
            assert all(slot.size >= 0 and slot.offset >= 0 for slot in attributes.parameters)
            for bank in cubin.constants(kernel).values():
                assert isinstance(bank, bytes)
            cubin.relocations(f".text.{kernel}")
            cubin.section(f".nv.shared.{kernel}")
            table = lines.line_table(data, kernel)
            assert isinstance(table.stack(16), tuple)
        for wanted in ("", "kernel", cubin.kernels[0]):
            with contextlib.suppress(NcuSwizzleError):
                assert symbols.find(cubin, wanted) in cubin.kernels
    except (BadFile, DamagedFile):
        return


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {
    "a header field": binaries.with_hostile_header,
    "a section's header": binaries.with_hostile_section,
    "a symbol": binaries.with_hostile_symbol,
    "names": binaries.with_hostile_names,
    "the line table": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.(nv_)?debug_"),
    "attributes": lambda data, chance: binaries.with_damaged_section(data, chance, r"\.nv\.|\.note"),
    **{name: lambda data, chance, name=name: bytewise.BINARY[name](data, data, chance) for name in bytewise.BINARY},
}


@pytest.mark.parametrize("name", DAMAGES)
@examples
def test_a_damaged_cubin_is_read_or_refused(name: str, examples: int) -> None:
    whole = originals.embedded(SOURCE)
    holds(examples // 6, lambda chance: read(DAMAGES[name](whole, chance)), chances)


@examples
def test_any_bytes_are_a_cubin_or_refused(examples: int) -> None:
    holds(examples, read, st.binary(max_size=200) | st.binary(max_size=200).map(b"\x7fELF".__add__))


@pytest.mark.long
@examples
def test_names_of_brackets_are_read_in_time(examples: int) -> None:
    def check(part: str, count: int) -> None:
        name = part * count
        for short in (demangled.function(name), demangled.shorten(name), demangled.qualified(name)):
            assert isinstance(short, str)
        demangled.parameter_types(name)
        assert len(demangled.distinct([name, f"{name}x", name])) == 3

    parts = st.text(alphabet="<>(){}[]:, *&a_Z~", min_size=1, max_size=6)
    holds(examples // 2, check, parts, st.sampled_from([1, 7, 500, 4000]))


@examples
def test_sources_of_brackets_are_read_in_time(examples: int) -> None:
    def check(part: str, count: int) -> None:
        assert isinstance(symbols.declared_kernels("__global__ void " + part * count), list)

    parts = st.text(alphabet='_ ()<>{};/*"\\\na', min_size=1, max_size=6) | st.sampled_from(
        ["__global__ ", "__a__((", "/*", '"']
    )
    holds(examples // 2, check, parts, st.sampled_from([1, 7, 500, 4000]))
