"""Threads, sectors and tags, held against what ncu counted of whole kernels, and against runs of every block."""

import struct
from dataclasses import asdict

import pytest

from ncu_swizzle.base.traffic import METRICS
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container
from tests.support.emulation import OUT, pointers
from tests.support.places import DATA

REPORT = DATA / "programs" / "source-counters.ncu-rep"
# The launches of several.cu: turn (float and double), rowsum, scale.
LAUNCHES = {0: pointers(512), 3: pointers(256), 4: pointers(512), 5: struct.pack("<Qfi", OUT, 0.5, 512)}


@pytest.mark.parametrize("number", LAUNCHES)
def test_every_column_of_every_instruction_is_ncu_s(number: int) -> None:
    result = container.container_of(REPORT.read_bytes(), REPORT.name).results[number]
    cubin = Cubin(result.cubin, "several.cubin")
    code = emulated_launch.code(cubin, result.function, Toolchain().disassemble(cubin.data, cubin.name))
    x, y, z = result.launch.grid
    i, j, k = result.launch.block
    counts = emulate(code, Launch(grid=(x, y, z), block=(i, j, k), parameters=LAUNCHES[number]))
    start = min(result.counts["inst_executed"])
    compared = 0
    for row in counts.rows:
        ours = asdict(row.traffic)
        for field, metric in METRICS.items():
            theirs = result.counts[metric].get(start + row.offset)
            assert theirs is None or ours[field] == theirs, (hex(row.offset), row.sass, metric)
            compared += theirs is not None
    assert compared > 2 * sum(row.executed != 0 for row in counts.rows)
    assert counts.blocks_run < counts.blocks
