"""The answers of ``ncu-swizzle explain``: the wavefronts, the bank map and the best mapping, each computed once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ncu_swizzle.base.errors import Hint, Typed, UnknownKernel, UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.cubin import elf
from ncu_swizzle.explain import banks, own_kernels, predict
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.predict import EveryLaunchAnswer, PredictAnswer
from ncu_swizzle.explain.query import MAP, MAPPING, WAVEFRONTS, ExplainQuery
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.naming import Named
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.render.listing import PlainTable, table_line
from ncu_swizzle.reports import attribution, remarks
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import COMPUTED
from ncu_swizzle.smem import code, mapping
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import Candidate, Constraints
from ncu_swizzle.smem.mapping import Mapping as Tile
from ncu_swizzle.smem.mapping import Places
from ncu_swizzle.smem.observed import ObservedTile
from ncu_swizzle.smem.suggestions import Suggestion, suggest, suggest_by_trial
from ncu_swizzle.smem.swizzle import Identity

# The mapping that ``ncu-swizzle explain`` finds for a user's tile or for the tiles of a catalogue kernel.

SHOWN = 5  # candidates in a table


@dataclass(frozen=True, kw_only=True)
class SuggestAnswer:
    """A tile, its accesses, the suggestion, and which access to drop if there is no solution."""

    title: str
    accesses: tuple[Access, ...]
    suggestion: Suggestion
    unit: int | None = None  # elements per unit of a catalogue kernel's layout policy
    row: int | None = None  # elements of a row of a kernel's array now; 0 if its rows are not known
    today: str = ""  # the mapping that the catalogue kernel uses now
    notes: tuple[str, ...] = ()  # what the counts cover, and what is unknown
    untried: tuple[str, ...] = ()  # accesses of the kernel whose addresses are unknown
    without: tuple[tuple[str, Candidate], ...] = ()

    @property
    def chosen(self) -> Candidate:
        return self.suggestion.best or self.suggestion.closest


def answers(query: ExplainQuery) -> tuple[SuggestAnswer, ...]:
    """Return the answer for a layout. Raises UsageError."""
    plain = mapping.parse(query.what, query.element_bytes or 4)
    named = own_kernels.accesses_of(plain, query.writes, query.reads, query.threads)
    suggestion = suggest(plain, named, query.limits)
    answer = SuggestAnswer(title=code.titled(plain), accesses=named, suggestion=suggestion)
    return (_answer(answer, query.limits),)


def of_kernels(query: ExplainQuery, kernels: Sequence[Target | Profile]) -> tuple[SuggestAnswer, ...]:
    """Return an answer for each tile of the kernels. Raises UsageError."""
    if query.writes or query.reads:
        raise UsageError(f"{query.what}'s accesses are already known", "omit --write and --read, or name a layout")
    return tuple(
        answer
        for kernel in kernels
        for answer in (_of_profile(query, kernel) if isinstance(kernel, Profile) else _of_declared(query, kernel))
    )


def _of_profile(query: ExplainQuery, profile: Profile) -> Iterator[SuggestAnswer]:
    """Yield an answer for each emulated tile with conflicts, tried on its requests; for all tiles if none has any.

    Tiles with one answer, such as the stages of a pipeline, are answered once.
    """
    limits = attribution.constraints(profile, query.limits)
    groups: dict[tuple[object, ...], list[tuple[ObservedTile, SuggestAnswer]]] = {}
    saved = [f"{saved}."] if (saved := remarks.saving(profile)) else []  # said once
    for tile in own_kernels.tiles_with_conflicts(profile, query.line):
        few = () if tile.complete else ("Judged by the most frequent requests only.",)
        answer = SuggestAnswer(
            title=f"{profile.kernel.name}, {tile.span}: {code.titled(tile.plain)}",
            accesses=tile.accesses,
            suggestion=tile.suggestion(limits),
            row=tile.plain.shape[1] if tile.known else 0,
            notes=(predict.PARTIAL, *few, *own_kernels.notes_if_unknown(profile), *([] if groups else saved)),
            untried=attribution.untried(profile),
        )
        names = tuple((access.name, access.op) for access in answer.accesses)
        gist = names, answer.chosen.mapping.transform, answer.suggestion.plain.mapping.layout
        groups.setdefault(gist, []).append((tile, answer))
    for (_, answer), *others in groups.values():
        same = tuple(f"The same holds for {other.span}." for other, _ in others)
        yield _answer(replace(answer, notes=(*same, *answer.notes)), limits, suggest_by_trial)


def _of_declared(query: ExplainQuery, target: Target) -> Iterator[SuggestAnswer]:
    tiles = [tile for tile in tiles_of(target) if tile.accesses]
    if not tiles:
        raise UsageError(
            f"only TMA and wgmma access the tiles of {target.name}: no lane's access needs a swizzle",
            f"ncu-swizzle explain {target.name} --show map draws their layout",
        )
    for tile in tiles:
        plain = tile.mapping.plain
        limits = replace(query.limits, copies=tile.copies)
        title = f"{target.name}, {tile.name}: {code.titled(plain)}"
        suggestion = suggest(plain, tile.accesses, limits)
        yield _answer(
            SuggestAnswer(
                title=title,
                accesses=tile.accesses,
                suggestion=suggestion,
                unit=tile.unit,
                today=code.spelled(tile.mapping),
            ),
            limits,
        )


Search = Callable[[Tile, Sequence[Access], Constraints], Suggestion]


def _answer(answer: SuggestAnswer, limits: Constraints, search: Search = suggest) -> SuggestAnswer:
    """Return the answer; if nothing is clean, with each single access whose removal makes it solvable."""
    if answer.suggestion.best or len(answer.accesses) < 2:
        return answer
    alternatives = []
    for number, left_out in enumerate(answer.accesses):
        rest = [*answer.accesses[:number], *answer.accesses[number + 1 :]]
        best = search(answer.suggestion.plain.mapping, rest, limits).best
        if best:
            alternatives.append((left_out.name, best))
    return replace(answer, without=tuple(alternatives))


def show_mappings(answers: Sequence[SuggestAnswer], console: Console, source: str = "both") -> None:
    """Print the answers with code to paste (`source`: CUDA, CuTe, both or none)."""
    for answer in answers:
        _show(answer, console)
        for title, text in code_of(answer).items():
            if source in ("both", title.lower()):
                console.print()
                console.print(table_line(title, style="bold"))
                console.print(Text(text.rstrip()), soft_wrap=True)


def code_of(answer: SuggestAnswer) -> dict[str, str]:
    """Return the code of the chosen mapping, by language; CuTe is missing if it cannot express the mapping.

    Empty if nothing has to move, or if the code does not achieve what is claimed over all accesses.
    """
    chosen, unit, flat = answer.chosen.mapping, answer.unit, answer.row == 0
    if isinstance(chosen.transform, Identity) and not answer.chosen.was and answer.row is not None:
        return {}
    if unit is not None:
        cuda = code.policy(chosen, unit)
    else:
        cuda = code.cuda(chosen, flat=flat, now=answer.row or 0)
        if code.contradiction(cuda, chosen, answer.accesses):
            return {}
    cute = code.cute(chosen, flat=flat)
    return {"CUDA": cuda, **({"CuTe": cute} if cute else {})}


def _show(answer: SuggestAnswer, console: Console) -> None:
    suggestion = answer.suggestion
    console.print(table_line(answer.title, style="bold"))
    console.print(_accesses(answer))
    console.print()
    if suggestion.best is None:
        what = f"None of {suggestion.tried}" if suggestion.complete else f"Nothing found among {suggestion.tried}"
        console.print(table_line(f"{what} makes all of these accesses conflict-free.", style="bold"))
        if suggestion.apart is not None:
            wide = f"With accesses of {suggestion.narrow} bytes instead of wider ones"
            console.print(table_line(f"{wide}, use {suggestion.apart.spelled}.", style="bold"))
    elif suggestion.best.mapping == suggestion.plain.mapping and suggestion.fixed:
        console.print(table_line("No layout of the tile takes fewer wavefronts.", style="bold"))
    else:
        caveat = ", as far as the addresses are known" if answer.untried else ""
        console.print(table_line(f"Use {suggestion.best.spelled}{caveat}.", style="bold"))
    for name, why in suggestion.fixed:
        console.print(table_line(f"{name}: {why}."))
    if answer.today:
        console.print(table_line(f"The kernel currently uses {answer.today}."))
    console.print(_candidates(suggestion.clean or (suggestion.closest,)))
    if len(suggestion.clean) > SHOWN:
        console.print(table_line(f"{len(suggestion.clean) - SHOWN} more are clean; --json lists them.", style="dim"))
    for note in (*suggestion.notes, *answer.notes):
        console.print(table_line(note, style="dim"))
    if answer.untried:
        names = ", ".join(answer.untried)
        console.print(table_line(f"Not tried on {names}: unknown addresses.", style="bold"))
    if suggestion.unjudged:
        names = ", ".join(suggestion.unjudged)
        console.print(table_line(f"Not evaluated: {names}. No rule gives these wavefronts.", style="bold"))
    for name, best in answer.without:
        console.print(table_line(f"Without {name}, this works: {best.spelled}."))


def _accesses(answer: SuggestAnswer) -> PlainTable:
    table = banks.columns("access", "instruction")
    for title in ("ideal", "plain", answer.chosen.name):
        table.add_column(title, justify="right", overflow="fold")
    plain, chosen = answer.suggestion.plain.mapping, answer.chosen.mapping
    for access in answer.accesses:
        before, after = access.wavefronts(plain), access.wavefronts(chosen)
        counts = [access.total(count) for count in (before.ideal, before.actual, after.actual)]
        known = [True, before.known.all(), after.known.all()]
        cells = [f"{n:,}" if sure else "unknown" for n, sure in zip(counts, known, strict=True)]
        marks = ["", *("*" if n > counts[0] and sure else " " for n, sure in zip(counts[1:], known[1:], strict=True))]
        table.add_row(
            f"{'write' if access.writes else 'read'} {access.name}",
            access.op,
            *(cell + mark for cell, mark in zip(cells, marks, strict=True)),
        )
    return table


def _candidates(candidates: Sequence[Candidate]) -> PlainTable:
    table = banks.columns("mapping", right=("bytes", "ops", "align", "TMA", "blocks/SM", "excessive"))
    for candidate in candidates[:SHOWN]:
        also = f" = {', '.join(candidate.also)}" if candidate.also else ""
        table.add_row(
            table_line(f"{candidate.name}{also}"),
            f"{candidate.extra_bytes:+,}",
            str(candidate.operations),
            f"{candidate.alignment:,}",
            candidate.tma or "-",
            str(candidate.blocks),
            f"{candidate.excessive:,}",
        )
    return table


def to_data(answer: SuggestAnswer) -> dict[str, object]:
    """Return an answer as JSON-serializable data."""
    suggestion = answer.suggestion
    return {
        "provenance": COMPUTED,
        "title": answer.title,
        "possible": suggestion.best is not None,
        "accesses": [{"name": a.name, "op": a.op, "writes": a.writes} for a in answer.accesses],
        "plain": _candidate(suggestion.plain),
        "clean": [_candidate(candidate) for candidate in suggestion.clean],
        "closest": _candidate(suggestion.closest),
        "notes": [*suggestion.notes, *answer.notes],
        "unjudged": list(suggestion.unjudged),
        "untried": list(answer.untried),
        "complete": suggestion.complete,
        "apart": _candidate(suggestion.apart) if suggestion.apart else None,
        "narrow": suggestion.narrow,
        "without": {name: best.name for name, best in answer.without},
        "fixed": dict(suggestion.fixed),
        "tried": str(suggestion.tried),
        "code": code_of(answer),
    }


def _candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "mapping": candidate.name,
        "spelled": candidate.spelled,
        "element_bytes": candidate.mapping.element_bytes,
        "also": list(candidate.also),
        "wavefronts": candidate.actual,
        "ideal": candidate.ideal,
        "extra_bytes": candidate.extra_bytes,
        "operations": candidate.operations,
        "alignment": candidate.alignment,
        "tma": candidate.tma,
        "blocks_per_sm": candidate.blocks,
    }


Drawings = Sequence[tuple[str, Places]]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The parts of an answer; which are present depends on what is explained, and on what was requested."""

    wavefronts: tuple[PredictAnswer, ...] = ()
    subject: Subject | None = None  # what is drawn
    mappings: tuple[SuggestAnswer, ...] = ()
    tiles: Drawings = ()  # what TMA writes and wgmma reads
    every_launch: EveryLaunchAnswer | None = None  # for kernels without a described launch
    notes: tuple[str, ...] = ()  # parts that cannot be given, and why


