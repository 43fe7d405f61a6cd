"""Tiles made up of recorded requests, and the mapping that is tried on them."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate.observed import Advice, advise, observed_tiles
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.smem.judge import Constraints

LANES = np.arange(32)


def requests(op: str, addresses: np.ndarray, source: np.ndarray | None = None) -> AccessRequests:
    rows = np.atleast_2d(addresses)
    return AccessRequests(
        op=op, addresses=rows, active=np.ones(rows.shape, bool), times=np.ones(len(rows), np.int64), source=source
    )


def advised(*made: AccessRequests, constraints: Constraints = Constraints()) -> tuple[Advice, ...]:
    return advise(observed_tiles({16 * number: each for number, each in enumerate(made)}), constraints)


def test_writers_and_readers_of_a_tile_are_advised_together() -> None:
    columns = requests("ld.shared.b32", 1024 + LANES * 128 + 4 * LANES[:, None])
    rows = requests("st.shared.b32", 1024 + LANES * 4 + 128 * LANES[:, None])
    elsewhere = requests("ld.shared.b32", 8192 + LANES * 4)
    (advice,) = advised(columns, rows, elsewhere)
    assert (advice.first, advice.end, set(advice.offsets)) == (1024, 1024 + 4096, {0, 16})
    assert "Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) makes all" in advice.text
    assert "0x400 to 0x13ff" in advice.text


def test_matrices_written_by_cp_async_are_freed_together() -> None:
    row, chunk = LANES // 8, LANES % 8
    written = np.stack([128 * (4 * step + row) + 16 * chunk for step in range(16)])
    read = np.stack([128 * (8 * step + LANES % 8) + 16 * (LANES // 8) for step in range(8)])
    copies = requests("cp.async.cg.16", written, np.broadcast_to(LANES * 16, written.shape))
    (advice,) = advised(copies, requests("ldmatrix.x4", read))
    assert "Swizzle<3,0,3> on elements of 16 bytes (offset ^ ((offset >> 3) & 0x7)) makes all" in advice.text


def test_what_is_advised_for_a_tile() -> None:
    columns, rows = LANES[:, None], 128 * LANES[:, None]
    tma = Constraints(tma=True)
    for what, said, given, constraints in (
        ("a tile may begin anywhere in a bank row",
         "Swizzle<4,0,5> on elements of 8 bytes (offset ^ ((offset >> 5) & 0xf)) makes all",
         [("ld.shared.b64", 1088 + LANES * 256 + 8 * columns), ("st.shared.b64", 1088 + LANES * 8 + 2 * rows)], None),
        ("16-bit elements keep their words",
         "Swizzle<5,1,5> on elements of 2 bytes (offset ^ ((offset >> 5) & 0x3e))",
         [("ld.shared.u16", LANES * 128 + 2 * np.arange(64)[:, None]),
          ("st.shared.u16", np.arange(64)[:, None] * 128 + LANES * 2)], None),
        ("no mode of TMA's helps", "no mode of TMA's makes all of these accesses conflict-free",
         [("ld.shared.b32", LANES * 128 + 4 * columns)], tma),
        ("a mode of TMA's does", "Swizzle<3,0,3> on elements of 16 bytes",
         [("ld.shared.v4.b32", LANES * 128 + 16 * np.arange(8)[:, None])], tma),
        ("nothing helps", "no swizzle or padding makes all of these accesses conflict-free",
         [("atom.shared.add.u32", np.zeros(32, np.int64))], None),
    ):  # fmt: skip
        (advice,) = advised(*(requests(*one) for one in given), constraints=constraints or Constraints())
        assert said in advice.text, what
    assert advised(requests("ld.shared.b32", LANES * 4)) == (), "a tile without conflicts needs no advice"


def test_a_row_is_as_long_as_the_lanes_of_a_conflict_are_apart() -> None:
    for row_bytes, shift in ((128, 3), (256, 4), (512, 5)):
        columns = requests("ld.shared.v4.b32", LANES * row_bytes + 16 * np.arange(8)[:, None])
        (tile,) = observed_tiles({0: columns})
        assert tile.plain.shape == (32, row_bytes // 16)
        assert f"Swizzle<3,0,{shift}> on elements of 16 bytes" in advised(columns)[0].text


def test_what_is_verified_is_all_requests_not_the_sample() -> None:
    """Of 224 requests, 96 are searched on."""
    columns = np.concatenate([LANES * 128 + 4 * column + 4096 * block for block in range(7) for column in range(32)])
    made = requests("ld.shared.b32", columns.reshape(-1, 32))
    (tile,) = observed_tiles({0: made})
    suggestion = tile.suggestion()
    assert suggestion.best is not None
    assert suggestion.best.actual == suggestion.best.ideal == len(made.times)
    assert suggestion.plain.actual == 32 * len(made.times)


def test_rows_of_a_tile_whose_addresses_an_api_computes_are_padded() -> None:
    read = np.stack([2048 + 128 * (8 * step + LANES % 8) + 16 * (LANES // 8) for step in range(8)])
    (advice,) = advise(observed_tiles({0: requests("ldmatrix.x4", read)}, leading={0}))
    assert "padding the rows from 128 to 144 bytes makes all of these accesses conflict-free" in advice.text
    assert "Swizzle<" not in advice.text
    (unsure,) = advise(observed_tiles({0: requests("st.shared.b32", np.arange(32) * 128)}, leading={0}))
    assert "Swizzle<" not in unsure.text
    scattered = requests("ld.shared.b32", np.resize([0, 4, 128, 132], 32) + np.zeros((2, 1), np.int64))
    assert all("multiple of 16 bytes" in advice.text for advice in advise(observed_tiles({0: scattered}, leading={0})))


def test_the_stages_of_a_pipeline_are_advised_together() -> None:
    stages = [requests("ld.shared.b32", 4096 * stage + LANES * 128 + 4 * LANES[:, None]) for stage in range(4)]
    elsewhere = requests("ld.shared.b32", (1 << 16) + LANES * 128 + 4 * LANES[:, None])
    together, apart = advised(*stages, elsewhere)
    assert (together.first, together.end, together.offsets) == (0, 4 * 4096, (0, 16, 32, 48))
    assert "shared memory from 0x0 to 0x3fff, 4 tiles, ld.shared.b32: Swizzle<5,0,5>" in together.text
    assert apart.first == 1 << 16
