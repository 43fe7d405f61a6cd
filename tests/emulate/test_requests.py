"""Requests of blocks: kept once, traced, and the tiles and mappings that are found in them."""

from collections import Counter

import numpy as np
import pytest

from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.observed import Advice, advise, observed_tiles
from ncu_swizzle.emulate.requests import AccessRequests, Clock, SharedRequests, count_accesses
from ncu_swizzle.emulate.tracing import Trace, Version
from ncu_swizzle.smem.judge import Constraints
from tests.support.emulation import machine
from tests.support.programs import ONE_WARP, code

LANE = np.arange(32)


def test_blocks_that_repeat_requests_count_like_blocks_that_make_their_own() -> None:
    free, conflicted = 4 * LANE, 8 * LANE
    mine = np.stack([free, conflicted]).astype(np.uint32)
    blocks = np.array([0, 0, 1, 1, 2, 2])
    once = SharedRequests(addresses=mine, selected=np.ones((2, 32), bool), source=None, blocks=blocks, count=3)
    each = SharedRequests(
        addresses=np.tile(mine, (3, 1)), selected=np.ones((6, 32), bool), source=None, blocks=blocks, count=3
    )
    short, long = (count_accesses("ld.shared.b32", [seen], 3) for seen in (once, each))
    assert short.wavefronts.tolist() == long.wavefronts.tolist() == [9, 9, 9]
    assert short.ideal.tolist() == long.ideal.tolist() == [6, 6, 6]
    assert sorted(short.requests.times.tolist()) == sorted(long.requests.times.tolist()) == [9, 9]


def test_requests_that_a_loop_took_back_count_nothing() -> None:
    log = RequestLog(machine(), ())
    addresses, selected = np.zeros((1, 32), np.uint32), np.ones((1, 32), bool)
    none = SharedRequests(addresses=addresses, selected=selected, source=None, blocks=np.array([0]), count=0)
    log.seen[0] = {(0,): none}
    assert log.counts() == {}


def some_requests(rng: np.random.Generator, count: int) -> AccessRequests:
    """Return different requests out of few, each with the number of times it is made."""
    addresses = 4 * rng.integers(0, 3, (count, 32)) * (LANE < 2)
    active = np.ones((count, 32), bool)
    active[:, 31] = rng.random(count) < 0.5
    return AccessRequests(
        op="ld.shared.b32", addresses=addresses, active=active, times=np.ones(count, np.int64)
    ).distinct()[0]


def tally(made: AccessRequests) -> Counter[bytes]:
    rows = zip(made.addresses, made.active, made.times.tolist(), strict=True)
    found = [(addresses.tobytes() + active.tobytes(), times) for addresses, active, times in rows]
    assert len(found) == len(dict(found))  # each once
    return Counter(dict(found))


