"""What a module takes from outside: functions of the driver, constants that the host fills, functions by address."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import pytest

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch, module_image
from tests.support.places import DATA

BUFFER = 0x7F00_0000_0000


@cache
def module() -> tuple[Cubin, str]:
    folder = DATA / "modules"
    return Cubin((folder / "outside.cubin").read_bytes(), "outside"), (folder / "outside.sass").read_text("utf-8")


def counts(kernel: str, layout: str, *values: int, **more: Any) -> Counts:
    cubin, text = module()
    code = emulated_launch.code(cubin, kernel, text)
    return emulate(
        code,
        Launch(
            grid=(1, 1, 1), block=(64, 1, 1), shared_dynamic=0, parameters=struct.pack("<" + layout, *values), **more
        ),
    )


def shared(found: Counts) -> list[tuple[str, int | None, int | None]]:
    return [(row.access, row.executed, row.wavefronts) for row in found.rows if row.access]


@pytest.mark.parametrize("kernel", ["speaks", "asserts"])
def test_a_function_of_the_driver_returns_and_an_assertion_holds(kernel: str) -> None:
    found = counts(kernel, "Qi" if kernel == "speaks" else "QQ", BUFFER, 64)
    assert shared(found) == [("STS", 2, 4), ("LDS", 2, 2)]


def test_what_malloc_returns_is_unknown() -> None:
    (first, load, last) = [row for row in counts("allocates", "Qi", BUFFER, 64).rows if row.access]
    assert (first.executed, first.wavefronts, load.wavefronts) == (2, 2, 2)
    assert last.wavefronts is None
    assert "what a called function returns" in last.reason


def test_a_constant_without_a_value_is_the_hosts_and_one_with_a_value_keeps_it() -> None:
    rows = [row for row in counts("repeats", "Q", BUFFER).rows if row.access]
    stores = [row for row in rows if row.access == "STS"]
    assert sum(row.executed or 0 for row in stores) == 2 * 3
    loads = [row for row in rows if row.access == "LDS"]
    assert loads
    assert all(row.executed is None and "a constant that was not given" in row.reason for row in loads)


def test_constants_of_the_launch_are_known() -> None:
    cubin, _ = module()
    bank = bytearray(module_image.constants(cubin, "repeats")[3])
    ((at, end),) = module_image.unknown_constants(cubin, "repeats")[3]
    bank[at:end] = struct.pack("<i", 5)
    found = counts("repeats", "Q", BUFFER, constants={3: bytes(bank)})
    assert sum(row.executed or 0 for row in found.rows if row.access == "LDS") == 2 * 5
    assert not found.unknown


def test_a_call_of_an_unknown_function_leaves_nothing_known() -> None:
    found = counts("dispatches", "QQ", BUFFER, BUFFER)
    assert all(executed is None for _, executed, _ in shared(found))


def test_addresses_of_functions_are_unknown_and_those_of_the_driver_are_not() -> None:
    cubin, _ = module()
    assert {"vprintf", "malloc", "__assertfail"} <= set(module_image.externals(cubin).values())
    known = module_image.addresses(cubin)
    assert all(relocation.symbol in known or relocation.symbol.startswith("_Z") for relocation in
               cubin.relocations(".nv.constant4"))  # fmt: skip
