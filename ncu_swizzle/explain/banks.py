"""The bank maps and pictures that ``ncu-swizzle explain`` draws: on a terminal, as HTML or SVG, and as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
from rich.console import Console

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.explain import own_kernels, shown
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.query import BITS, MAP, PLACES, ExplainQuery
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.render.listing import table_line
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import COMPUTED
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import bankmap, code, layout, mapping
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, BankMap
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, FIELD, GROUP, MODES, Descriptor, box_chunks
from ncu_swizzle.smem.mapping import Mapping, Places
from ncu_swizzle.smem.operations import LINE, Ints

# What is written as HTML, SVG or JSON: the bank maps, or the requested picture.

NO_ACCESS = ("--show phases needs an access", "--access row, column or ldmatrix")


def drawing_of(query: ExplainQuery, maps: Sequence[BankMap], title: str, *, svg: bool) -> str:
    """Return one HTML document, or one SVG with a map for each phase; raise UsageError if there is nothing to draw."""
    from ncu_swizzle.render import banks, page

    if query.show == BITS:
        raise UsageError("--show bits is printed, or written as JSON", "--json - prints it as JSON")
    if query.show in ("", MAP):
        return page.render_banks_svg(maps, title) if svg else page.render_banks(maps, title)
    if query.show == PLACES:
        held = [mapping.places(bank_map.mapping) for bank_map in maps]
        board = banks.board(held, [bank_map.title for bank_map in maps])
    else:
        board = banks.phases(maps, _request(query, maps))[svg]
    return page.render_board_svg(board, title) if svg else page.render_board(board, title)


def data(query: ExplainQuery, maps: Sequence[BankMap]) -> object:
    """Return the picture as JSON-serializable data; raise UsageError if there is nothing to draw."""
    if query.show in ("", MAP):
        return to_data(maps)
    if query.show == BITS:
        return asdict(mapping.bits(maps[-1].mapping, query.row))
    if query.show == PLACES:
        held = [mapping.places(bank_map.mapping) for bank_map in maps]
        return [{"rows": places.rows.tolist(), "columns": places.columns.tolist()} for places in held]
    request = _request(query, maps)
    return [[asdict(load) for load in bankmap.loads(bank_map, request) if load.request == request] for bank_map in maps]


def _request(query: ExplainQuery, maps: Sequence[BankMap]) -> int:
    """Return the request whose phases are shown: the one asked for, else the worst."""
    for bank_map in maps:
        if bank_map.access is None:
            raise UsageError(*NO_ACCESS)
        bankmap.phases(bank_map.access, bank_map.mapping, query.request)  # raises if there is no such request
    return bankmap.worst_request(maps) if query.request is None else query.request


# Drawings of Hopper's tiles: where TMA puts a box, and what wgmma reads through a descriptor.
#
# Memory in lines of 128 bytes, as chunks of 16. A chunk is numbered ROW.CHUNK: of a box, and of the rows that wgmma
# takes for M or N, or MN-major for K. Where both have the same number, the tile fits.

_PART = re.compile(r"(box|k-major|mn-major)\((\d{1,7}(?:,\d{1,7})*)\)")
_SPANS = {"none": 16, **{f"{span}b": span for span in BOX_SPANS[1:]}}
FORMS = '"box(64,64)", "k-major(64,16,1024)" (rows, LBO, SBO), "mn-major(64,8192,1024)", or two of them joined by +'
MOST_ROWS = 256
SIXTEEN_BITS = 2


def is_tile(what: str) -> bool:
    """Return whether a text is a box or an operand of wgmma."""
    return _PART.match(what) is not None


def tile_pictures(query: ExplainQuery) -> list[tuple[str, Places]]:
    """Return, for each part of the drawing, a title and the content of each chunk of memory. Raises UsageError."""
    parts = [_PART.fullmatch(part) for part in query.what.replace(" ", "").split("+")]
    span = _SPANS.get((query.swizzle or "none").lower())
    if query.pad or query.access or query.show not in ("", MAP) or query.banks != BANKS:
        raise UsageError(f"{query.what} is drawn as it is", "omit the padding, the access and the picture to show")
    if any(part is None for part in parts) or len(parts) > 2:
        raise UsageError(f"{query.what!r} is not a box or an operand of wgmma", FORMS)
    if span is None:
        raise UsageError(f"TMA and wgmma have no swizzle {query.swizzle!r}", "none, 32B, 64B or 128B")
    element = query.element_bytes or SIXTEEN_BITS
    return [_drawing(part[1], [int(n) for n in part[2].split(",")], span, element) for part in parts if part]


def show_tile_pictures(drawings: Sequence[tuple[str, Places]], console: Console) -> None:
    """Print the drawings."""
    console.print(table_line("Shared memory in lines of 128 bytes; ROW.CHUNK of 16 bytes", style="bold"))
    shown.show_memory(drawings, console)


def _drawing(kind: str, sizes: Sequence[int], span: int, element: int) -> tuple[str, Places]:
    swizzle = f"{span}-byte swizzle" if span > CHUNK else "no swizzle"
    if kind == "box":
        rows, columns = _sizes(kind, sizes, "ROWS,COLUMNS", 2)
        # CUDA driver API, cuTensorMapEncodeTiled: a box's row is a multiple of 16 bytes and not wider than the swizzle,
        # and a side has at most 256 elements.
        if columns * element % CHUNK or not 0 < rows <= MOST_ROWS or not columns:
            raise UsageError(f"a box of {rows} rows of {columns * element} bytes", "rows of a multiple of 16 bytes")
        if span > CHUNK and columns * element > span:
            raise UsageError(
                f"rows of {columns * element} bytes exceed the {span}-byte swizzle",
                f"at most {span // element} columns",
            )
        at = box_chunks(rows, columns * element, span, 0)
        return f"TMA writes: box of {rows} x {columns}, {swizzle}", _memory(at)
    rows, leading, stride = _sizes(kind, sizes, "ROWS,LBO,SBO", 3)
    # PTX ISA, matrix descriptors: core matrices of 8 rows, offsets of 14 bits in units of 16 bytes.
    if rows % GROUP or not 0 < rows <= MOST_ROWS or max(leading, stride) > FIELD * CHUNK or (leading | stride) % CHUNK:
        raise UsageError(
            f"{rows} rows with offsets of {leading} and {stride} bytes",
            f"rows in multiples of 8 up to {MOST_ROWS}, offsets in multiples of 16 up to {FIELD * CHUNK}",
        )
    descriptor = Descriptor(0, leading, stride, 0, MODES[span])
    at = descriptor.chunks(rows, kind == "mn-major")
    return f"wgmma reads: {kind}, {descriptor}", _memory(at.T if kind == "mn-major" else at)


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


NONE = "none"


def show(query: ExplainQuery, subject: Subject, console: Console, first: bool = False) -> None:
    """Print the maps (only one if `first`), or the requested picture."""
    if query.show in ("", MAP):
        maps = subject.maps(query.banks)
        _show_maps(subject, maps[:1] if first else maps, console)
    else:
        _show_detail(query, subject, console)


def of_layout(query: ExplainQuery) -> Subject:
    """Return the mapping and the access of a layout: the one to draw, the worst of those typed, or its rows."""
    after = mapping.parse(query.what, query.element_bytes or 4, query.swizzle, query.pad)
    if query.access == NONE:
        return Subject(before=after.plain, after=after, access=None)
    if query.access or not (query.reads or query.writes):
        access = accesses.parse(query.access or "row", after.layout, after.element_bytes)
    else:
        typed = own_kernels.accesses_of(after, query.writes, query.reads, query.threads)
        access = max(typed, key=lambda candidate: _excess(after.plain, candidate))
    return Subject(before=after.plain, after=after, access=access)


def of_kernels(query: ExplainQuery, kernels: Sequence[Target | Profile]) -> Subject:
    """Return the mappings and the access: of the last kernel if its accesses are declared. Raises UsageError."""
    last = kernels[-1]
    if not isinstance(last, Profile):
        return _declared(last, query.access)
    return own_kernels.subject(query, [kernel for kernel in kernels if isinstance(kernel, Profile)])


def _declared(target: Target, access: str) -> Subject:
    """Return the tile of a catalogue kernel, with its baseline's mapping as before, and the worst access to it.

    The first tile without an access if only TMA and wgmma access them; a tile that the baseline lacks is drawn alone.
    """
    name, baseline = target.name, target.kernel.baseline
    mine = tiles_of(target)
    others = tiles_of(catalog.shipped().target(baseline)) if baseline else ()
    before = {tile.name: tile for tile in others}
    pairs = [(before.get(new.name, new), new, candidate) for new in mine for candidate in new.accesses]
    named = [pair for pair in pairs if access in ("", pair[2].name, pair[2].op)]
    if not named and (pairs or access not in ("", NONE)):
        names = ", ".join(repr(pair[2].name) for pair in pairs) or NONE
        raise UsageError(f"{name} has no access {access!r}", f"--access one of {names}")
    title = f"{baseline} → {name}" if baseline else name
    if not named:
        old, new = before.get(mine[0].name, mine[0]), mine[0]
        return Subject(
            before=old.mapping, after=new.mapping, access=None, title=f"{title}, {new.name}: by TMA and wgmma alone"
        )
    old, new, candidate = max(named, key=lambda pair: _excess(pair[0].mapping, pair[2]))
    return Subject(
        before=old.mapping,
        after=new.mapping,
        access=replace(candidate, times=1),
        title=f"{title}, {new.name}: {candidate.name}",
    )


def _excess(mapping: Mapping, access: Access) -> int:
    return access.total(access.wavefronts(mapping).excessive)


def _show_maps(subject: Subject, maps: Sequence[BankMap], console: Console) -> None:
    if subject.title:
        console.print(table_line(subject.title, style="bold"))
        console.print()
    for number, bank_map in enumerate(maps):
        if number:
            console.print()
        shown.show(bank_map, console)
        shown.facts(bank_map.mapping, console)


def _show_detail(query: ExplainQuery, subject: Subject, console: Console) -> None:
    if query.show == BITS:
        bits = mapping.bits(subject.after, query.row)
        console.print(table_line(code.titled(subject.after), style="bold"))
        shown.show_bits(bits, console)
    elif query.show == PLACES:
        before, after = mapping.places(subject.before), mapping.places(subject.after)
        console.print(table_line(f"{code.titled(subject.after)}: where each column lies in memory", style="bold"))
        shown.show_places(before, after, console)
    elif subject.access is None:
        raise UsageError(*NO_ACCESS)
    else:
        for variant, access in subject.pairs:
            if access:
                number, phases = bankmap.phases(access, variant, query.request)
                console.print(table_line(code.titled(variant), style="bold"))
                shown.show_phases(access.op, number, phases, console)


def to_data(maps: Sequence[BankMap]) -> list[dict[str, object]]:
    """Return the maps as JSON-serializable data."""
    return [
        {
            "provenance": COMPUTED,
            "layout": str(bank_map.mapping.layout),
            "transform": str(bank_map.mapping.transform),
            "spelled": code.spelled(bank_map.mapping),
            "element_bytes": bank_map.mapping.element_bytes,
            "bytes": bank_map.mapping.bytes,
            "bijection": bank_map.mapping.collision() is None,
            "vector_bytes": bank_map.mapping.vector_bytes(),
            "tma": mapping.tma_mode(bank_map.mapping),
            "cell_bytes": bank_map.cell_bytes,
            "bank_count": bank_map.bank_count,
            "banks": bank_map.banks.tolist(),
            "ways": bank_map.ways.tolist(),
            "access": bank_map.access.name if bank_map.access else None,
            "op": bank_map.access.op if bank_map.access else None,
            "counts": _counts(bank_map),
        }
        for bank_map in maps
    ]


def _counts(bank_map: BankMap) -> dict[str, object] | None:
    if bank_map.counts is None:
        return None
    counts = bank_map.counts
    wavefronts = {"actual": counts.actual, "ideal": counts.ideal, "excessive": counts.excessive}
    return {
        "requests": counts.requests,
        "known": counts.known,
        **(wavefronts if counts.known else dict.fromkeys(wavefronts)),
    }


PICTURES: dict[str, Callable[[Console], None]] = {
    "m16n8k8": lambda console: shown.show_fragments("m16n8k8", layout.fragments(8), console),
    "m16n8k16": lambda console: shown.show_fragments("m16n8k16", layout.fragments(16), console),
}
