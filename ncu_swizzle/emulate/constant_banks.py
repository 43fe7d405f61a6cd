"""Constant banks at a launch: bank 0 as the driver fills it with sizes, addresses and parameters, and what is unknown.

Offsets are in bytes.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from ncu_swizzle.emulate.code import LOCAL_WINDOW, PARAMETER_WINDOW, STACK_TOP, Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.smem.access import ALLOCATED
from ncu_swizzle.smem.operations import Bools

STACK_AT = 0x28  # of sm_70 to sm_90, where the two words before it are what cvta.local adds
LOCAL_WINDOW_AT = 0x20
DYNAMIC_AT = 0x2C  # %dynamic_smem_size, to sm_90
PARAMETERS_SM90 = 0x210  # where parameters begin on sm_90
RESERVED_AT = 0x68  # %reserved_smem_offset_0 and _1: both 0 on an H100, with any static and dynamic shared memory


def bank_0(code: Code, launch: Launch) -> tuple[bytes, Bools]:
    """Return the bank, and which of its bytes are known."""
    size = max(code.parameter_offset + len(launch.parameters), PARAMETERS_SM90)
    content, known = bytearray(size), np.zeros(size, bool)

    def put(offset: int, layout: str, *values: float | bytes) -> None:
        struct.pack_into(layout, content, offset, *values)
        known[offset : offset + struct.calcsize(layout)] = True

    at = code.launch_constants
    put(at.block, "<3I", *launch.block)
    put(at.grid, "<3I", *launch.grid)
    put(at.stack, "<I", STACK_TOP)
    if at.stack == STACK_AT:
        put(LOCAL_WINDOW_AT, "<Q", LOCAL_WINDOW << 32)
    if code.parameter_offset <= PARAMETERS_SM90 and launch.shared_dynamic % ALLOCATED == 0:
        put(DYNAMIC_AT, "<I", launch.shared_dynamic)
    if code.parameter_offset == PARAMETERS_SM90:
        put(RESERVED_AT, "<Q", 0)
    if cluster := at.cluster:
        blocks = math.prod(launch.cluster)
        if blocks > 1:
            put(cluster.explicit, "<I", 1)
        put(cluster.parameters, "<Q", PARAMETER_WINDOW + code.parameter_offset)
        for back in {0, cluster.second}:
            put(cluster.extents - back, "<3I", *launch.cluster)
            put(cluster.clusters - back, "<3I", *(g // c for g, c in zip(launch.grid, launch.cluster, strict=True)))
            put(cluster.size - back, "<I", blocks)
            if cluster.second and launch.shared_dynamic % ALLOCATED == 0:
                put(cluster.dynamic - back, "<I", launch.shared_dynamic)
            for axis, extent in enumerate(launch.cluster):  # only exact inverses
                if extent & extent - 1 == 0:
                    put(cluster.inverses - back + 4 * axis, "<f", 1 / extent)
    put(code.parameter_offset, f"{len(launch.parameters)}s", launch.parameters)
    return bytes(content), known


def known_constants(code: Code, launch: Launch) -> dict[int, Bools]:
    """Return which bytes are known, for each of the module's banks with unknown bytes."""
    unknown = {**dict.fromkeys(launch.constants, ()), **launch.unknown_constants}
    masks = {}
    for bank, spans in {**code.unknown_constants, **unknown}.items():
        if spans:
            mask = masks[bank] = np.ones(len(launch.constants.get(bank, code.constants.get(bank, b""))), bool)
            for first, end in spans:
                mask[first:end] = False
    return masks
