"""Launches for the emulator: parameters, addresses, constants, and what CUDA would refuse."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.engines import emulated_launch, module_image
from ncu_swizzle.engines.emulated_launch import ALIGNMENT, APART, GLOBALS
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from tests.support.recordings import embedded


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


def test_random_inputs_are_unknown_and_a_table_of_the_module_is_known() -> None:
    _, launch = prepared("transpose-sudoku")
    assert set(launch.memory) == {GLOBALS}
    assert len(launch.memory[GLOBALS]) == 1024


def test_the_constants_hold_the_tables_address() -> None:
    cubin = embedded("transpose-sudoku")
    constants = module_image.constants(cubin, "transpose_sudoku")
    assert struct.unpack("<Q", constants[4]) == (GLOBALS,)


def test_what_the_family_says_a_buffer_holds_is_known() -> None:
    family, kernel = catalog.shipped().named("transpose-plain")
    source, *others = family.arguments
    filled = replace(family, arguments=(replace(source, fill="iota%7"), *others))
    cubin = embedded("transpose-plain")
    launch = emulated_launch.launch_of(Target(filled, kernel, family.problem({"n": 64})), cubin, "transpose_plain")
    (content,) = (content for address, content in launch.memory.items() if address != GLOBALS)
    assert np.array_equal(np.frombuffer(content, np.float32), np.arange(64 * 64) % 7)


def test_arguments_that_do_not_fit_are_refused() -> None:
    cubin = embedded("transpose-plain")
    values = emulated_launch.values_of([np.zeros(4, np.float32), np.zeros(4, np.float32)], ())
    with pytest.raises(UsageError, match=r"takes parameters of \[8, 8, 4\] bytes but was given \[8, 8\]"):
        emulated_launch.launch(cubin, "transpose_plain", LaunchShape(grid=(1,), block=(256,)), values)
    values = emulated_launch.values_of([np.zeros(4, np.float32), np.zeros(4, np.float32), struct.pack("<q", 4)], ())
    with pytest.raises(UsageError, match=r"given \[8, 8, 8\]"):
        emulated_launch.launch(cubin, "transpose_plain", LaunchShape(grid=(1,), block=(256,)), values)


def test_what_cuda_would_refuse_is_refused() -> None:
    cubin = embedded("transpose-plain")
    values = emulated_launch.values_of([np.zeros(4, np.float32), np.zeros(4, np.float32), struct.pack("<i", 4)], ())
    refusals = {
        ((1,), (512, 1, 1), 0): "512 threads",  # __launch_bounds__(256)
        ((1,), (0, 1, 1), 0): "block 0x1x1 is",
        ((1,), (1, 1, 65), 0): "block 1x1x65 is",
        ((1, 65536), (256,), 0): "grid 1x65536 is",
        ((), (256,), 0): "grid without sizes is",
        ((1,), (256,), 230 * 1024): "bytes of dynamic shared memory",
    }
    for (grid, block, shared), said in refusals.items():
        with pytest.raises(UsageError, match=said):
            emulated_launch.launch(cubin, "transpose_plain", LaunchShape(grid=grid, block=block, shared=shared), values)
