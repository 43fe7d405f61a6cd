"""What ``ncu-swizzle explain`` answers: the wavefronts, the bank map and the mapping that suits, each once computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from ncu_swizzle.base.errors import Hint, Typed, UnknownKernel, UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.explain import banks, own_kernels, predict, shown, suggest
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.predict import PredictAnswer
from ncu_swizzle.explain.query import MAP, MAPPING, WAVEFRONTS, ExplainQuery
from ncu_swizzle.explain.suggest import SuggestAnswer
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.render.listing import table_line
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.mapping import Places

Drawings = Sequence[tuple[str, Places]]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The parts of an answer; which of them there are depends on what is explained, and on what is asked for."""

    wavefronts: tuple[PredictAnswer, ...] = ()
    subject: Subject | None = None  # what is drawn
    mappings: tuple[SuggestAnswer, ...] = ()
    tiles: Drawings = ()  # what TMA writes and wgmma reads
    notes: tuple[str, ...] = ()  # parts that cannot be given, and why


def explanation(query: ExplainQuery) -> Explanation:
    """Return the answer. Raises UsageError, UnknownKernel, BadFile, and what emulating a kernel raises."""
    is_tile, is_requests = banks.is_tile(query.what), _is_requests(query)
    if not (is_tile or is_requests or (not query.line and own_kernels.is_layout(query.what))):
        return _of_kernels(query, kernels(query))
    own_kernels.refuse_description(query.what, query.kernel)  # it describes kernels alone
    if is_tile:
        return Explanation(tiles=banks.tile_pictures(query))
    if is_requests:
        if query.show not in ("", WAVEFRONTS):
            raise UsageError(f"{query.what} is not a layout: there is no {query.show} of it", "--show wavefronts")
        return Explanation(wavefronts=predict.answers(query))
    return _of_layout(query)


def _is_requests(query: ExplainQuery) -> bool:
    """Return whether lanes' addresses are given: by a file, or by an expression with its instruction."""
    return query.what.endswith(predict.REQUESTS) or (bool(query.op) and ":" not in query.what)


def kernels(query: ExplainQuery) -> tuple[Target | Profile, ...]:
    """Return what a text stands for, as `own_kernels.examined` does; raise for a text that is nothing at all."""
    try:
        return own_kernels.examined(query)
    except UnknownKernel as error:
        hint = Hint(
            'a layout such as "(8,8):(1,8)", a kernel of ',
            Typed("ncu-swizzle list"),
            f", a file, {', '.join(banks.PICTURES)}, or an expression in tid with --op ld.shared.b32",
        )
        if query.what.replace("-", "_").isidentifier() and "tid" not in query.what:
            raise UnknownKernel(str(error), hint) from error
        raise UsageError(f"{query.what!r} is not a layout, a kernel or a picture", hint) from error


def _of_layout(query: ExplainQuery) -> Explanation:
    """Return the map of a layout; with accesses, their wavefronts and the mapping that suits them, too."""
    if query.show == WAVEFRONTS:
        return Explanation(wavefronts=predict.answers(query))
    if query.show == MAPPING:
        return Explanation(mappings=suggest.answers(query))
    subject = banks.of_layout(query)
    if query.show or not (query.reads or query.writes):
        return Explanation(subject=subject)
    return Explanation(wavefronts=predict.answers(query), subject=subject, mappings=suggest.answers(query))


def _of_kernels(query: ExplainQuery, examined: Sequence[Target | Profile]) -> Explanation:
    """Return the parts that are asked for; of all of them, those that there are, with the reasons for others."""
    if query.show == WAVEFRONTS:
        return Explanation(wavefronts=predict.of_kernels(query, examined))
    if query.show == MAPPING:
        return Explanation(mappings=suggest.of_kernels(query, examined))
    if query.show:
        return Explanation(subject=banks.of_kernels(query, examined))
    answer = Explanation(wavefronts=predict.of_kernels(query, examined))
    parts: dict[str, Callable[[], Explanation]] = {
        MAP: lambda: replace(answer, subject=banks.of_kernels(query, examined)),
        MAPPING: lambda: replace(answer, mappings=suggest.of_kernels(query, examined)),
    }
    for name, part in parts.items():
        try:
            answer = part()
        except UsageError as error:
            if not any(result.predictions for result in answer.wavefronts):
                raise
            answer = replace(answer, notes=(*answer.notes, f"No {name}: {error}."))
    return answer


def to_json(query: ExplainQuery, answer: Explanation) -> str:
    """Return the parts as one JSON object, under the names that ``--show`` has for them."""
    content: dict[str, object] = {}
    if answer.wavefronts:
        content[WAVEFRONTS] = [shown.to_data(result) for result in answer.wavefronts]
    if answer.subject:
        content[query.show or MAP] = banks.data(query, answer.subject.maps(query.banks))
    if answer.tiles:
        content["tiles"] = [
            {"title": title, "rows": places.rows.tolist(), "chunks": places.columns.tolist()}
            for title, places in answer.tiles
        ]
    if answer.mappings:
        content[MAPPING] = [suggest.to_data(result) for result in answer.mappings]
    return in_json({**content, "notes": list(answer.notes)}, indent=1)


def drawing(query: ExplainQuery, answer: Explanation, *, svg: bool) -> str:
    """Return what is drawn as one HTML document, or one SVG. Raises UsageError if nothing is."""
    if answer.tiles:
        from ncu_swizzle.render import banks as boards
        from ncu_swizzle.render import page

        board = boards.board([places for _, places in answer.tiles], [title for title, _ in answer.tiles])
        return page.render_board_svg(board, query.what) if svg else page.render_board(board, query.what)
    if answer.subject is None:
        raise UsageError("--html and --svg write what is drawn", "--show map")
    return banks.drawn(query, answer.subject.maps(query.banks), answer.subject.name, svg=svg)


def show(query: ExplainQuery, answer: Explanation, console: Console) -> None:
    """Print the parts one after the other. Of several, the map is the first one alone unless a mapping was typed."""
    several = bool(answer.wavefronts and answer.subject)
    if answer.wavefronts:
        shown.show_prediction(answer.wavefronts, console)
    if answer.subject:
        if several:
            console.print()
        typed = bool(query.swizzle or query.pad)
        banks.show(query, answer.subject, console, first=several and not typed)
    if answer.tiles:
        banks.show_tile_pictures(answer.tiles, console)
    if answer.mappings:
        if several:
            console.print()
        suggest.show(answer.mappings, console, "none" if several else query.code)
    for note in answer.notes:
        console.print(table_line(note))
    if several and any(row.suggestion.plain.excessive for row in answer.mappings):
        console.print()
        console.print(table_line("--show mapping prints its code, --show map draws it.", style="dim"))
