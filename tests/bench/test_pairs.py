"""The pairs of bench/pairs: what is called fixed has less excess, in every kernel; counted without a GPU."""

import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ncu_swizzle
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT

PAIRS = ROOT / "bench" / "pairs"
TEMPLATE = re.compile(rb"_ZN5pairs\d+([a-z_]+?)ILb([01])E\w*")
RANDOM = np.random.default_rng()


def floats(*counts: int) -> list[Any]:
    return [RANDOM.random(count, dtype=np.float32) for count in counts]


def below(limit: int, count: int) -> Any:
    return RANDOM.integers(0, limit, count, dtype=np.int32)


def words(*values: int) -> list[bytes]:
    return [struct.pack("<i", value) for value in values]


def chain(states: int) -> Any:
    return RANDOM.permutation(states).astype(np.int32)


# Grid, block, and a small launch's parameters; the output comes first.
LAUNCHES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[[], Sequence[Any]]]] = {
    "transpose": ((2, 2), (32, 8), lambda: [np.zeros(1 << 17, np.float32)] * 2 + words(256)),
    "exchange": ((2,), (32,), lambda: floats(512, 512) + words(3)),
    "sum_rows_async": ((2,), (128,), lambda: floats(2048, 16384)),
    "several": ((2,), (128,), lambda: floats(2048, 2048)),
    "reduce": ((2,), (256,), lambda: floats(2, 512)),
    "scan": ((2,), (256,), lambda: floats(1024, 1024)),
    "cumsum": ((1,), (16, 32), lambda: floats(131072, 131072)),
    "fft": ((2,), (256,), lambda: floats(2048, 2048)),
    "particles": ((2,), (64,), lambda: floats(128, 1024) + words(3)),
    "chase": ((2,), (64,), lambda: [below(9, 128), chain(32), *words(9)]),
    "automaton": ((2,), (64,), lambda: [below(9, 128), chain(64), below(64, 1152), *words(9)]),
    "count_private": ((2,), (64,), lambda: [below(9, 128), below(64, 1152), *words(9)]),
    "count_copies": ((2,), (256,), lambda: [below(9, 128), below(64, 1536), below(9, 1536), *words(3)]),
    "add_columns": ((2,), (128,), lambda: [below(9, 2048), below(9, 1024), *words(4)]),
    "smooth": ((2,), (64,), lambda: floats(8192, 8192)),
    "softmax": ((2,), (64,), lambda: floats(8192, 8192)),
    "normalize": ((2,), (128,), lambda: floats(16384, 16384)),
    "dot_rows": ((2,), (32,), lambda: floats(512, 4096, 512)),
    "multiply_tiles": ((2, 2), (32, 32), lambda: floats(4096, 4096, 4096) + words(64, 64)),
    "multiply_registers": ((2, 2), (64,), lambda: floats(16384, 16384, 16384) + words(128, 64)),
    "multiply_async": ((2, 2), (256,), lambda: floats(16384, 16384, 16384) + words(128, 64)),
    "multiply_mma": ((2, 2), (128,), lambda: floats(16384, 16384, 16384) + words(128, 128)),
    "multiply_wmma": ((2, 2), (128,), lambda: floats(16384, 16384, 16384) + words(128, 128)),
}
UNCOUNTED = {"solve"}  # its division takes a path that depends on data


@pytest.mark.slow
@NEEDS_ALL
def test_what_is_called_fixed_has_less_excess(tmp_path: Path) -> None:
    cubin = tmp_path / "pairs.cubin"
    include = ROOT / "kernels" / "common"
    subprocess.run(
        [str(Toolchain().find(NVCC)), "-std=c++17", "-arch=sm_90", "-cubin", "-I", str(include), "-o", str(cubin),
         str(PAIRS / "pairs.cu")],
        check=True,
    )  # fmt: skip
    symbols = {match[0]: (match[1].decode(), match[2] == b"1") for match in TEMPLATE.finditer(cubin.read_bytes())}
    assert {name for name, _ in symbols.values()} == LAUNCHES.keys() | UNCOUNTED
    excess: dict[str, dict[bool, list[int | None]]] = {}
    for symbol, (name, fixed) in sorted(symbols.items()):
        if name not in UNCOUNTED:
            grid, block, parameters = LAUNCHES[name]
            launch = {"grid": (*grid, 1)[:2], "block": (*block, 1)[:2], "shared": 0, "parameters": parameters()}
            profile = ncu_swizzle.profile_binary(cubin, symbol.decode(), **launch)
            excess.setdefault(name, {}).setdefault(fixed, []).append(profile.total.excessive)
    for name, counts in excess.items():
        for before, after in zip(counts[False], counts[True], strict=True):
            assert before is not None, name
            assert after is not None, name
            assert after < before / 2, name
