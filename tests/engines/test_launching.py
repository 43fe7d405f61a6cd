"""Launches for the emulator: parameters, addresses, constants, a module's imports; accesses outside of buffers."""

import struct
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.base.errors import TimeLimit, UsageError
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch, emulation
from ncu_swizzle.engines.emulated_launch import ALIGNMENT, APART, GLOBALS
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import model
from tests.support.binaries import launched, value_of
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA
from tests.support.recordings import embedded
from tests.support.stress import NEEDS_RECORDING, Recordings, launch_of


def prepared(name: str) -> tuple[Cubin, Launch]:
    family, kernel = catalog.shipped().named(name)
    cubin = embedded(name)
    return cubin, emulated_launch.launch_of(Target(family, kernel, family.problem()), cubin, names.only_kernel(cubin))


def test_a_catalogue_kernel_is_launched_as_it_was_recorded() -> None:
    cubin, launch = prepared("kernel2")
    assert (launch.grid, launch.block, launch.shared_dynamic, launch.cluster) == (
        (64, 16, 4), (128, 1, 1), 0, (1, 1, 1),
    )  # fmt: skip
    *buffers, seq = struct.unpack("<QQQQi", launch.parameters)
    assert seq == 4096
    bytes_each = 4 * 16 * 4096 * 128 * 2
    assert all(address % ALIGNMENT == 0 for address in buffers)
    assert all(later - earlier >= bytes_each + APART for earlier, later in pairwise(buffers))
    assert len(launch.parameters) == cubin.attributes("kernel2").parameter_bytes


def test_a_tensor_map_takes_its_place_among_the_parameters() -> None:
    cubin, launch = prepared("tma-128")
    places = cubin.attributes("tma_128").parameters
    assert [place.size for place in places] == [128, 8, 4]
    assert launch.parameters[places[2].offset :] == struct.pack("<i", 8192)


def test_random_inputs_are_unknown_and_a_table_of_the_module_is_known_and_where_it_is() -> None:
    cubin, launch = prepared("transpose-sudoku")
    assert {address: len(content) for address, content in launch.memory.items()} == {GLOBALS: 1024}
    assert struct.unpack("<Q", emulated_launch.constants(cubin, "transpose_sudoku")[4]) == (GLOBALS,)


def test_what_the_family_says_a_buffer_holds_is_known() -> None:
    family, kernel = catalog.shipped().named("transpose-plain")
    source, *others = family.arguments
    filled = replace(family, arguments=(replace(source, fill="iota%7"), *others))
    cubin = embedded("transpose-plain")
    launch = emulated_launch.launch_of(Target(filled, kernel, family.problem({"n": 64})), cubin, "transpose_plain")
    (content,) = (content for address, content in launch.memory.items() if address != GLOBALS)
    assert np.array_equal(np.frombuffer(content, np.float32), np.arange(64 * 64) % 7)


def test_what_cuda_would_refuse_is_refused() -> None:
    cubin, matrix, n = embedded("transpose-plain"), np.zeros(4, np.float32), struct.pack("<i", 4)
    refusals: list[tuple[list[Any], tuple[Any, ...], str]] = [
        ([matrix, matrix], ((1,), (256,)), r"takes parameters of \[8, 8, 4\] bytes but was given \[8, 8\]"),
        ([matrix, matrix, struct.pack("<q", 4)], ((1,), (256,)), r"given \[8, 8, 8\]"),
        ([matrix, matrix, n], ((1,), (512, 1, 1)), "512 threads"),  # __launch_bounds__(256)
        ([matrix, matrix, n], ((1,), (0, 1, 1)), "block 0x1x1 is"),
        ([matrix, matrix, n], ((1,), (1, 1, 65)), "block 1x1x65 is"),
        ([matrix, matrix, n], ((1, 65536), (256,)), "grid 1x65536 is"),
        ([matrix, matrix, n], ((), (256,)), "grid without sizes is"),
        ([matrix, matrix, n], ((1,), (256,), 230 * 1024), "bytes of dynamic shared memory"),
    ]
    for values, (grid, block, *shared), said in refusals:
        shape = LaunchShape(grid=grid, block=block, shared=sum(shared))
        with pytest.raises(UsageError, match=said):
            emulated_launch.launch(cubin, "transpose_plain", shape, list(map(value_of, values)))


BUFFER = 0x7F00_0000_0000


