"""`lines` and `line`: what an editor shows beside a source: each line's wavefronts, each kernel's, and why."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import UnknownKernel, UsageError
from ncu_swizzle.explain import explained, own_kernels, predict
from ncu_swizzle.explain import explained as suggesting
from ncu_swizzle.explain.explained import SuggestAnswer
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.predict import EveryLaunchAnswer
from ncu_swizzle.explain.query import CODE, MAP, MAPPING, ExplainQuery, KernelQuery
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.verdict import WORST_FIRST, Check, Outcome
from ncu_swizzle.kernels import descriptions, project
from ncu_swizzle.kernels.family import PYTHON, SOURCE, Target, split_name
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription
from ncu_swizzle.reports import attribution
from ncu_swizzle.servers import answer
from ncu_swizzle.servers.answer import Answer, Call, Row
from ncu_swizzle.servers.folders import HEADERS, Caller, LaunchGiven, without_empty
from ncu_swizzle.smem import bankmap, code
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import Phase
from ncu_swizzle.smem.mapping import Mapping

# `explain` and `suggest`: why an access conflicts, and which mapping frees a tile of conflicts.

SHOWN = 4  # candidates
LANES = 8  # that are listed one by one


def suggest(
    caller: Caller,
    kernel: str,
    launch: LaunchGiven = LaunchGiven(),
    max_bytes: int | None = None,
    language: str = "cuda",
) -> Answer:
    """Answer the cheapest mappings for each tile that conflicts, with code to paste (`language`: cuda, cute, none)."""
    if language not in CODE:
        raise UsageError(f"unknown language {language!r}", f"one of {', '.join(CODE)}")
    arch = launch.arch.rstrip("af")
    query = ExplainQuery(
        what=kernel, show=MAPPING, max_bytes=max_bytes, arch=arch, kernel=_query(caller, kernel, launch)
    )
    answers = explained.explanation(query).mappings
    rows = [row for answer in answers for row in _suggestion(answer, language)]
    return Answer(summary=" ".join(map(_best, answers)), rows=tuple(rows), next=_fixing(caller, kernel, launch))


def explain(caller: Caller, kernel: str, access: str = "", launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer why one access conflicts: lanes, addresses and banks of its worst request, as it is and as suggested.

    `access` is a line, ``my.cu:12``, or an operation, ``ld.shared.b32``; by default the one with the most excess.
    """
    query = ExplainQuery(what=kernel, show=MAP, access=access, kernel=_query(caller, kernel, launch))
    if files := explained.named(query, unlaunched=True).unlaunched:
        return _in_every_launch(predict.in_every_launch(query, files))
    subject = explained.explanation(query).subject
    if subject is None or subject.access is None:
        raise UsageError(f"{kernel} has no access to explain", "lint lists the lines that access shared memory")
    return explanation(subject, Call("suggest", {"kernel": kernel, **caller.again(kernel, launch)}))


def _in_every_launch(answer: EveryLaunchAnswer) -> Answer:
    """Answer the degrees of a file's accesses in every launch: none is described."""
    rows = [
        {"kernel": kernel.kernel, "blocks": kernel.blocks, **asdict(row)}
        for kernel in answer.kernels
        for row in kernel.rows
    ]
    return Answer(summary=" ".join(answer.notes), rows=tuple(rows))


def explanation(subject: Subject, following: Call | None = None) -> Answer:
    """Answer why the access of a kernel conflicts under the first mapping, and how it is under the second."""
    rows = [row for pair in subject.pairs for row in _explained(*pair)]
    return Answer(summary=_why(subject), rows=tuple(rows), next=following)


def _fixing(caller: Caller, kernel: str, launch: LaunchGiven) -> Call | None:
    """Return the call that rewrites a kernel's source; None if it has none of the client's."""
    if caller.folders.is_path(kernel):
        suffix = split_name(kernel)[0].suffix
    else:
        catalog = descriptions.catalogue(CatalogOptions(caller.folders.config(Path.cwd())))
        named = ((family, variant) for family, variant in catalog if variant.name == kernel and not family.shipped)
        suffix = next((family.source(variant).suffix for family, variant in named), "")
    return Call("fix", {"file": kernel, **caller.again(kernel, launch)}) if suffix == SOURCE else None


def _query(caller: Caller, kernel: str, launch: LaunchGiven) -> KernelQuery:
    sources = caller.sources(kernel, launch)
    request, description = caller.request(launch, "emulated"), launch.description(sources)
    return KernelQuery(request=request, description=description, progress=caller.progress)


