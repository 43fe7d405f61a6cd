"""`explain` and `suggest`: why an access conflicts, and which mapping frees a tile of conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.catalog import kernel_files, user_kernels
from ncu_swizzle.catalog.family import SOURCE
from ncu_swizzle.errors import UsageError
from ncu_swizzle.model import suggest as suggesting
from ncu_swizzle.model.banks import subject_of
from ncu_swizzle.model.own_kernels import KernelQuery
from ncu_swizzle.model.subject import BanksQuery, Subject
from ncu_swizzle.model.suggest import SuggestAnswer, SuggestQuery
from ncu_swizzle.service.answer import Answer, Call, Row
from ncu_swizzle.service.caller import Caller
from ncu_swizzle.service.launch import LaunchGiven
from ncu_swizzle.smem import bankmap, code
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import Phase
from ncu_swizzle.smem.judge import Candidate, Constraints
from ncu_swizzle.smem.mapping import Mapping

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
    if language not in suggesting.CODE:
        raise UsageError(f"unknown language {language!r}", f"one of {', '.join(suggesting.CODE)}")
    limits = Constraints(max_bytes, arch=launch.arch.rstrip("af") or Constraints.arch)
    query = SuggestQuery(kernel, constraints=limits, kernel=_query(caller, kernel, launch))
    answers = list(suggesting.answers(query))
    rows = [row for answer in answers for row in _suggestion(answer, language)]
    return Answer(" ".join(map(_best, answers)), tuple(rows), _fixing(caller, kernel, launch))


def explain(caller: Caller, kernel: str, access: str = "", launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer why one access conflicts: lanes, addresses and banks of its worst request, as it is and as suggested.

    `access` is a line, ``my.cu:12``, or an operation, ``ld.shared.b32``; by default the one with the most excess.
    """
    query = BanksQuery(kernel, access=access or None, kernel=_query(caller, kernel, launch))
    subject = subject_of(query)
    if subject.access is None:
        raise UsageError(f"{kernel} has no access to explain", "lint lists the lines that access shared memory")
    return explanation(subject, Call("suggest", {"kernel": kernel, **caller.again(kernel, launch)}))


def explanation(subject: Subject, following: Call | None = None) -> Answer:
    """Answer why the access of a kernel conflicts under the first mapping, and how it is under the second."""
    rows = [row for pair in subject.pairs for row in _explained(*pair)]
    return Answer(_why(subject), tuple(rows), following)


def _fixing(caller: Caller, kernel: str, launch: LaunchGiven) -> Call | None:
    """Return the call that rewrites a kernel's source; None if it has none of the client's."""
    source = kernel_files.split(kernel)[0].suffix if caller.folders.is_path(kernel) else _suffix(caller, kernel)
    return Call("fix", {"file": kernel, **caller.again(kernel, launch)}) if source == SOURCE else None


def _suffix(caller: Caller, name: str) -> str:
    catalog = user_kernels.everything((), caller.folders.config(Path.cwd()))
    own = (family.source(kernel) for family, kernel in catalog if kernel.name == name and not family.shipped)
    return next((source.suffix for source in own), "")


def _query(caller: Caller, kernel: str, launch: LaunchGiven) -> KernelQuery:
    sources = caller.sources(kernel, launch)
    return KernelQuery(caller.request(launch, "emulated"), launch.described(), sources, caller.progress)


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
    yield from (_candidate(each) for each in (answer.suggestion.clean or (answer.suggestion.closest,))[:SHOWN])
    for name in (*answer.untried, *answer.suggestion.unjudged):
        yield {"not tried on": name}
    for title, text in suggesting.code_of(answer).items():
        if language in ("both", title.lower()):
            yield {title: text}


def _candidate(candidate: Candidate) -> Row:
    return {
        "mapping": code.spelled(candidate.mapping),
        "excessive": candidate.excessive,
        "extra_bytes": candidate.extra_bytes,
        "operations": candidate.operations,
        "blocks_per_sm": candidate.blocks,
    }


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
