"""What ``banks`` draws of Hopper's tiles: where TMA puts a box, and what wgmma reads through a descriptor.

Memory in lines of 128 bytes, as chunks of 16. A chunk is numbered ROW.CHUNK: of a box, and of the rows that wgmma takes
for M or N, or MN-major for K. Where both have the same number, the tile fits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import write_atomically
from ncu_swizzle.model import terminal
from ncu_swizzle.model.subject import BanksQuery
from ncu_swizzle.render.terminal_tables import line
from ncu_swizzle.smem.bankmap import BANKS
from ncu_swizzle.smem.banks import Ints
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, FIELD, GROUP, MODES, Descriptor, box_chunks
from ncu_swizzle.smem.operations import LINE
from ncu_swizzle.smem.pictures import Places
from ncu_swizzle.texts import in_json

_PART = re.compile(r"(box|k-major|mn-major)\((\d{1,7}(?:,\d{1,7})*)\)")
_SPANS = {"none": 16, **{f"{span}b": span for span in BOX_SPANS[1:]}}
FORMS = '"box(64,64)", "k-major(64,16,1024)" (rows, LBO, SBO), "mn-major(64,8192,1024)", or two of them joined by +'
MOST_ROWS = 256
SIXTEEN_BITS = 2


@dataclass(frozen=True)
class TileDrawing:
    """One side: what is at each chunk of shared memory."""

    title: str
    places: Places


def is_tile(what: str) -> bool:
    """Say whether `banks` was asked for a box or an operand of wgmma."""
    return _PART.match(what) is not None


def show(query: BanksQuery, console: Console, html: Path | None, svg: Path | None, data: bool) -> None:
    """Print the drawings; write them as HTML or SVG if a file is named. Raises UsageError."""
    drawings = drawings_of(query)
    if html or svg:
        _write(drawings, query.what, html, svg)
    if data:
        sys.stdout.write(in_json([_data(drawing) for drawing in drawings], indent=1))
        return
    console.print(line("Shared memory in lines of 128 bytes; ROW.CHUNK of 16 bytes", style="bold"))
    terminal.show_memory([(drawing.title, drawing.places) for drawing in drawings], console)


def drawings_of(query: BanksQuery) -> list[TileDrawing]:
    """Return a drawing for each part of what was asked for."""
    parts = [_PART.fullmatch(part) for part in query.what.replace(" ", "").split("+")]
    span = _SPANS.get((query.swizzle or "none").lower())
    if query.pad or query.access or query.show != "map" or query.banks != BANKS:
        raise UsageError(f"{query.what} is drawn as it is", "omit the padding, the access and the picture to show")
    if any(part is None for part in parts) or len(parts) > 2:
        raise UsageError(f"{query.what!r} is not a box or an operand of wgmma", FORMS)
    if span is None:
        raise UsageError(f"TMA and wgmma have no swizzle {query.swizzle!r}", "none, 32B, 64B or 128B")
    element = query.element_bytes or SIXTEEN_BITS
    return [_drawn(part[1], [int(n) for n in part[2].split(",")], span, element) for part in parts if part]


def _drawn(kind: str, sizes: Sequence[int], span: int, element: int) -> TileDrawing:
    swizzle = f"{span}-byte swizzle" if span > CHUNK else "no swizzle"
    if kind == "box":
        rows, columns = _sizes(kind, sizes, "ROWS,COLUMNS", 2)
        if columns * element % CHUNK or not 0 < rows <= MOST_ROWS or not columns:
            raise UsageError(f"a box of {rows} rows of {columns * element} bytes", "rows of a multiple of 16 bytes")
        if span > CHUNK and columns * element > span:
            raise UsageError(
                f"rows of {columns * element} bytes exceed the {span}-byte swizzle",
                f"at most {span // element} columns",
            )
        at = box_chunks(rows, columns * element, span, 0)
        return TileDrawing(f"TMA writes: box of {rows} x {columns}, {swizzle}", _memory(at))
    rows, leading, stride = _sizes(kind, sizes, "ROWS,LBO,SBO", 3)
    if rows % GROUP or not 0 < rows <= MOST_ROWS or max(leading, stride) > FIELD * CHUNK or (leading | stride) % CHUNK:
        raise UsageError(
            f"{rows} rows with offsets of {leading} and {stride} bytes",
            f"rows in multiples of 8 up to {MOST_ROWS}, offsets in multiples of 16 up to {FIELD * CHUNK}",
        )
    descriptor = Descriptor(0, leading, stride, 0, MODES[span])
    at = descriptor.chunks(rows, kind == "mn-major")
    return TileDrawing(f"wgmma reads: {kind}, {descriptor}", _memory(at.T if kind == "mn-major" else at))


def _sizes(kind: str, sizes: Sequence[int], names: str, count: int) -> Sequence[int]:
    if len(sizes) != count:
        raise UsageError(f"{kind} takes {count} numbers", f'"{kind}({names})", such as {FORMS}')
    return sizes


def _memory(at: Ints) -> Places:
    """Return the chunk at each place of memory, from the addresses of all chunks, (rows, chunks)."""
    lines = -(-(int(at.max()) + CHUNK) // LINE)
    rows, chunks = np.full((2, lines * LINE // CHUNK), -1, np.int64)
    rows[at // CHUNK], chunks[at // CHUNK] = np.indices(at.shape)
    return Places(rows.reshape(lines, -1), chunks.reshape(lines, -1))


def _write(drawings: Sequence[TileDrawing], title: str, html: Path | None, svg: Path | None) -> None:
    from ncu_swizzle.render import page
    from ncu_swizzle.render.view import place_picture

    board = place_picture.board([drawing.places for drawing in drawings], [drawing.title for drawing in drawings])
    for path, render in ((html, page.render_board), (svg, page.render_board_svg)):
        if path:
            write_atomically(path, render(board, title).encode())


def _data(drawing: TileDrawing) -> dict[str, object]:
    places = drawing.places
    return {"title": drawing.title, "rows": places.rows.tolist(), "chunks": places.columns.tolist()}