@cache
def module() -> tuple[Cubin, str]:
    folder = DATA / "modules"
    return Cubin((folder / "outside.cubin").read_bytes(), "outside"), (folder / "outside.sass").read_text("utf-8")


def counts(kernel: str, layout: str, *values: int, **more: Any) -> Counts:
    cubin, text = module()
    parameters = struct.pack("<" + layout, *values)
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1), shared_dynamic=0, parameters=parameters, **more)
    return emulate(emulated_launch.code(cubin, kernel, text), launch)


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


def test_a_constant_without_a_value_is_the_hosts_and_those_of_the_module_and_the_launch_are_known() -> None:
    rows = counts("repeats", "Q", BUFFER).rows
    assert sum(row.executed or 0 for row in rows if row.access == "STS") == 2 * 3
    (reason,) = {row.reason for row in rows if row.access == "LDS" and row.executed is None}
    assert "a constant that was not given" in reason
    cubin, _ = module()
    bank = bytearray(emulated_launch.constants(cubin, "repeats")[3])
    ((at, end),) = emulated_launch.unknown_constants(cubin, "repeats")[3]
    bank[at:end] = struct.pack("<i", 5)
    found = counts("repeats", "Q", BUFFER, constants={3: bytes(bank)})
    assert sum(row.executed or 0 for row in found.rows if row.access == "LDS") == 2 * 5
    assert not found.unknown


def test_addresses_of_functions_are_unknown_and_what_they_do_and_those_of_the_driver_are_not() -> None:
    assert {executed for _, executed, _ in shared(counts("dispatches", "QQ", BUFFER, BUFFER))} == {None}
    cubin, _ = module()
    assert {"vprintf", "malloc", "__assertfail"} <= set(emulated_launch.externals(cubin).values())
    known = emulated_launch.symbol_addresses(cubin)
    assert all(relocation.symbol in known or relocation.symbol.startswith("_Z") for relocation in
               cubin.relocations(".nv.constant4"))  # fmt: skip


def emulated(recordings: Recordings, name: str, less: int) -> list[str]:
    """Return what a recorded kernel accesses outside of its buffers, each by so many bytes smaller than it is."""
    code, launch = launch_of(name, recordings)
    smaller = tuple(replace(buffer, size=max(0, buffer.size - less)) for buffer in launch.buffers)
    found = emulate(code, replace(launch, buffers=smaller)).global_accesses
    assert found.blocks
    assert not found.lacking
    return [outside.does for outside in found.outside]


@pytest.mark.long
@NEEDS_RECORDING
def test_a_buffer_that_is_too_small_is_noticed(recordings: Recordings) -> None:
    names = ("bitonic", "halo", "reduction", "scan", "sgemm-edges", "triangular", "templates-plain")
    assert {name for name in names if not emulated(recordings, name, less=1)} == set()


@pytest.mark.long
@NEEDS_ALL
def test_a_null_pointer_and_one_that_only_the_caller_knows(shift: Path) -> None:
    unit = f'#include "{shift / "shift.cu"}"\n'
    (shift / "s.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
    x, at, numbers = np.ones(200, np.float32), np.zeros(200, np.int32), [struct.pack("<i", n) for n in (200, 0)]

    def messages(y: bytes | np.ndarray) -> list[str]:
        arguments = [x, y, at, *numbers]
        profile = launched(shift / "s.cubin", "shift", LaunchShape(grid=(4,), block=(64,)), arguments).profile
        return [found.message for found in model.violations(profile)]

    assert messages(np.ones(200, np.float32)) == []
    assert "write of 4 bytes through a null pointer (address 0x0)" in messages(struct.pack("<Q", 0))[0]
    assert messages(struct.pack("<Q", 0x1234_5678_0000)) == [], "what lies there is not known"
    assert "of parameter 1 (400 bytes)" in messages(np.ones(100, np.float32))[0]


def test_no_shared_memory_is_called_too_small_because_the_time_was_over() -> None:
    lines = ("S2R R0, SR_TID.X", "LEA R1, R0, 0x1400, 0x2", "STS [R1], R0", "EXIT")
    code = Code(name="k", instructions=tuple(Sass(16 * at, line) for at, line in enumerate(lines)), shared_bytes=0x400)
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1))
    assert emulation._needed(code, launch, 1 << 16, 60.0) == 0x1080
    assert emulation._needed(code, launch, 1 << 10, 60.0) is None
    with pytest.raises(TimeLimit):
        emulation._needed(code, launch, 1 << 16, 0.0)