def explanation(query: ExplainQuery) -> Explanation:
    """Return the answer. Raises UsageError, UnknownKernel, BadFile, and what emulating a kernel raises."""
    is_tile, is_expression = banks.is_tile(query.what), bool(query.op) and ":" not in query.what
    if not (is_tile or is_expression or (not query.line and own_kernels.is_layout(query.what))):
        word = named(query, unlaunched=not query.show)
        if word.unlaunched:
            return Explanation(every_launch=predict.in_every_launch(query, word.unlaunched))
        return _of_kernels(query, own_kernels.examined(query, word))
    query.kernel.description.refuse_beside(query.what)
    if is_tile:
        return Explanation(tiles=banks.tile_pictures(query))
    if is_expression:
        if query.show not in ("", WAVEFRONTS):
            raise UsageError(f"{query.what} is not a layout: there is no {query.show} of it", "--show wavefronts")
        return Explanation(wavefronts=predict.answers(query))
    return _of_layout(query)


def named(query: ExplainQuery, unlaunched: bool) -> Named:
    """Return what a text names, as `own_kernels.named` does; if that is nothing, the error says what a text can be."""
    try:
        return own_kernels.named(query, unlaunched)
    except UnknownKernel as error:
        hint = Hint(
            'a layout such as "(8,8):(1,8)", a kernel of ',
            Typed("ncu-swizzle list"),
            f", a file, {', '.join(banks.PICTURES)}, or an expression in tid with --op ld.shared.b32",
        )
        if elf.is_built(Path(query.what)):
            judged = Hint(Typed(f"ncu-swizzle lint {shlex.quote(query.what)}"), naming.JUDGES)
            raise UsageError(f"{query.what} is built: none of its launches is known", judged) from error
        if query.what.replace("-", "_").isidentifier() and "tid" not in query.what:
            raise UnknownKernel(str(error), hint) from error
        raise UsageError(f"{query.what!r} is not a layout, a kernel or a picture", hint) from error


