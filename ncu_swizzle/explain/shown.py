"""Predictions, bank maps and related pictures on an 80-column terminal. No information is in colour alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from ncu_swizzle.base import codes
from ncu_swizzle.explain.predict import EveryLaunchAnswer, PredictAnswer, Prediction
from ncu_swizzle.render import listing
from ncu_swizzle.render.listing import PlainTable, table_line
from ncu_swizzle.reports.model import UnknownCounts
from ncu_swizzle.reports.options import COMPUTED
from ncu_swizzle.smem.bankmap import BANKS, BankMap, MapCounts, Phase
from ncu_swizzle.smem.layout import Fragment
from ncu_swizzle.smem.mapping import Bits, Mapping, Places, tma_alignment, tma_mode
from ncu_swizzle.smem.operations import LINE

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


def to_data(result: PredictAnswer) -> dict[str, object]:
    """Return an answer as JSON-serializable data."""
    counted = {"counted": {"*": COMPUTED, "counted": result.counted_provenance}} if result.counted_provenance else {}
    return {
        "provenance": {"*": COMPUTED, **counted} if counted else COMPUTED,
        "title": result.title,
        "accesses": [
            {"name": predicted.name, "op": predicted.op, **_counts(predicted)} for predicted in result.predictions
        ],
        "counted": [
            {
                **_counts(check.predicted),
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


def _counts(predicted: Prediction) -> dict[str, object]:
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


def show(bank_map: BankMap, console: Console) -> None:
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