def _best(answer: SuggestAnswer) -> str:
    best = answer.suggestion.best
    if best is None:
        which = "is possible" if answer.suggestion.complete else "was found"
        return f"{answer.title}: no mapping without conflicts {which}."
    unsure = ", as far as its addresses are known" if answer.untried else ""
    return f"{answer.title}: use {code.spelled(best.mapping)}{unsure}."


def _suggestion(answer: SuggestAnswer, language: str) -> Iterator[Row]:
    plain, chosen = answer.suggestion.plain.mapping, answer.chosen.mapping
    for access in answer.accesses:
        before, after = access.wavefronts(plain), access.wavefronts(chosen)
        yield {
            "access": access.name,
            "instruction": access.op,
            "ideal": access.total(before.ideal),
            "wavefronts": access.total(before.actual) if before.known.all() else None,
            "suggested": access.total(after.actual) if after.known.all() else None,
        }
    for candidate in (answer.suggestion.clean or (answer.suggestion.closest,))[:SHOWN]:
        yield {
            "mapping": code.spelled(candidate.mapping),
            "excessive": candidate.excessive,
            "extra_bytes": candidate.extra_bytes,
            "operations": candidate.operations,
            "blocks_per_sm": candidate.blocks,
        }
    for name in (*answer.untried, *answer.suggestion.unjudged):
        yield {"not tried on": name}
    for title, text in suggesting.code_of(answer).items():
        if language in ("both", title.lower()):
            yield {title: text}


def _why(subject: Subject) -> str:
    counts = [access.wavefronts(mapping) for mapping, access in subject.pairs if access]
    actual, ideal = (int(part.sum()) for part in (counts[0].actual, counts[0].ideal))
    if not counts[0].known.all():
        return f"{subject.title}: no rule gives its wavefronts."
    change = f"; {code.spelled(subject.after)} makes it {int(counts[-1].actual.sum()):,}" if len(counts) > 1 else ""
    requests = len(counts[0].actual)
    return f"{subject.title}: {actual:,} wavefronts in {requests:,} requests where {ideal:,} would do{change}."


def _explained(mapping: Mapping, access: Access | None) -> Iterator[Row]:
    """Yield an access's worst request under a mapping: which lanes of its worst phase meet in the busiest bank."""
    if access is None:
        return
    number, phases = bankmap.phases(access, mapping, None)
    yield {"mapping": code.spelled(mapping), "instruction": access.op, "worst request": number, "phases": len(phases)}
    worst = max(phases, key=lambda phase: phase.ways)
    meeting = _meeting(worst)
    shown = meeting[:LANES]
    yield {
        "ways": worst.ways,
        "lanes in this phase": len(worst.lanes),
        "bank": worst.banks[meeting[0]] if meeting else None,
        "lanes there": [worst.lanes[place] for place in shown],
        "their elements (row, column)": [list(worst.cells[place]) for place in shown],
        **({"and more lanes": len(meeting) - LANES} if len(meeting) > LANES else {}),
    }


def _meeting(phase: Phase) -> list[int]:
    """Return the places in a phase of the lanes that share the most used bank."""
    if not phase.lanes:
        return []
    busiest, _ = Counter(phase.banks).most_common(1)[0]
    return [place for place, bank in enumerate(phase.banks) if bank == busiest]


KERNELS = "__global__"


def lines(caller: Caller, file: str) -> Answer:
    """Answer the counts of a source's lines and kernels: those declared, and those of launches captured beside it.

    A row has a `line`, from 1. Of a header, the kernels that include it are emulated.
    Raises what `gate.linting.lint` raises, and Untrusted. A file about which nothing is declared runs nothing.
    """
    source = Path(os.path.realpath(caller.folders.path(file)))
    config = caller.folders.config(source.parent)
    declared = _declared_kernels(caller, source, config)
    captured = [] if source.suffix == PYTHON else sorted(map(str, source.parent.glob(f"*{LAUNCHES}")))
    for path in captured:
        caller.folders.path(path)
    sources_of = {kernel.name: str(kernel.source) for kernel in declared}
    sources = dict.fromkeys(sources_of.values())
    read = {"read": _stamps(source, declared, config, captured), "declared": sources_of}
    if not sources and not captured:
        return replace(_nothing_declared(file, source), facts=read)
    description, request = KernelDescription(sources=CatalogOptions(config)), caller.request(LaunchGiven(), "emulated")
    kernels = list(linting.lint_kernels((*sources, *captured), description, request, on_progress=caller.progress))
    rows = [row for kernel in kernels for row in _rows(kernel, source)]
    notes = [{"note": note} for kernel in kernels for note in kernel.notes]
    failing = {row["line"] for row in rows if row.get("outcome") == Outcome.failed and "line" in row}
    emulated = sum(bool(kernel.launch) for kernel in kernels)
    summary = f"{file}: {emulated} kernels, {len(failing)} lines with conflicts"
    return Answer(summary=summary, rows=(*rows, *notes), facts=read)


