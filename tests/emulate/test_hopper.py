"""wgmma, tensor copies, mbarriers and clusters: counts by hand, and what an H100 was measured to do."""

import gzip
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.tensor_map import Tiled, copied_bytes, decoded
from tests.support.emulation import IN, OUT, kernel
from tests.support.places import DATA as ALL_DATA
from tests.support.places import measured

MAP_AT = 0x70  # in the parameters
BOX = 64 * 64 * 2
TILES = 10
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)  # by CUtensorMapDataType


def encoded_maps() -> Iterator[dict[str, Any]]:
    with gzip.open(ALL_DATA / "tensor_maps_h100.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from (entry for entry in map(json.loads, lines) if entry["status"] == 0)


def tensor_map(box_bytes: int = BOX) -> bytes:
    """Return a map of 64 x 64 elements of 16 bits: a measured one with another box."""
    entry = next(m for m in encoded_maps() if (m["box"], m["dtype"], m["swizzle"]) == ([64, 32], 6, 0))
    content = bytearray.fromhex(entry["map"])
    content[56] = 63
    struct.pack_into("<I", content, 64, box_bytes)
    return bytes(content)


def with_map(content: bytes, *values: int, form: str) -> bytes:
    return bytes(MAP_AT) + content + struct.pack(form, *values)


def counted(counts: Counts, opcode: str) -> list[tuple[int | None, int | None, int | None]]:
    return [(r.executed, r.wavefronts, r.ideal) for r in counts.rows if r.opcode.split(".")[0] == opcode and r.access]


# ---------------------------------------------------------------------------------------------- own kernels


def specialised(content: bytes, *, grid: tuple[int, int, int], row_words: int) -> Counts:
    parameters = with_map(content, OUT, TILES, row_words, form="<Qii")
    launch = Launch(grid=grid, block=(384, 1, 1), shared_dynamic=9 * BOX, parameters=parameters)
    return emulate(kernel("hopper", "specialised"), launch)


@pytest.mark.long
@pytest.mark.parametrize("content", [tensor_map(), tensor_map(BOX - 1)], ids=["known map", "unknown map"])
def test_producers_and_consumers_of_a_pipeline_wait_for_each_other(content: bytes) -> None:
    counts = specialised(content, grid=(3, 2, 1), row_words=64)
    assert not counts.unknown
    warps = 6 * 8  # of the consumers
    assert counted(counts, "HGMMA") == [(warps * TILES, 8 * warps * TILES, 8 * warps * TILES)] * 4
    assert counted(counts, "STS") == [(warps, 8 * warps, warps)] * 8  # rows of 64 words: 8 of them in each request
    assert counted(counts, "LDS") == [(warps, warps, warps)]


@pytest.mark.long
def test_how_often_a_wait_goes_round_is_unknown() -> None:
    counts = specialised(tensor_map(), grid=(1, 1, 1), row_words=68)
    unknown = {row.opcode.split(".")[0]: row.reason for row in counts.rows if row.executed is None}
    assert "USETMAXREG" in unknown
    assert "when registers are free" in unknown["USETMAXREG"]
    assert "how long a barrier in shared memory takes" in unknown["SYNCS"]
    assert counted(counts, "STS") == [(8, 8, 8)] * 8


def test_threads_that_a_waiting_one_leaves_behind_go_on_without_it() -> None:
    """On an H100, BSYNC lets the other threads of the warp pass as soon as one yields while it waits."""
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1), parameters=struct.pack("<Qi", OUT, 6))
    rows = {row.offset: row for row in emulate(kernel("hopper", "mailbox"), launch).rows}
    assert rows[0x550].executed is None
    assert rows[0x550].wavefronts is None
    assert "how long a barrier in shared memory takes" in rows[0x550].reason
    assert rows[0x4E0].executed == 3, "one warp, and the two parts of the other"
    assert rows[0x320].executed == 6, "what only the thread that waits executes is known"


