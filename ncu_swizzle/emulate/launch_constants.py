"""Constant banks at a launch: bank 0 as the driver fills it with sizes, addresses and parameters, and what is unknown.

Offsets are in bytes.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, PARAMETER_WINDOW, STACK_TOP
from ncu_swizzle.smem.banks import Bools

STACK_AT = 0x28  # of sm_70 to sm_90, where the two words before it are what cvta.local adds
LOCAL_WINDOW_AT = 0x20
DYNAMIC_AT = 0x2C  # %dynamic_smem_size, to sm_90
ALLOCATED = 256  # bytes: shared memory is allocated in multiples of it, or of a part; other sizes may be rounded up
PARAMETERS_SM90 = 0x210  # where parameters begin on sm_90; the offsets below are sm_90's
EXPLICIT_CLUSTER_AT, CLUSTER_AT, INVERSE_CLUSTER_AT, CLUSTERS_AT = 0x140, 0x144, 0x150, 0x15C
CLUSTER_SIZE_AT, PARAMETER_POINTER_AT = 0x188, 0x198
RESERVED_AT = 0x68  # %reserved_smem_offset_0 and _1: both 0 on an H100, with any static and dynamic shared memory


class _Bank:
    """The bank's bytes, and which of them are known."""

    def __init__(self, size: int) -> None:
        self.content, self.known = bytearray(size), np.zeros(size, bool)

    def put(self, offset: int, data: bytes) -> None:
        self.content[offset : offset + len(data)] = data
        self.known[offset : offset + len(data)] = True


def bank_0(code: Code, launch: Launch) -> tuple[bytes, Bools]:
    """Return the bank, and which of its bytes are known."""
    bank = _Bank(max(code.parameter_offset + len(launch.parameters), PARAMETERS_SM90))
    places = code.launch_constants
    bank.put(places.block, struct.pack("<3I", *launch.block))
    bank.put(places.grid, struct.pack("<3I", *launch.grid))
    bank.put(places.stack, struct.pack("<I", STACK_TOP))
    if places.stack == STACK_AT:
        bank.put(LOCAL_WINDOW_AT, struct.pack("<Q", LOCAL_WINDOW << 32))
    if code.parameter_offset <= PARAMETERS_SM90 and launch.shared_dynamic % ALLOCATED == 0:
        bank.put(DYNAMIC_AT, struct.pack("<I", launch.shared_dynamic))
    if code.parameter_offset == PARAMETERS_SM90:
        _put_cluster(bank, launch)
        bank.put(RESERVED_AT, bytes(8))
        bank.put(PARAMETER_POINTER_AT, struct.pack("<Q", PARAMETER_WINDOW + code.parameter_offset))
    bank.put(code.parameter_offset, launch.parameters)
    return bytes(bank.content), bank.known


def known_constants(code: Code, launch: Launch) -> dict[int, Bools]:
    """Return which bytes are known of the module's banks that hold something unknown."""
    unknown = {**dict.fromkeys(launch.constants, ()), **launch.unknown_constants}
    masks = {}
    for bank, spans in {**code.unknown_constants, **unknown}.items():
        if spans:
            mask = masks[bank] = np.ones(len(launch.constants.get(bank, code.constants.get(bank, b""))), bool)
            for first, end in spans:
                mask[first:end] = False
    return masks


def _put_cluster(bank: _Bank, launch: Launch) -> None:
    """Put what %cluster_nctaid, %nclusterid and their like read; of inverses only those that are exact."""
    size = math.prod(launch.cluster)
    if size > 1:
        bank.put(EXPLICIT_CLUSTER_AT, struct.pack("<I", 1))
    bank.put(CLUSTER_AT, struct.pack("<3I", *launch.cluster))
    bank.put(CLUSTERS_AT, struct.pack("<3I", *(g // c for g, c in zip(launch.grid, launch.cluster, strict=True))))
    bank.put(CLUSTER_SIZE_AT, struct.pack("<I", size))
    for axis, extent in enumerate(launch.cluster):
        if extent & extent - 1 == 0:
            bank.put(INVERSE_CLUSTER_AT + 4 * axis, struct.pack("<f", 1 / extent))
