"""What ``ncu-swizzle banks`` shows: bank maps and pictures, on a terminal, as JSON, HTML or SVG."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import UnknownKernel, UsageError
from ncu_swizzle.files import write_atomically
from ncu_swizzle.model import own_kernels, own_tiles, terminal, tile_pictures
from ncu_swizzle.model.drawing import Drawn
from ncu_swizzle.model.subject import BanksQuery, Subject
from ncu_swizzle.render.terminal_tables import line
from ncu_swizzle.smem import access as accesses
from ncu_swizzle.smem import bankmap, code, fragments, mapping, pictures
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.texts import in_json
from ncu_swizzle.tiles import lookup

NONE = "none"


def show(
    query: BanksQuery, console: Console, html: Path | None = None, svg: Path | None = None, data: bool = False
) -> None:
    """Print the answer; write it as HTML or SVG if a file is named."""
    picture = PICTURES.get(query.what)
    if picture:
        if html or svg or data:
            raise UsageError(f"{query.what} is drawn on the terminal only", "omit --html, --svg and --json")
        picture(console)
        return
    if tile_pictures.is_tile(query.what):
        own_kernels.refuse_description(query.what, query.kernel)
        tile_pictures.show(query, console, html, svg, data)
        return
    subject = subject_of(query)
    maps, drawn = subject.maps(query.banks), Drawn(query.show, query.row, query.request)
    if html or svg:
        for path, render in ((html, drawn.html), (svg, drawn.svg)):
            if path:
                write_atomically(path, render(maps, subject.title or code.titled(subject.after)).encode())
    if data:
        sys.stdout.write(in_json(to_data(maps) if query.show == "map" else drawn.data(maps), indent=1))
    elif query.show == "map":
        _show_maps(subject, maps, console)
    else:
        _show_detail(query, subject, console)


def subject_of(query: BanksQuery) -> Subject:
    """Return the mapping and the access of the layout or kernel on the command line."""
    if own_kernels.is_layout(query.what):
        own_kernels.refuse_description(query.what, query.kernel)
        after = mapping.parse(query.what, query.element_bytes or 4, query.swizzle, query.pad)
        name = query.access or "row"
        access = None if name == NONE else accesses.parse(name, after.layout, after.element_bytes)
        return Subject(after.plain, after, access)
    if own_kernels.is_saved(query.what):
        return own_tiles.subject(query, own_kernels.observed(query.what, query.kernel, "banks"))
    try:
        targets = own_kernels.targets(query.what, query.kernel)
    except UnknownKernel as error:
        hint = f'a layout such as "(8,8):(1,8)", a kernel of ncu-swizzle list, or one of {", ".join(PICTURES)}'
        if query.what.replace("-", "_").isidentifier():
            raise UnknownKernel(str(error), hint) from error
        raise UsageError(f"{query.what!r} is not a layout, a kernel or a picture", hint) from error
    if own_kernels.is_declared(targets[-1]):
        return _declared(targets[-1], query.access)
    return own_tiles.subject(query, [own_kernels.emulated(target, query.kernel) for target in targets])


def _declared(target: Target, access: str | None) -> Subject:
    """Return the tile of a catalogue kernel, with its baseline's mapping as before, and the worst access to it.

    The first tile without an access if only TMA and wgmma access them; a tile that the baseline lacks is drawn alone.
    """
    name, baseline = target.name, target.kernel.baseline
    mine = lookup.tiles_of(target)
    others = lookup.tiles_of(collection.shipped().target(baseline)) if baseline else ()
    before = {tile.name: tile for tile in others}
    pairs = [(before.get(new.name, new), new, candidate) for new in mine for candidate in new.accesses]
    named = [pair for pair in pairs if access in (None, pair[2].name, pair[2].op)]
    if not named and (pairs or access not in (None, NONE)):
        names = ", ".join(repr(pair[2].name) for pair in pairs) or NONE
        raise UsageError(f"{name} has no access {access!r}", f"--access one of {names}")
    title = f"{baseline} → {name}" if baseline else name
    if not named:
        old, new = before.get(mine[0].name, mine[0]), mine[0]
        return Subject(old.mapping, new.mapping, None, f"{title}, {new.name}: by TMA and wgmma alone")
    old, new, candidate = max(named, key=lambda pair: _excess(pair[0].mapping, pair[2]))
    return Subject(old.mapping, new.mapping, replace(candidate, times=1), f"{title}, {new.name}: {candidate.name}")


def _excess(mapping: Mapping, access: Access) -> int:
    return access.total(access.wavefronts(mapping).excessive)


def _show_maps(subject: Subject, maps: Sequence[BankMap], console: Console) -> None:
    if subject.title:
        console.print(line(subject.title, style="bold"))
        console.print()
    for number, bank_map in enumerate(maps):
        if number:
            console.print()
        terminal.show(bank_map, console)
        terminal.facts(bank_map.mapping, console)


def _show_detail(query: BanksQuery, subject: Subject, console: Console) -> None:
    if query.show == "bits":
        bits = pictures.bits(subject.after, query.row)
        console.print(line(code.titled(subject.after), style="bold"))
        terminal.show_bits(bits, console)
    elif query.show == "places":
        before, after = pictures.places(subject.before), pictures.places(subject.after)
        console.print(line(f"{code.titled(subject.after)}: where each column lies in memory", style="bold"))
        terminal.show_places(before, after, console)
    elif subject.access is None:
        raise UsageError("--show phases needs an access", "--access row, column or ldmatrix")
    else:
        for variant, access in subject.pairs:
            if access:
                number, phases = bankmap.phases(access, variant, query.request)
                console.print(line(code.titled(variant), style="bold"))
                terminal.show_phases(access.op, number, phases, console)


def to_data(maps: Sequence[BankMap]) -> list[dict[str, object]]:
    """Return the maps as JSON-serializable data."""
    return [
        {
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


def _squares(console: Console) -> None:
    console.print("The column at each position: row XOR column. Each square is four copies of the")
    console.print("previous one; in the lower half they swap sides.\n")
    sizes = ((f"{len(square)}x{len(square)}", square) for square in pictures.xor_squares())
    terminal.show_squares(sizes, console)


def _sudoku(console: Console) -> None:
    console.print("The column at each position. Any square with each number once in every row and")
    console.print("every column works: no element is lost, and a column touches every bank.\n")
    terminal.show_squares(pictures.sudoku().items(), console)


PICTURES: dict[str, Callable[[Console], None]] = {
    "xor": _squares,
    "sudoku": _sudoku,
    "phases": terminal.show_widths,
    "m16n8k8": lambda console: terminal.show_fragments("m16n8k8", fragments.fragments(8), console),
    "m16n8k16": lambda console: terminal.show_fragments("m16n8k16", fragments.fragments(16), console),
}
