"""Fixes of the corpus written by hand, with where every element has gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncu_swizzle.fix.excess import Moved
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem.operations import Ints
from tests.support.fix_corpus import specs, with_text

BASE = 1024  # where a kernel's shared memory starts on sm_90
Place = Callable[[Ints], Ints]  # from the number of an element to that of its place


@dataclass(frozen=True)
class Fix:
    """What to write in place of what, and the arrays that move; `shared` is the new dynamic shared memory."""

    edits: tuple[tuple[str, str], ...]
    moved: tuple[Moved, ...]
    shared: str = ""

    def text(self, target: Target) -> str:
        """Return the new source."""
        text = target.source.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def apply(name: str, folder: Path) -> tuple[Target, Target]:
    """Return a kernel of the corpus, and its fixed version in a folder of its own."""
    target, fix = specs()[name], FIXES[name]
    return target, with_text(target, fix.text(target), folder, fix.shared)


def array(name: str, elements: int, size: int, place: Place, start: int = 0, after: int = 0, at: int = -1) -> Moved:
    """Return an array of elements of some bytes that starts at a byte and has as many elements `after`."""
    first, new = BASE + start, BASE + (start if at < 0 else at)
    places = place(np.arange(elements)) * size
    return Moved(
        name=name,
        before=range(first, first + elements * size),
        after=range(new, new + (after or elements) * size),
        element_bytes=size,
        places=places,
    )


def padded(width: int, pad: int = 1) -> Place:
    """Return where elements go whose rows get longer."""
    return lambda i: i // width * (width + pad) + i % width


def swizzled(width: int, mask: int = -1, shift: int = 0) -> Place:
    """Return where elements go whose column is XORed with their row."""
    return lambda i: i // width * width + (i % width ^ i // width >> shift & (width - 1 if mask < 0 else mask))


FIXES: dict[str, Fix] = {
    "rows-transpose": Fix(
        (
            ("tile[threadIdx.y + j][threadIdx.x]", "tile[threadIdx.y + j][threadIdx.x ^ (threadIdx.y + j)]"),
            ("tile[threadIdx.x][threadIdx.y + j]", "tile[threadIdx.x][(threadIdx.y + j) ^ threadIdx.x]"),
        ),
        (array("tile", 1024, 4, swizzled(32)),),
    ),
    "rows-sum": Fix(
        (("part[4][32][32]", "part[4][32][32 + 1]"),), (array("part", 4096, 4, padded(32), after=4 * 32 * 33),)
    ),
    "rows-matmul": Fix(
        (("float sb[TILE][TILE]", "float sb[TILE][TILE + 1]"),),
        (array("sb", 1024, 4, padded(32), start=4096, after=32 * 33),),
    ),
    "flat-transpose": Fix(
        (
            ("tile[32 * 32]", "tile[32 * 33]"),
            ("tile[threadIdx.y * 32 + threadIdx.x]", "tile[threadIdx.y * 33 + threadIdx.x]"),
            ("tile[threadIdx.x * 32 + threadIdx.y]", "tile[threadIdx.x * 33 + threadIdx.y]"),
        ),
        (array("tile", 1024, 4, padded(32), after=32 * 33),),
    ),
    "flat-stencil": Fix(
        (
            ("column[W * H]", "column[W * (H + 1)]"),
            ("column[x * H + y]", "column[x * (H + 1) + y]"),
            ("column[x * H + above]", "column[x * (H + 1) + above]"),
            ("column[x * H + below]", "column[x * (H + 1) + below]"),
        ),
        (array("column", 2048, 4, padded(64), after=32 * 65),),
    ),
    "carved-matmul": Fix(
        (
            ("b[(ty + 8 * i) * kK + tx]", "b[(ty + 8 * i) * (kK + 1) + tx]"),
            ("b[tx * kK + k]", "b[tx * (kK + 1) + k]"),
        ),
        (array("b", 1024, 4, padded(32), start=4096, after=32 * 33),),
        "8192 + 32 * 4",
    ),
    "carved-scores": Fix(
        (
            ("float* s = k + 32 * D;", "float* s = k + 32 * (D + 1);"),
            ("        k[i] = k_in", "        k[i / D * (D + 1) + i % D] = k_in"),
            ("k[lane * D + d]", "k[lane * (D + 1) + d]"),
        ),
        (array("k", 2048, 4, padded(64), start=8192, after=32 * 65),),
        "4 * (2 * 32 * 64 + 32 + 32 * 32)",
    ),
    "template-transpose": Fix(
        (("T tile[Tile][Tile]", "T tile[Tile][Tile + 1]"),), (array("tile", 1024, 8, padded(32), after=32 * 33),)
    ),
    "macro-transpose": Fix(
        (("tile[(r) * TILE_DIM + (c)]", "tile[(r) * TILE_DIM + ((c) ^ (r))]"),), (array("tile", 1024, 4, swizzled(32)),)
    ),
    "vector-rows": Fix(
        (
            ("rows[i / 8][i % 8 * 4]", "rows[i / 8][(i % 8 ^ i / 8 % 8) * 4]"),
            ("rows[threadIdx.x][c]", "rows[threadIdx.x][c ^ threadIdx.x % 8 * 4]"),
        ),
        (array("rows", 512, 16, swizzled(8)),),
    ),
    "vector-halves": Fix(
        (
            ("reinterpret_cast<uint4*>(tile)[t]", "reinterpret_cast<uint4*>(tile)[t / 8 * 8 + (t % 8 ^ t / 8 % 8)]"),
            ("tile + row * 64 + piece * 8", "tile + row * 64 + (piece ^ row % 8) * 8"),
        ),
        (array("tile", 256, 16, swizzled(8)),),
    ),
    "device-tile": Fix(
        (
            ("float (&tile)[N][N]", "float (&tile)[N][N + 1]"),
            ("float pane[N][N]", "float pane[N][N + 1]"),
        ),
        (array("pane", 1024, 4, padded(32), after=32 * 33),),
    ),
    "stages-transpose": Fix(
        (("tile[2][kDim][kDim]", "tile[2][kDim][kDim + 1]"),), (array("tile", 2048, 4, padded(32), after=2 * 32 * 33),)
    ),
    "stages-flat": Fix(
        (
            ("ring[stage * kTile + r * 32 + lane]", "ring[stage * kTile + r * 32 + (lane ^ r)]"),
            ("ring[stage * kTile + lane * 32 + c]", "ring[stage * kTile + lane * 32 + (c ^ lane)]"),
        ),
        (array("ring", 3072, 4, swizzled(32)),),
    ),
    "async-columns": Fix(
        (
            (
                "base + (row * 64 + piece * 4) * sizeof(float)",
                "base + (row * 64 + (piece ^ row % 8) * 4) * sizeof(float)",
            ),
            ("rows[lane * 64 + quarter * 16 + c]", "rows[lane * 64 + ((quarter * 16 + c) ^ lane % 8 * 4)]"),
        ),
        (array("rows", 512, 16, swizzled(16, mask=7)),),
    ),
    "ldmatrix-gemm": Fix(
        (
            ("at_a + (row * kDepth + piece * 8) * 2", "at_a + (row * kDepth + (piece ^ row % 8) * 8) * 2"),
            ("at_b + (row * kDepth + piece * 8) * 2", "at_b + (row * kDepth + (piece ^ row % 8) * 8) * 2"),
            (
                "at_a + ((top + lane % 16) * kDepth + k + lane / 16 * 8) * 2",
                "at_a + ((top + lane % 16) * kDepth + ((k + lane / 16 * 8) ^ lane % 8 * 8)) * 2",
            ),
            (
                "at_b + ((left + lane % 16) * kDepth + k + lane / 16 * 8) * 2",
                "at_b + ((left + lane % 16) * kDepth + ((k + lane / 16 * 8) ^ lane % 8 * 8)) * 2",
            ),
        ),
        (array("tile_a", 256, 16, swizzled(8)), array("tile_b", 256, 16, swizzled(8), start=4096)),
    ),
    "ldmatrix-trans": Fix(
        (
            ("&tile[i / 8][i % 8 * 8]", "&tile[i / 8][(i % 8 ^ i / 8 % 8) * 8]"),
            ("&tile[row + lane][column]", "&tile[row + lane][column ^ lane % 8 * 8]"),
        ),
        (array("tile", 512, 16, swizzled(8)),),
    ),
}