def _of_layout(query: ExplainQuery) -> Explanation:
    """Return the map of a layout; with accesses, also their wavefronts and the best mapping."""
    if query.show == WAVEFRONTS:
        return Explanation(wavefronts=predict.answers(query))
    if query.show == MAPPING:
        return Explanation(mappings=answers(query))
    subject = banks.of_layout(query)
    if query.show or not (query.reads or query.writes):
        return Explanation(subject=subject)
    return Explanation(wavefronts=predict.answers(query), subject=subject, mappings=answers(query))


def _of_kernels(query: ExplainQuery, examined: Sequence[Target | Profile]) -> Explanation:
    """Return the requested parts; if all were requested, those available, with reasons for the others."""
    if query.show == WAVEFRONTS:
        return Explanation(wavefronts=predict.of_kernels(query, examined))
    if query.show == MAPPING:
        return Explanation(mappings=of_kernels(query, examined))
    if query.show:
        return Explanation(subject=banks.of_kernels(query, examined))
    answer = Explanation(wavefronts=predict.of_kernels(query, examined))
    parts: dict[str, Callable[[], Explanation]] = {
        MAP: lambda: replace(answer, subject=banks.of_kernels(query, examined)),
        MAPPING: lambda: replace(answer, mappings=of_kernels(query, examined)),
    }
    for name, answer_part in parts.items():
        try:
            answer = answer_part()
        except UsageError as error:
            if not any(result.predictions for result in answer.wavefronts):
                raise
            answer = replace(answer, notes=(*answer.notes, f"No {name}: {error}."))
    return answer


