"""An access that is not known is never left out of a trace in silence."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.tracing import Trace, Version
from tests.support.programs import ONE_WARP, code


def traced(*lines: str) -> Trace:
    """Run a block of 32 threads."""
    return Version(code(*lines, "EXIT"), ONE_WARP, Clock()).run(np.zeros((1, 3), np.int64))[1]


LANES = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R1, R0, 0x4, RZ")


def test_lanes_are_recorded_in_order_with_the_barriers_they_passed() -> None:
    trace = traced(*LANES, "STS [R1], R0", "BAR.SYNC 0x0", "LDS R2, [R1+0x80]")
    made = trace.accesses
    assert not trace.unknown
    assert made.pc.tolist() == [2] * 32 + [4] * 32
    assert made.epoch.tolist() == [0] * 32 + [1] * 32
    assert made.thread.tolist() == [*range(32)] * 2
    assert made.address.tolist() == [4 * lane for lane in range(32)] + [0x80 + 4 * lane for lane in range(32)]


def test_lanes_that_are_predicated_off_access_nothing() -> None:
    trace = traced(*LANES, "ISETP.GT.AND P1, PT, R0, 0x7, PT", "@P1 STS [R1], R0")
    assert trace.accesses.thread.tolist() == [*range(8, 32)]


def test_an_unknown_predicate_is_told() -> None:
    load = "LDG.E R4, [R2.64]"
    test = "ISETP.GT.AND P0, PT, R4, 0x7, PT"
    for access in ("@P0 STS [R1], R0", "@P0 LDGSTS.E.BYPASS.128 [R1], [R2.64]"):
        assert list(traced(*LANES, load, test, access).unknown) == [4]


def test_an_unknown_address_is_told() -> None:
    for access in ("LDS R5, [R4]", "STS [R4], R0", "LDSM.16.M88.4 R8, [R4]", "LDGSTS.E.BYPASS.128 [R4], [R2.64]"):
        trace = traced(*LANES, "LDG.E R4, [R2.64]", access)
        assert list(trace.unknown) == [3]
        assert not len(trace.accesses.pc)


def test_instructions_without_addresses_of_lanes_are_told() -> None:
    assert "is not followed" in traced("UBLKCP.S.G [UR4], [UR6], UR8").unknown[0]