@pytest.mark.long
def test_blocks_of_a_cluster_copy_for_each_other() -> None:
    parameters = with_map(tensor_map(), OUT, TILES, form="<Qi")
    launch = Launch(grid=(6, 1, 1), block=(256, 1, 1), shared_dynamic=9 * BOX, parameters=parameters, cluster=(2, 1, 1))
    for exhaustive in (False, True):
        counts = emulate(kernel("hopper", "multicast"), launch, exhaustive=exhaustive)
        assert not counts.unknown
        assert counted(counts, "HGMMA") == [(6 * 4 * TILES, 6 * 32 * TILES, 6 * 32 * TILES)] * 4


def test_what_an_mbarrier_orders_is_read_in_order() -> None:
    """A consumer that overtakes its producer, or falls behind it, would use another stride."""
    launch = Launch(grid=(2, 1, 1), block=(64, 1, 1), parameters=struct.pack("<Qi", OUT, 6))
    counts = emulate(kernel("hopper", "mailbox"), launch)
    last = [row for row in counts.rows if row.sass.startswith("LDS R5")]
    assert counts.unknown == tuple(last), "all but what comes after the threads should have reconverged"
    strided = 2 * sum(2**i for i in range(6))
    assert counted(counts, "STS") == [(12, 12, 12), (12, strided, 12)]


def test_states_of_arrivals_and_copies_that_arrive() -> None:
    parameters = struct.pack("<QQi", IN, OUT, 6)
    counts = emulate(kernel("hopper", "tokens"), Launch(grid=(2, 1, 1), block=(64, 1, 1), parameters=parameters))
    assert not counts.unknown
    strided = 4 * sum(2**i for i in range(6))
    assert counted(counts, "STS") == [(24, 12, 12), (24, strided, 24)]
    assert counted(counts, "LDGSTS") == [(24, 24, 24)]


# ---------------------------------------------------------------------------------------------- measurements


MAP = {OUT + (1 << 20) - 128: Tiled(OUT, 2, (256, 256), (1024,), (32, 8)).encoded()}  # where bench/hopper has it


def test_clusters_and_bulk_copies_count_as_measured() -> None:
    rows = measured("cluster")
    launches = dict.fromkeys((row["kernel"], row["a"], row["b"]) for row in rows)
    assert len(launches) == 21
    for name, a, b in launches:
        blocks = 2 if name in ("distributed", "bulk") else 1
        parameters = struct.pack("<QQiiQ", int(a), int(b), 0, 0, OUT)
        launch = Launch(
            grid=(blocks, 1, 1), block=(32, 1, 1), parameters=parameters, cluster=(blocks, 1, 1), memory=MAP
        )
        counts = emulate(kernel("cluster", name), launch)
        assert not counts.unknown, (name, a, b)
        ours = [(r.sass, r.executed, r.wavefronts, r.ideal) for r in counts.rows if r.access]
        theirs = [
            (row["sass"], int(row["executed"]), int(row["wavefronts"]), int(row["ideal"]))
            for row in rows
            if (row["kernel"], row["a"], row["b"]) == (name, a, b) and row["wavefronts"]
        ]
        assert ours == theirs, (name, a, b)


def test_tensor_maps_are_encoded_and_decoded_as_the_driver_encodes_them() -> None:
    """All bytes are understood but those of maps whose element strides do not divide the box."""
    tiled = understood = 0
    for entry in encoded_maps():
        content = bytes.fromhex(entry["map"])
        steps = list(zip(entry["box"], entry["steps"], strict=False))  # of im2col none
        plain = not entry["channels"] and set(entry["steps"]) == {1}
        places = (tuple(entry[name]) for name in ("sizes", "strides", "box"))
        settings = {name: entry[name] for name in ("swizzle", "interleave", "promotion", "fill")}
        ours = Tiled(entry["address"], entry["dtype"], *places, **settings)
        assert decoded(content) == (ours if plain else None), entry
        assert not plain or ours.encoded() == content, entry
        elements = entry["channels"] * entry["pixels"] or math.prod(-(-box // step) for box, step in steps)
        found = copied_bytes(content)
        assert found in (None, elements * ELEMENT_BYTES[entry["dtype"]]), entry
        assert found is not None or any(box % step for box, step in steps), entry
        tiled, understood = tiled + plain, understood + (found is not None)
    assert (tiled, understood) == (121, 153)