@pytest.mark.parametrize("alike", [False, True])  # hashes
def test_requests_of_two_runs_are_added_each_once(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alike:
        monkeypatch.setattr(requests, "_FACTORS", np.zeros_like(requests._FACTORS))
    rng = np.random.default_rng(3)
    one, other = some_requests(rng, 20), some_requests(rng, 20)
    if not alike:
        assert tally(one.plus(other)) == tally(one) + tally(other)
    assert sum(tally(one).values()) == sum(tally(other).values()) == 20
    again = one.plus(other).ordered()
    assert again.times.sum() == 40


def test_of_too_many_requests_those_that_are_kept_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DISTINCT_REQUESTS", 4)
    rng = np.random.default_rng(4)
    made = some_requests(rng, 200)
    kept = made.most_frequent()
    more = kept.plus(made.chosen(np.argsort(made.times, kind="stable")[:2])).plus(kept)  # rare ones are left out
    assert len(kept.times) == len(more.times) == 4
    assert not more.complete
    assert tally(more) == tally(kept) + tally(kept)


def traced(*lines: str) -> Trace:
    """Run a block of 32 threads."""
    return Version(code(*lines, "EXIT"), ONE_WARP, Clock()).run(np.zeros((1, 3), np.int64))[1]


ADDRESSES = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R1, R0, 0x4, RZ")


def test_lanes_are_recorded_in_order_with_the_barriers_they_passed() -> None:
    trace = traced(*ADDRESSES, "STS [R1], R0", "BAR.SYNC 0x0", "LDS R2, [R1+0x80]")
    made = trace.accesses
    assert not trace.unknown
    assert made.pc.tolist() == [2] * 32 + [4] * 32
    assert made.epoch.tolist() == [0] * 32 + [1] * 32
    assert made.thread.tolist() == [*range(32)] * 2
    assert made.address.tolist() == [4 * lane for lane in range(32)] + [0x80 + 4 * lane for lane in range(32)]


def test_lanes_that_are_predicated_off_access_nothing() -> None:
    trace = traced(*ADDRESSES, "ISETP.GT.AND P1, PT, R0, 0x7, PT", "@P1 STS [R1], R0")
    assert trace.accesses.thread.tolist() == [*range(8, 32)]


@pytest.mark.parametrize(
    "access",
    [
        *("@P0 STS [R1], R0", "@P0 LDGSTS.E.BYPASS.128 [R1], [R2.64]"),  # an unknown predicate
        *("LDS R5, [R4]", "STS [R4], R0", "LDSM.16.M88.4 R8, [R4]", "LDGSTS.E.BYPASS.128 [R4], [R2.64]"),  # or address
        "UBLKCP.S.G [UR4], [UR6], UR8",  # without addresses of lanes
    ],
)
def test_what_is_not_known_is_told(access: str) -> None:
    trace = traced(*ADDRESSES, "LDG.E R4, [R2.64]", "ISETP.GT.AND P0, PT, R4, 0x7, PT", access)
    assert list(trace.unknown) == [4]
    assert not len(trace.accesses.pc)
    assert ("is not followed" in trace.unknown[4]) == access.startswith("UBLKCP")


def requested(op: str, addresses: np.ndarray, source: np.ndarray | None = None) -> AccessRequests:
    rows = np.atleast_2d(addresses)
    return AccessRequests(
        op=op, addresses=rows, active=np.ones(rows.shape, bool), times=np.ones(len(rows), np.int64), source=source
    )


def advised(*made: AccessRequests, constraints: Constraints = Constraints()) -> tuple[Advice, ...]:
    return advise(observed_tiles({16 * number: each for number, each in enumerate(made)}), constraints)


def test_writers_and_readers_of_a_tile_are_advised_together() -> None:
    columns = requested("ld.shared.b32", 1024 + LANE * 128 + 4 * LANE[:, None])
    rows = requested("st.shared.b32", 1024 + LANE * 4 + 128 * LANE[:, None])
    elsewhere = requested("ld.shared.b32", 8192 + LANE * 4)
    (advice,) = advised(columns, rows, elsewhere)
    assert (advice.first, advice.end, set(advice.offsets)) == (1024, 1024 + 4096, {0, 16})
    assert "Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) makes all" in advice.text
    assert "0x400 to 0x13ff" in advice.text


def test_matrices_written_by_cp_async_are_freed_together() -> None:
    row, chunk = LANE // 8, LANE % 8
    written = np.stack([128 * (4 * step + row) + 16 * chunk for step in range(16)])
    read = np.stack([128 * (8 * step + LANE % 8) + 16 * (LANE // 8) for step in range(8)])
    copies = requested("cp.async.cg.16", written, np.broadcast_to(LANE * 16, written.shape))
    (advice,) = advised(copies, requested("ldmatrix.x4", read))
    assert "Swizzle<3,0,3> on elements of 16 bytes (offset ^ ((offset >> 3) & 0x7)) makes all" in advice.text


def test_what_is_advised_for_a_tile() -> None:
    columns, rows = LANE[:, None], 128 * LANE[:, None]
    tma = Constraints(tma=True)
    for what, said, given, constraints in (
        ("a tile may begin anywhere in a bank row",
         "Swizzle<4,0,5> on elements of 8 bytes (offset ^ ((offset >> 5) & 0xf)) makes all",
         [("ld.shared.b64", 1088 + LANE * 256 + 8 * columns), ("st.shared.b64", 1088 + LANE * 8 + 2 * rows)], None),
        ("16-bit elements keep their words",
         "Swizzle<5,1,5> on elements of 2 bytes (offset ^ ((offset >> 5) & 0x3e))",
         [("ld.shared.u16", LANE * 128 + 2 * np.arange(64)[:, None]),
          ("st.shared.u16", np.arange(64)[:, None] * 128 + LANE * 2)], None),
        ("no mode of TMA's helps", "no mode of TMA's makes all of these accesses conflict-free",
         [("ld.shared.b32", LANE * 128 + 4 * columns)], tma),
        ("a mode of TMA's does", "Swizzle<3,0,3> on elements of 16 bytes",
         [("ld.shared.v4.b32", LANE * 128 + 16 * np.arange(8)[:, None])], tma),
        ("nothing helps", "no swizzle or padding makes all of these accesses conflict-free",
         [("atom.shared.add.u32", np.zeros(32, np.int64))], None),
    ):  # fmt: skip
        (advice,) = advised(*(requested(*one) for one in given), constraints=constraints or Constraints())
        assert said in advice.text, what
    assert advised(requested("ld.shared.b32", LANE * 4)) == (), "a tile without conflicts needs no advice"


def test_a_row_is_as_long_as_the_lanes_of_a_conflict_are_apart() -> None:
    for row_bytes, shift in ((128, 3), (256, 4), (512, 5)):
        columns = requested("ld.shared.v4.b32", LANE * row_bytes + 16 * np.arange(8)[:, None])
        (tile,) = observed_tiles({0: columns})
        assert tile.plain.shape == (32, row_bytes // 16)
        assert f"Swizzle<3,0,{shift}> on elements of 16 bytes" in advised(columns)[0].text


def test_what_is_verified_is_all_requests_not_the_sample() -> None:
    """Of 224 requests, 96 are searched on."""
    columns = np.concatenate([LANE * 128 + 4 * column + 4096 * block for block in range(7) for column in range(32)])
    made = requested("ld.shared.b32", columns.reshape(-1, 32))
    (tile,) = observed_tiles({0: made})
    suggestion = tile.suggestion()
    assert suggestion.best.actual == suggestion.best.ideal == len(made.times)
    assert suggestion.plain.actual == 32 * len(made.times)


def test_rows_of_a_tile_whose_addresses_an_api_computes_are_padded() -> None:
    read = np.stack([2048 + 128 * (8 * step + LANE % 8) + 16 * (LANE // 8) for step in range(8)])
    (advice,) = advise(observed_tiles({0: requested("ldmatrix.x4", read)}, leading={0}))
    assert "padding the rows from 128 to 144 bytes makes all of these accesses conflict-free" in advice.text
    assert "Swizzle<" not in advice.text
    (unsure,) = advise(observed_tiles({0: requested("st.shared.b32", np.arange(32) * 128)}, leading={0}))
    assert "Swizzle<" not in unsure.text
    scattered = requested("ld.shared.b32", np.resize([0, 4, 128, 132], 32) + np.zeros((2, 1), np.int64))
    assert all("multiple of 16 bytes" in advice.text for advice in advise(observed_tiles({0: scattered}, leading={0})))


def test_the_stages_of_a_pipeline_are_advised_together() -> None:
    stages = [requested("ld.shared.b32", 4096 * stage + LANE * 128 + 4 * LANE[:, None]) for stage in range(4)]
    elsewhere = requested("ld.shared.b32", (1 << 16) + LANE * 128 + 4 * LANE[:, None])
    together, apart = advised(*stages, elsewhere)
    assert (together.first, together.end, together.offsets) == (0, 4 * 4096, (0, 16, 32, 48))
    assert "shared memory from 0x0 to 0x3fff, 4 tiles, ld.shared.b32: Swizzle<5,0,5>" in together.text
    assert apart.first == 1 << 16