def to_json(query: ExplainQuery, answer: Explanation) -> str:
    """Return the parts as one JSON object, under the names that ``--show`` has for them."""
    content: dict[str, object] = {}
    if answer.wavefronts:
        content[WAVEFRONTS] = [banks.prediction_data(result) for result in answer.wavefronts]
    if answer.subject:
        content[query.show or MAP] = banks.data(query, answer.subject.maps(query.banks))
    if answer.tiles:
        content["tiles"] = [
            {"title": title, "rows": places.rows.tolist(), "chunks": places.columns.tolist()}
            for title, places in answer.tiles
        ]
    if answer.mappings:
        content[MAPPING] = [to_data(result) for result in answer.mappings]
    if answer.every_launch:
        content["every_launch"] = asdict(answer.every_launch)
    return in_json({**content, "notes": list(answer.notes)}, indent=1)


def drawing(query: ExplainQuery, answer: Explanation, *, svg: bool) -> str:
    """Return the drawing as one HTML document, or one SVG. Raises UsageError if there is none."""
    if answer.tiles:
        from ncu_swizzle.render import banks as boards
        from ncu_swizzle.render import page

        board = boards.board([places for _, places in answer.tiles], [title for title, _ in answer.tiles])
        return page.render_board_svg(board, query.what) if svg else page.render_board(board, query.what)
    if answer.subject is None:
        raise UsageError("--html and --svg write what is drawn", "--show map")
    return banks.drawing_of(query, answer.subject.maps(query.banks), answer.subject.name, svg=svg)


def show(query: ExplainQuery, answer: Explanation, console: Console) -> None:
    """Print the parts in order. If there are several, only the first map is printed unless a mapping was typed."""
    several = bool(answer.wavefronts and answer.subject)
    if answer.every_launch:
        banks.show_every_launch(answer.every_launch, console)
    if answer.wavefronts:
        banks.show_prediction(answer.wavefronts, console)
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
        show_mappings(answer.mappings, console, "none" if several else query.code)
    for note in answer.notes:
        console.print(table_line(note))
    if several and any(row.suggestion.plain.excessive for row in answer.mappings):
        console.print()
        console.print(table_line("--show mapping prints its code, --show map draws it.", style="dim"))
