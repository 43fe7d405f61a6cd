"""The pictures and tables of ``ncu-swizzle explain``: on an 80-column terminal, as HTML or SVG, and as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest

import numpy as np
from rich.console import Console
from rich.text import Text

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.explain import own_kernels
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.predict import EveryLaunchAnswer, PredictAnswer, Prediction
from ncu_swizzle.explain.query import BITS, MAP, PLACES, ExplainQuery
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.render import listing
from ncu_swizzle.render.listing import PlainTable, table_line
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.reports.options import COMPUTED
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import bankmap, code, layout, mapping
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, BankMap, MapCounts, Phase
from ncu_swizzle.smem.descriptors import BOX_SPANS, CHUNK, FIELD, GROUP, MODES, Descriptor, box_chunks
from ncu_swizzle.smem.layout import Fragment
from ncu_swizzle.smem.mapping import Bits, Mapping, Places, tma_alignment, tma_mode
from ncu_swizzle.smem.operations import LINE, Ints

# Predictions, bank maps and related pictures on an 80-column terminal. No information is in colour alone.

# Wavefronts, as tables or as data.


def show_prediction(results: Sequence[PredictAnswer], console: Console) -> None:
    """Print the answers as tables."""
    for number, result in enumerate(results):
        if number:
            console.print()
        _show(result, console)


def _show(result: PredictAnswer, console: Console) -> None:
    console.print(table_line(result.title, style="bold"))
    table = columns("access", "instruction", right=("executed", "wavefronts", "ideal", "degree"))
    for predicted in result.predictions:
        degree = f"{predicted.degree:.2f}" if predicted.degree is not None else "-"
        conflicts = "*" if predicted.excessive else " "
        counts = map(_count, (predicted.executed, predicted.wavefronts, predicted.ideal))
        table.add_row(predicted.name or predicted.access, predicted.op, *counts, degree + conflicts)
    console.print(table)
    for note in result.notes:
        console.print(table_line(note))
    if result.unknown:
        console.print(table_line(f"{result.unknown:,} requests are unknown: no measured rule covers them."))
    if result.checks:
        console.print()
        console.print(table_line(f"Compared with the counts ({result.origin})", style="bold"))
        checked = columns("access", right=("predicted", "counted"))
        checked.add_column("", overflow="fold")
        for check in result.checks:
            counted = check.counted.wavefronts if check.counted else None
            checked.add_row(check.predicted.access, _count(check.predicted.wavefronts), _count(counted), check.verdict)
        console.print(checked)
    elif result.origin:
        console.print(table_line(f"Not compared: {result.origin}."))


def show_every_launch(answer: EveryLaunchAnswer, console: Console) -> None:
    """Print a table for each kernel."""
    for kernel in answer.kernels:
        console.print(table_line(f"{kernel.kernel}, in every launch with blocks of {kernel.blocks}", style="bold"))
        table = columns("line", "instruction", "accesses", "degree")
        for row in kernel.rows:
            table.add_row(row.line, row.opcode, str(row.count), row.degree)
        console.print(table)
        console.print()
    for note in answer.notes:
        console.print(table_line(note))


def columns(*left: str, right: Sequence[str] = ()) -> PlainTable:
    """Return a table with columns of texts, and of numbers at the right."""
    table = PlainTable(gap=2, header_style="dim")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def _count(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def prediction_data(result: PredictAnswer) -> dict[str, object]:
    """Return an answer as JSON-serializable data."""
    counted = {"counted": {"*": COMPUTED, "counted": result.counted_provenance}} if result.counted_provenance else {}
    return {
        "provenance": {"*": COMPUTED, **counted} if counted else COMPUTED,
        "title": result.title,
        "accesses": [
            {"name": predicted.name, "op": predicted.op, **_prediction_counts(predicted)}
            for predicted in result.predictions
        ],
        "counted": [
            {
                **_prediction_counts(check.predicted),
                "counted": check.counted.wavefronts if check.counted else None,
                "equal": check.equal,
                "verdict": check.verdict,
            }
            for check in result.checks
        ],
        "origin": result.origin,
        "unknown": result.unknown,
        "unknowns": [asdict(why) for why in (*result.unknowns, *_without_rule(result.unknown))],
        "agrees": result.agrees,
        "notes": list(result.notes),
    }


def _without_rule(requests: int) -> Iterator[UnknownCounts]:
    if requests:
        yield UnknownCounts.of(codes.NO_RULE, f"no measured rule covers {requests:,} requests")


def _prediction_counts(predicted: Prediction) -> dict[str, object]:
    return {
        "access": predicted.access,
        "executed": predicted.executed,
        "wavefronts": predicted.wavefronts,
        "ideal": predicted.ideal,
        "excessive": predicted.excessive,
    }


WIDTH = 80
ROWS_SHOWN = 32
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUV"  # one per bank, for narrow cells
CONFLICT, CLEAN, QUIET = "black on color(214)", "color(32)", "dim"  # orange and blue: safe for colour-blind readers
SOURCE, TARGET = "bold color(32)", "bold underline color(208)"


def show_map(bank_map: BankMap, console: Console) -> None:
    """Print a map, what its cells are, and the cost of its access."""
    console.print(listing.table_line(bank_map.title, style="bold"))
    console.print(Text(_cells_are(bank_map), style=QUIET))
    console.print()
    for line in _grid(bank_map):
        console.print(line, no_wrap=True, crop=False, soft_wrap=True)
    console.print()
    if bank_map.conflicts:
        console.print(Text.assemble((" * ", CONFLICT), " shares its bank with another word of the same phase."))
    if bank_map.access and bank_map.counts:
        console.print(listing.table_line(counted(bank_map.access.name, bank_map.access.op, bank_map.counts)))


def counted(name: str, op: str, counts: MapCounts) -> str:
    """Return the cost of an access in one sentence."""
    head = f"{name}: {counts.requests:,} {'request' if counts.requests == 1 else 'requests'}"
    head += f" of {op}" if name != op else ""
    if not counts.known:
        return f"{head}, wavefronts unknown: no measured rule covers this pattern."
    excess = f"{counts.excessive:,} excessive" if counts.excessive else "conflict-free"
    taken = f" ({counts.collisions:,} lanes find their bank busy)" if counts.excessive and counts.collisions else ""
    return f"{head}, {counts.actual:,} wavefronts, {counts.ideal:,} ideal: {excess}{taken}."


def facts(mapping: Mapping, console: Console) -> None:
    """Print the size, access width and TMA mode of a mapping, or that it loses elements."""
    lost = mapping.collision()
    if lost:
        console.print(
            listing.table_line(f"Not a bijection: {lost}. The second write overwrites the first.", style="bold red")
        )
        return
    mode = tma_mode(mapping)
    parts = [f"{mapping.bytes:,} bytes", f"accesses of up to {mapping.vector_bytes()} bytes stay whole"]
    aligned = f"TMA writes it in mode {mode}, aligned to {tma_alignment(mapping):,} bytes"
    parts.append({None: "TMA cannot write it", "none": "TMA writes it without a swizzle"}.get(mode, aligned))
    console.print(listing.table_line(f"A bijection; {'; '.join(parts)}."))


def _cells_are(bank_map: BankMap) -> str:
    size = bank_map.cell_bytes
    wide = size // 4
    what = f"the first of {wide} banks" if wide > 1 else "the bank"
    elements = size // bank_map.mapping.element_bytes
    of = f"{elements} elements, {size} bytes" if elements > 1 else f"{size} byte{'s' * (size != 1)}"
    toy = f", of {bank_map.bank_count} banks" if bank_map.bank_count != BANKS else ""
    return f"Each cell: {what} of {of}{toy}"


def _grid(bank_map: BankMap) -> Iterable[Text]:
    rows, columns = bank_map.banks.shape
    margin = 9 if bank_map.lines else 0
    width = next((w for w in (6, 4, 2) if 6 + w * columns + margin <= WIDTH), 2)
    room = (WIDTH - 6 - margin) // width
    shown = columns if columns <= room else room // 8 * 8
    yield _head(shown, width, bool(margin))
    period = bank_map.period
    for row in range(min(period, ROWS_SHOWN)):
        line = Text(f"r{row:<5}", style=QUIET)
        for column in range(shown):
            line.append_text(_cell(int(bank_map.banks[row, column]), int(bank_map.ways[row, column]), width))
        if bank_map.lines:
            actual, ideal = bank_map.lines[row]
            line.append(f"{f'{actual}/{ideal}':>9}", style=QUIET if actual == ideal else "bold")
        line.rstrip()
        yield line
    if width == 2:
        yield Text("0 to 9 and A to V stand for banks 0 to 31.", style=QUIET)
    if period < rows and period <= ROWS_SHOWN:
        yield Text(f"Rows {period} to {rows - 1} repeat these {period}.", style=QUIET)
    if shown < columns or period > ROWS_SHOWN:
        hidden = [f"{columns - shown} more columns"] * (shown < columns)
        hidden += [f"{rows - ROWS_SHOWN} more rows"] * (period > ROWS_SHOWN)
        yield Text(f"Not shown: {' and '.join(hidden)}; --html shows them.", style=QUIET)


def _head(columns: int, width: int, margin: bool) -> Text:
    step = 4 if width == 2 else 1
    names = (f"c{column}" if column % step == 0 else "" for column in range(columns))
    cells = [name.ljust(width * step) for column, name in enumerate(names) if column % step == 0]
    head = (" " * 6 + "".join(cells)).ljust(6 + width * columns)[: 6 + width * columns]
    return Text((head + ("act/ideal" if margin else "")).rstrip(), style=QUIET)


def _cell(bank: int, ways: int, width: int) -> Text:
    mark = "*" if ways > 1 else " "
    label = {6: f"B{bank:02}", 4: f"{bank:02}", 2: DIGITS[bank % len(DIGITS)]}[width]
    style = CONFLICT if ways > 1 else CLEAN if ways else ""
    return Text.assemble((label + mark, style), " " * (width - len(label) - 1))


# ------------------------------------------------------------------------------------------------ phases


def show_phases(name: str, request: int, phases: tuple[Phase, ...], console: Console) -> None:
    """Print the phases of one request: the lanes served together, their banks, and the number of passes."""
    console.print(listing.table_line(f"{name}, request {request}", style="bold"))
    console.print(
        Text(f"{'phase':<7}{'lanes':<9}{'from cell':<12}{'to cell':<12}{'banks':<26}{'turns':>6}", style=QUIET)
    )
    for number, phase in enumerate(phases):
        if not phase.lanes:
            console.print(f"{number:<7}no lane is active")
            continue
        lanes = f"{phase.lanes[0]}-{phase.lanes[-1]}"
        first, last = (f"{row},{column}" for row, column in (phase.cells[0], phase.cells[-1]))
        banks = _ranges(sorted({b + i for b in phase.banks for i in range(phase.width)}))
        line = Text(f"{number:<7}{lanes:<9}{first:<12}{last:<12}{banks:<26}")
        line.append(f"{phase.ways:>5}{'*' if phase.ways > 1 else ' '}", style=CONFLICT if phase.ways > 1 else CLEAN)
        console.print(line)


def _ranges(banks: list[int]) -> str:
    """Return ``0-3, 8-11``; shortened if it is long."""
    runs: list[list[int]] = []
    for bank in banks:
        if runs and bank == runs[-1][1] + 1:
            runs[-1][1] = bank
        else:
            runs.append([bank, bank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return text if len(text) <= 25 else f"{len(banks)} banks: {text[:10]}…"


# ------------------------------------------------------------------------------------------------ pictures


def show_bits(bits: Bits, console: Console) -> None:
    """Print byte addresses in binary, with source and target bits marked above them and in colour."""
    marked = Text.assemble(*((letter, _bit_style(letter)) for letter in bits.legend))
    head = Text(" " * 23).append_text(marked).append(" " * 10).append_text(marked) if bits.source else Text("")
    console.print(head)
    for row in bits.rows:
        console.print(
            Text(f"{row.label:<10}{row.before:>5} {row.before:#06x} ")
            .append_text(_binary(row.before, bits))
            .append(f" → {row.after:#06x} ")
            .append_text(_binary(row.after, bits))
        )
    if bits.source:
        console.print(Text.assemble(("S", SOURCE), " source bits, XORed into ", ("T", TARGET), " target bits."))


def _binary(address: int, bits: Bits) -> Text:
    digits = zip(format(address, f"0{bits.width}b"), bits.legend, strict=True)
    return Text.assemble(*((digit, _bit_style(letter)) for digit, letter in digits))


def _bit_style(letter: str) -> str:
    return {"S": SOURCE, "T": TARGET, "B": TARGET}.get(letter, QUIET)


def show_places(before: Places, after: Places, console: Console) -> None:
    """Print memory before and after, one line per row: the column (or row.column) at each position."""
    wide = max(_places_width(before), _places_width(after))
    drawings = [list(_places(places, wide)) for places in (before, after)]
    left = max(map(len, drawings[0]))
    if 6 + left + 3 + max(map(len, drawings[1])) <= WIDTH:
        console.print(Text(f"      {'before'.ljust(left)}   after", style="bold"))
        for number, (first, second) in enumerate(zip_longest(*drawings, fillvalue="")):
            console.print(Text(f"r{number:<5}{first.ljust(left)}   {second}"))
        return
    for title, drawing in zip(("before", "after"), drawings, strict=True):
        console.print(Text(title, style="bold"))
        for number, line in enumerate(drawing):
            console.print(Text(f"r{number:<5}{line}"))


def show_memory(named: Sequence[tuple[str, Places]], console: Console) -> None:
    """Print memory line by line under a title: the row and column at each position."""
    for title, places in named:
        console.print(Text(title, style="bold"))
        for number, line in enumerate(_places(places, _places_width(places))):
            console.print(Text(f"{number * LINE:<6}{line}"))


def _places_width(places: Places) -> int:
    """Return the width of a position: its label and a blank; one letter if one-letter labels are enough."""
    longest = len(str(places.columns.max())) + (0 if places.stays_in_row else 1 + len(str(places.rows.max())))
    fits = 6 + (1 + longest) * places.columns.shape[1] <= WIDTH
    return 1 + longest if fits or not places.stays_in_row or places.columns.max() >= len(DIGITS) else 2


def _places(places: Places, width: int) -> Iterable[str]:
    shown = min(places.columns.shape[1], (WIDTH - 8) // width)
    for rows, columns in zip(places.rows, places.columns, strict=True):
        names = [_place(int(r), int(c), places.stays_in_row, width) for r, c in zip(rows, columns, strict=True)]
        more = " …" if shown < len(names) else ""
        yield "".join(name.ljust(width) for name in names[:shown]).rstrip() + more


def _place(row: int, column: int, alone: bool, width: int) -> str:
    if row < 0:
        return "-"
    return (DIGITS[column] if width == 2 and column < len(DIGITS) else f"{column}") if alone else f"{row}.{column}"


def show_fragments(shape: str, fragments: Iterable[Fragment], console: Console) -> None:
    """Print the lane and the elements that hold each cell of each operand."""
    console.print(Text(f"mma.{shape}, 16-bit operands: LANE:ELEMENTS that hold each cell"))
    for fragment in fragments:
        rows, columns = fragment.shape
        letter = fragment.name.lower()
        title = f"\n{fragment.name}, {rows}x{columns}: {fragment.elements} elements per lane"
        console.print(Text(title, style="bold"))
        paired = bool((fragment.lane[:, ::2] == fragment.lane[:, 1::2]).all())
        step, width = (2, 9) if paired else (1, 7)
        heads = (f"c{c}-{c + 1}" if paired else f"c{c}" for c in range(0, columns, step))
        console.print(Text((" " * 6 + "".join(head.ljust(width) for head in heads)).rstrip(), style=QUIET))
        for row in range(rows):
            line = Text(f"r{row:<5}", style=QUIET)
            for column in range(0, columns, step):
                elements = [int(e) for e in fragment.element[row, column : column + step]]
                name = f"{fragment.lane[row, column]}:{letter}" + ",".join(map(str, elements))
                line.append(name.ljust(width), style=CLEAN if row % 16 < 8 else "")
            line.rstrip()
            console.print(line)


# The bank maps and pictures that ``ncu-swizzle explain`` draws: on a terminal, as HTML or SVG, and as data.

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
    show_memory(drawings, console)


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
        show_map(bank_map, console)
        facts(bank_map.mapping, console)


def _show_detail(query: ExplainQuery, subject: Subject, console: Console) -> None:
    if query.show == BITS:
        bits = mapping.bits(subject.after, query.row)
        console.print(table_line(code.titled(subject.after), style="bold"))
        show_bits(bits, console)
    elif query.show == PLACES:
        before, after = mapping.places(subject.before), mapping.places(subject.after)
        console.print(table_line(f"{code.titled(subject.after)}: where each column lies in memory", style="bold"))
        show_places(before, after, console)
    elif subject.access is None:
        raise UsageError(*NO_ACCESS)
    else:
        for variant, access in subject.pairs:
            if access:
                number, phases = bankmap.phases(access, variant, query.request)
                console.print(table_line(code.titled(variant), style="bold"))
                show_phases(access.op, number, phases, console)


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
    "m16n8k8": lambda console: show_fragments("m16n8k8", layout.fragments(8), console),
    "m16n8k16": lambda console: show_fragments("m16n8k16", layout.fragments(16), console),
}