def line(caller: Caller, file: str, number: int, kernel: str) -> Answer:
    """Answer why a line of a declared kernel conflicts: lanes, addresses and banks, as `explain` does."""
    source = Path(os.path.realpath(caller.folders.path(file)))
    declared = _declared_kernels(caller, source, caller.folders.config(source.parent))
    target = next((candidate for candidate in declared if candidate.name == kernel), None)
    if target is None:
        raise UnknownKernel(f"{file} declares no kernel {kernel!r}", "list_kernels with file lists those that it does")
    query = KernelQuery(request=caller.request(LaunchGiven(), "emulated"), progress=caller.progress)
    profile = own_kernels.emulate_launch(target, query)
    here = f"{source.name}:{number}"
    names = (access.name for tile in attribution.tiles(profile) for access in tile.accesses)
    name = next((name for name in names if name.endswith(here)), here)
    return explanation(own_kernels.subject(ExplainQuery(what=kernel, access=name), [profile]))


def _declared_kernels(caller: Caller, source: Path, config: str) -> list[Target]:
    """Return the kernels of a source whose launches are declared, or those that include a header. Raises Untrusted."""
    sources = CatalogOptions(config)
    if source.suffix in HEADERS:
        declared = [
            kernel
            for kernel in descriptions.catalogue(sources).targets()
            if not kernel.family.shipped and str(source) in map(os.path.realpath, kernel.family.included())
        ]
    else:
        declared = descriptions.targets_in(source, sources)
    for kernel in declared:
        caller.folders.target(kernel)
    return declared


def _stamps(source: Path, declared: Sequence[Target], config: str, captured: Sequence[str]) -> list[list[Any]]:
    """Return what an answer is made from, each with its time of modification and size.

    That includes descriptions that may yet appear, with zeros. An editor asks again once any of them changed.
    """
    beside = (source.parent / name for name in (project.OWN, project.PROJECT))
    read = {str(source), *map(str, beside), *captured, *([] if config == project.NONE else [config])}
    for kernel in declared:
        family = kernel.family
        read |= {str(kernel.source), *family.included()}
    return [list(answer.stamp(path)) for path in sorted(read)]


def _nothing_declared(file: str, source: Path) -> Answer:
    """Return the answer for a file without declared kernels; if it has kernels, how to declare their launches."""
    if source.suffix == PYTHON or KERNELS not in source.read_text("utf-8", "replace"):
        return Answer(summary=f"{file}: nothing to emulate")
    note = f"no launch of its kernels is declared: ncu-swizzle init {source.name} writes ncu-swizzle.toml"
    return Answer(summary=f"{file}: {note}", rows=({"undeclared": note},))


def _rows(kernel: KernelLint, source: Path) -> Iterator[Row]:
    """Yield a row per line of the source and access kind."""
    worst_last = sorted(kernel.checks, key=lambda check: -WORST_FIRST.index(check.outcome))
    checks = {(check.access, check.place.line): check for check in worst_last if check.place and check.access}
    shown = set()
    for counted in kernel.lines:
        if counted.place and _same(counted.place.file, source):
            key = counted.access, counted.place.line
            shown.add(key)
            counts = _counts(counted.unknown, counted.wavefronts, counted.ideal)
            yield _row(kernel, checks.get(key), counted.place.line, counted.access, counts)
    for check in kernel.checks:  # of global and local memory, branches, bounds, …
        if check.place and (check.access, check.place.line) not in shown and _same(check.place.file, source):
            yield _row(kernel, check, check.place.line, check.access, {})


def _row(kernel: KernelLint, check: Check | None, number: int, access: str, counts: dict[str, Any]) -> Row:
    fields = ("outcome", "code", "criterion", "message", "hint")
    # A suppressed finding is none in an editor; its counts are shown.
    judged = {name: getattr(check, name) for name in fields} if check and not check.suppressions else {}
    return without_empty({"kernel": kernel.name, "line": number, "access": access, **counts, **judged})


def _counts(unknown: bool, wavefronts: int, ideal: int) -> dict[str, Any]:
    return {"wavefronts": None, "ideal": None} if unknown else {"wavefronts": wavefronts, "ideal": ideal}


def _same(file: str, source: Path) -> bool:
    return Path(os.path.realpath(file)) == source
