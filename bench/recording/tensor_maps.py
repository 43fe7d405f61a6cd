"""Encode tensor maps of many kinds with this machine's driver, for hopper.py: the encoding is not documented."""

from __future__ import annotations

import ctypes
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Map:
    """The arguments of cuTensorMapEncodeTiled, or of cuTensorMapEncodeIm2col if `lower` is given."""

    dtype: int = 6
    address: int = 0x7FF4_8000_0000
    sizes: tuple[int, ...] = (4096, 2048)
    strides: tuple[int, ...] = (8192,)
    box: tuple[int, ...] = (64, 32)
    steps: tuple[int, ...] = (1, 1)
    interleave: int = 0
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0


THREE, FOUR, FIVE = ((256, 64, 32, 16, 8)[:rank] for rank in (3, 4, 5))
STRIDES = (512, 32768, 1048576, 16777216)


def maps() -> Iterator[Map]:
    """Yield one map after another, each field varied alone, then all of them at random."""
    for dtype in range(13):
        yield Map(dtype, strides=(65536,), box=(16, 32))
    yield from (Map(address=0x10 << shift) for shift in range(0, 45, 4))
    for inner, outer in itertools.product((1, 7, 64, 256), (1, 2, 5, 128, 255, 256)):
        yield Map(box=(inner * 8 % 257 or 8, outer))
    yield from (Map(sizes=(n, 2048)) for n in (64, 100, 4095, 65536, 1 << 32))
    yield from (Map(strides=(n,)) for n in (16, 8208, 1 << 20, 1 << 39))
    yield from (Map(steps=steps) for steps in ((1, 2), (2, 1), (8, 8), (1, 5)))
    yield from (Map(swizzle=swizzle, box=(16, 8)) for swizzle in range(8))
    yield from (Map(promotion=promotion) for promotion in range(4))
    yield Map(fill=1)
    for sizes in (THREE, FOUR, FIVE):
        rank = len(sizes)
        base: dict[str, Any] = {"sizes": sizes, "strides": STRIDES[: rank - 1], "steps": (1,) * rank}
        yield from (
            Map(**base, box=(8, *box))
            for box in itertools.product((1, 4, 7), repeat=min(rank - 1, 3))
            if len(box) == rank - 1
        )
        yield Map(**base, box=(8, 3, 5, 6, 7)[:rank])
        yield Map(**{**base, "steps": (1, 2, 3, 4, 5)[:rank]}, box=(8, 3, 5, 6, 7)[:rank])
        yield from (Map(**base, box=(8, 3, 5, 6, 7)[:rank], interleave=i, swizzle=i // 2) for i in (1, 2))
    yield Map(sizes=(4096,), strides=(), box=(64,), steps=(1,))
    yield Map(sizes=(4096,), strides=(), box=(256,), steps=(1,))
    for sizes in (THREE, FOUR, FIVE):
        rank = len(sizes)
        base = {"sizes": sizes, "strides": STRIDES[: rank - 1], "steps": (1,) * rank, "box": ()}
        for channels, pixels in ((8, 1), (64, 32), (16, 128), (256, 1024), (64, 7)):
            for swizzle in (0, 3):
                yield Map(
                    **base,
                    swizzle=swizzle,
                    lower=(-1,) * (rank - 2),
                    upper=(1,) * (rank - 2),
                    channels=channels,
                    pixels=pixels,
                )
        yield Map(**base, lower=(-3, 2, 5)[: rank - 2], upper=(4, -6, 7)[: rank - 2], channels=64, pixels=64)
    yield from random_maps()


def random_maps() -> Iterator[Map]:
    """Yield maps to try a decoder on."""
    choose = random.Random(5)
    for _ in range(60):
        rank = choose.randrange(1, 6)
        itemsize, dtype = choose.choice(((1, 0), (2, 6), (4, 7), (8, 4), (2, 9), (4, 2)))
        inner = choose.choice((16, 32, 64, 128)) // itemsize
        box = (inner, *(choose.randrange(1, 12) for _ in range(rank - 1)))
        sizes = tuple(max(inner, choose.randrange(1, 5000)) for _ in range(rank))
        strides = tuple(16 * choose.randrange(1, 1 << 20) for _ in range(rank - 1))
        steps = (1, *(choose.randrange(1, 9) for _ in range(rank - 1)))
        swizzle = choose.choice((0, 3)) if inner * itemsize <= 128 else 0
        yield Map(dtype, 16 * choose.randrange(1 << 40), sizes, strides, box, steps, 0, swizzle, choose.randrange(4))


def encoded(driver: ctypes.CDLL, of: Map) -> tuple[int, str]:
    """Return the driver's status and the map in hex."""
    storage = (ctypes.c_byte * 192)()
    start = -ctypes.addressof(storage) % 64
    rank = len(of.sizes)
    common = [
        ctypes.c_void_p(ctypes.addressof(storage) + start),
        ctypes.c_int(of.dtype),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(of.address),
        (ctypes.c_uint64 * rank)(*of.sizes),
        (ctypes.c_uint64 * max(rank - 1, 1))(*of.strides),
    ]
    steps = (ctypes.c_uint32 * rank)(*of.steps)
    modes = [ctypes.c_int(value) for value in (of.interleave, of.swizzle, of.promotion, of.fill)]
    if of.channels:
        corners = [(ctypes.c_int * len(corner))(*corner) for corner in (of.lower, of.upper)]
        sizes = [ctypes.c_uint32(of.channels), ctypes.c_uint32(of.pixels)]
        status = driver.cuTensorMapEncodeIm2col(*common, *corners, *sizes, steps, *modes)
    else:
        status = driver.cuTensorMapEncodeTiled(*common, (ctypes.c_uint32 * rank)(*of.box), steps, *modes)
    return status, bytes(storage)[start : start + 128].hex()


def tensor_maps(folder: Path) -> None:
    """Write tensor_maps.jsonl."""
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuInit(0):
        raise SystemExit("the driver does not start")
    context = ctypes.c_void_p()  # encoding needs a current one
    if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or driver.cuCtxSetCurrent(context):
        raise SystemExit("the GPU has no context")
    with (folder / "tensor_maps.jsonl").open("w") as file:
        for of in maps():
            status, text = encoded(driver, of)
            json.dump({**vars(of), "status": status, "map": text if status == 0 else ""}, file)
            file.write("\n")
