"""The calls of agents and editors: `lint`, `check`, `judge`, `fix`, `profile`, …, and what an editor shows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import UnknownKernel, UsageError
from ncu_swizzle.commands import api
from ncu_swizzle.commands import prove as proving
from ncu_swizzle.commands.answers import Comparison
from ncu_swizzle.explain import explained, own_kernels, predict
from ncu_swizzle.explain import explained as suggesting
from ncu_swizzle.explain.explained import SuggestAnswer
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.explain.predict import EveryLaunchAnswer
from ncu_swizzle.explain.query import CODE, MAP, MAPPING, ExplainQuery, KernelQuery
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all, written_together
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.judge import line_accesses
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.verdict import MAX_DEGREE, WORST_FIRST, Check, Outcome, Verdict, files_in
from ncu_swizzle.kernels import naming, project
from ncu_swizzle.kernels.family import PYTHON, SOURCE, Target, split_name
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription
from ncu_swizzle.render.summary import gains, interval, plain
from ncu_swizzle.reports import attribution, memory
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import LintOptions
from ncu_swizzle.servers import answer
from ncu_swizzle.servers.answer import HEADERS, Answer, Call, Caller, LaunchGiven, Row, without_empty
from ncu_swizzle.servers.answer import shown as shown_path
from ncu_swizzle.smem import bankmap, code
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import Phase
from ncu_swizzle.smem.mapping import Mapping

# `lint` and `check`: which lines conflict, and whether profiles keep their limits.


def lint(
    caller: Caller,
    files: Sequence[str],
    launch: LaunchGiven = LaunchGiven(),
    max_degree: float | None = None,
    max_sectors: float | None = None,
) -> Answer:
    """Answer which lines of sources conflict; every kernel is compiled and emulated, nothing runs on a GPU.

    Raises what `gate.linting.lint_kernels` raises, and Untrusted.
    """
    files = list(dict.fromkeys(files))
    degrees, sectors = (() if limit is None else (f"{limit:g}",) for limit in (max_degree, max_sectors))
    options = LintOptions(max_degree=degrees, max_sectors=sectors)
    description = launch.description(caller.entries(files, launch))
    found = linting.kernels_in(files, description)
    targets = [kernel for kernel in found if isinstance(kernel, Target)]
    for target in targets:
        caller.folders.target(target)
    for file in found:
        if isinstance(file, naming.Unlaunched):
            caller.folders.source(file.file)
    request = caller.request(launch, "emulated")
    kernels = list(linting.lint_kernels(files, description, request, options, caller.progress))
    verdict = linting.verdict_of(kernels)
    following = _fixing(caller, verdict, files, launch, targets)
    if following is None and launch.sample is None and any(kernel.sampling for kernel in kernels):
        sampled = {**launch.as_json(), "sample": 1}
        following = Call("lint", {"files": list(files), "launch": sampled}, "takes random data")
    return _judged_answer(verdict, following)


def check(caller: Caller, entries: Sequence[str], launch: LaunchGiven = LaunchGiven(), **limits: Any) -> Answer:
    """Answer whether profiles or kernels keep their limits: the gate of CI."""
    config = caller.entries(entries, launch).config
    if limits.get("baseline"):
        caller.folders.path(limits["baseline"])
    limits_given = {name: value for name, value in limits.items() if value is not None}
    verdict = api.check(*entries, raising=False, config=config, **caller.keywords(launch), **limits_given)
    failing = {check.kernel for check in verdict.checks if check.failed}
    worst = next((e for e in entries if not own_kernels.is_saved(e) and (e in failing or len(entries) == 1)), "")
    following = Call("explain", {"kernel": worst, **caller.again(worst, launch)})
    return _judged_answer(verdict, following if worst and failing else None)


def judge(caller: Caller, before: str, after: str, launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer whether a changed kernel does the work of the one before; both are executed, not on a GPU."""
    words = [before, after]
    description = launch.description(caller.entries(words, launch))
    for named in naming.resolve(words, description):
        caller.folders.target(named.targets[-1])
    judgement = proving.judged(words, description, caller.request(launch, "emulated"))
    facts = {key: value for key, value in judgement.to_json().items() if key != "cases"}
    summary = f"{judgement.after}: {judgement.outcome}" + "".join(f", {reason}" for reason in judgement.reasons)
    return Answer(summary=summary, rows=tuple(judgement.to_json()["cases"]), facts=facts)


def _judged_answer(verdict: Verdict, following: Call | None) -> Answer:
    rows = [
        without_empty(
            {
                "outcome": check.state,
                "code": check.code if check.outcome is not Outcome.passed else "",
                "kernel": check.kernel,
                "access": check.access,
                "place": str(check.place) if check.place else "",
                "criterion": check.criterion,
                "message": check.message,
                **({"actual": check.actual, "limit": check.limit} if check.actual is not None else {}),
            }
        )
        for check in verdict.checks
    ]
    notes = [{"note": note} for note in verdict.notes]
    summary, facts = f"{verdict.outcome}: {verdict.summary}", {"outcome": verdict.outcome}
    return Answer(summary=summary, rows=(*rows, *notes), next=following, facts=facts)


def _fixing(
    caller: Caller, verdict: Verdict, files: Sequence[str], launch: LaunchGiven, targets: Sequence[Target]
) -> Call | None:
    """Return the call that frees the first kernel that fails, or explains it if it has no source to be fixed."""
    failed = next((judged for judged in verdict.checks if judged.failed and judged.criterion == MAX_DEGREE), None)
    chosen = next((target for target in targets if failed and target.name == failed.kernel), None)
    if chosen is None:  # nothing fails, or a captured launch does
        return None
    family, kernel = chosen.family, chosen.kernel
    source = os.path.realpath(chosen.source)
    file = next((file for file in files if os.path.realpath(split_name(file)[0]) == source), "")
    named = file or (kernel.name if kernel.name in files or family.shipped else shown_path(source))
    if source.endswith(SOURCE) and not family.shipped:
        return Call("fix", {"file": named, **caller.again(named, launch)})
    return Call("explain", {"kernel": named, **caller.again(named, launch, kernel.entry)})


# `fix` and `rewrite`: a source without its conflicts, proved to mean the same, as a patch or as whole texts.


def fix(
    caller: Caller,
    file: str,
    launch: LaunchGiven = LaunchGiven(),
    only: str = "",
    max_shared: int | None = None,
    write: bool = False,
) -> Answer:
    """Answer the patch for a source, and each claim of its proof; with `write`, change the source if all is proved."""
    if only not in ("", *MappingKind):
        raise UsageError(f"unknown kind {only!r}", f"one of {', '.join(MappingKind)}")
    fixed = _fixed(caller, file, launch, FixOptions(MappingKind(only) if only else None, max_shared), write)
    written = write and fixed.changed
    if written:
        for changed in fixed.files:
            caller.folders.path(changed.path)
        written_together(fixed.files, "fix it again")
    rows = [row for kernel in fixed.kernels for row in _kernel(kernel)]
    rows += [{"patch": shown.patch_of(fixed)}] if fixed.changed else []
    rows += [{"not proved": shown.patch_of(fixed, proved=False)}] if fixed.unproved_files else []
    again, following = caller.again(file, launch), None
    if written:
        following = Call("lint", {"files": [file], **again})
    elif fixed.changed:
        options = (("only", only), ("max_shared", max_shared))
        limits = {name: value for name, value in options if value not in ("", None)}
        following = Call("fix", {"file": file, **again, **limits, "write": True})
    elif refused := next((kernel.kernel for kernel in fixed.kernels if not kernel.clean), ""):
        # Code to apply by hand, for the first kernel that was refused.
        several = refused if len(fixed.kernels) > 1 else ""
        following = Call("suggest", {"kernel": file, **caller.again(file, launch, several)})
    facts = {"outcome": fixed.outcome, "written": written}
    return Answer(summary=_summary(fixed), rows=tuple(rows), next=following, facts=facts)


def rewrite(caller: Caller, file: str) -> Answer:
    """Answer the full texts of the files that `fix` would change, a row each; none without a fix."""
    fixed = _fixed(caller, file, LaunchGiven(), FixOptions())
    rows = ({"file": str(changed.path), "text": changed.after.decode("utf-8", "replace")} for changed in fixed.files)
    return Answer(summary=_summary(fixed), rows=tuple(rows))


def _fixed(caller: Caller, file: str, launch: LaunchGiven, options: FixOptions, write: bool = False) -> SourceFix:
    description = launch.description(caller.sources(file, launch))
    for target in naming.resolve([file], description, every=True)[0].targets:
        caller.folders.target(target)
        if write:  # the package's own kernels may be read from anywhere
            caller.folders.path(target.source)
    return fix_all(
        file,
        FixQuery(
            request=caller.request(launch, "emulated"),
            description=description,
            options=options,
            progress=caller.progress,
            within=caller.folders.holds,
        ),
    )


def _summary(fixed: SourceFix) -> str:
    proved = sum(tile.proved for kernel in fixed.kernels for tile in kernel.tiles)
    tiles = sum(len(kernel.tiles) for kernel in fixed.kernels)
    if fixed.outcome == "clean":
        return f"{fixed.source.name}: no shared array conflicts."
    return f"{fixed.source.name}: {proved} of {tiles} shared arrays that conflict are fixed, with proof."


def _kernel(kernel: KernelFix) -> Iterator[Row]:
    for tile in kernel.tiles:
        there = f" ({tile.reason_file or kernel.source.name}:{tile.reason_line})"
        yield without_empty(
            {
                "kernel": kernel.kernel,
                "array": tile.name,
                "file": tile.file,
                "line": tile.line,
                "proved": tile.proved,
                "mapping": tile.mapping,
                "excessive": tile.excess_before,
                "excessive after": tile.excess_after,
                "extra_bytes": tile.extra_bytes,
                "in the way": f"{tile.reason}{there}" if tile.reason else "",
            }
        )
    for claim in kernel.proof.claims if kernel.proof else ():
        place = f"{claim.line[0]}:{claim.line[1]}" if claim.line else ""
        row = {"claim": str(claim.about), "state": str(claim.state), "reason": claim.reason, "line": place}
        yield without_empty({"kernel": kernel.kernel, **row})
    yield from ({"kernel": kernel.kernel, "note": note} for note in kernel.notes)


# `profile`, `compare` and `read_report`: counts of kernels, side by side.

LINES = 12  # those with the most excess


def profile(caller: Caller, kernel: str, launch: LaunchGiven = LaunchGiven(), engine: str = "auto") -> Answer:
    """Answer a kernel's counts next to its baseline's, and which engine they are from."""
    config = caller.sources(kernel, launch).config
    result = api.profile(kernel, config=config, **caller.keywords(launch, engine))
    facts = {"engine": result.engine, "engine_reason": result.reason}
    return _answer(result.comparison, facts, _after(caller, result.comparison, kernel, launch))


def compare(caller: Caller, entries: Sequence[str], launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer kernels, reports or saved profiles side by side, the first one as the baseline."""
    config = caller.entries(entries, launch).config
    compared = api.compare(*entries, config=config, **caller.keywords(launch))
    engines = sorted({profile.engine for profile in compared.profiles})
    return _answer(compared, {"engine": ", ".join(engines)}, _after(caller, compared, entries[-1], launch))


def read_report(caller: Caller, path: str, kernel: str = "", index: int | None = None) -> Answer:
    """Answer the kernels in a .ncu-rep, a saved profile or a run; one of them in full, by its name or its index."""
    profiles = api.read(caller.folders.path(path))
    if index is not None and not 0 <= index < len(profiles):
        raise UsageError(f"{path} has no profile {index}", f"index is at least 0 and at most {len(profiles) - 1}")
    if not kernel and index is None and len(profiles) > 1:
        rows = tuple(
            {
                "index": number,
                "kernel": profile.kernel.name,
                "excessive": profile.total.excessive,
                "degree": _rounded(profile.total.degree),
                "duration_ns": profile.duration_ns,
            }
            for number, profile in enumerate(profiles)
        )
        worst = max(rows, key=lambda row: row["excessive"] or 0)
        return Answer(
            summary=f"{path}: {len(profiles)} profiles",
            rows=rows,
            next=Call("read_report", {"path": path, "index": worst["index"]}),
        )
    chosen = profiles[kernel] if kernel else profiles[index or 0]
    return _answer(api.compare([chosen]), {"engine": chosen.engine}, None)


def _answer(compared: Comparison, facts: dict[str, Any], following: Call | None) -> Answer:
    """Answer the accesses of all profiles, then their lines with the most excess, then what the rules found."""
    labelled = list(zip(compared.labels, compared.profiles, strict=True))
    rows: list[Row] = [
        {
            "profile": label,
            "access": access,
            "executed": total.executed,
            "wavefronts": total.wavefronts,
            "ideal": total.ideal,
            "excessive": total.excessive,
            "degree": _rounded(total.degree),
        }
        for label, profile in labelled
        for access, total in profile.accesses.items()
    ]
    rows += (row for label, profile in labelled for row in _lines(label, profile))
    rows += _global_memory(labelled)
    for label, profile in labelled:
        for finding in gains(profile):
            message, saving = plain(finding.message), interval(finding)
            row = {
                "profile": label,
                "finding": finding.title,
                "code": finding.code,
                "message": message,
                "saving": saving,
            }
            rows.append(without_empty(row))
    rows += ({"warning": warning} for warning in compared.warnings)
    return Answer(summary=compared.verdict, rows=tuple(rows), next=following, facts=without_empty(facts))


def _lines(label: str, profile: Profile) -> Iterator[Row]:
    """Yield the lines that access shared memory with excess, or unknown wavefronts, the worst first."""
    lines = [line for line in line_accesses(profile, files_in(Path.cwd())) if line.unknown or line.excessive > 0]
    lines.sort(key=lambda line: -line.excessive)
    for line in lines[:LINES]:
        yield {
            "profile": label,
            "line": str(line.place or "unknown"),
            "access": line.access,
            "wavefronts": None if line.unknown else line.wavefronts,
            "ideal": None if line.unknown else line.ideal,
        }


def _global_memory(labelled: Sequence[tuple[str, Profile]]) -> Iterator[Row]:
    """Yield the accesses to global memory by opcode, with the remedy for the worst line."""
    for access, rows in memory.by_access(labelled).items():
        for row in rows:
            total, unknown = row.group.total, bool(row.group.unknown)
            yield without_empty(
                {
                    "profile": row.label,
                    "access": access,
                    "executed": row.group.executed,
                    "sectors": None if unknown else total.sectors,
                    "ideal_sectors": None if unknown else total.ideal,
                    "excessive_bytes": None if unknown else total.excessive_bytes,
                    "line": row.worst.name if row.worst else "",
                    "message": memory.sectors_and_remedy(row.worst) if row.worst else "",
                }
            )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _after(caller: Caller, compared: Comparison, kernel: str, launch: LaunchGiven) -> Call | None:
    if own_kernels.is_saved(kernel):  # it keeps no addresses to explain
        return None
    last, arguments = compared.profiles[-1].total, caller.again(kernel, launch)
    if last.excessive is None:
        return Call("lint", {"files": [kernel], **arguments}, "says why counts are unknown")
    return Call("explain", {"kernel": kernel, **arguments}) if last.excessive else None


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
    return Answer(summary=" ".join(map(_best, answers)), rows=tuple(rows), next=_call_to_fix(caller, kernel, launch))


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


def _call_to_fix(caller: Caller, kernel: str, launch: LaunchGiven) -> Call | None:
    """Return the call that rewrites a kernel's source; None if it has none of the client's."""
    if caller.folders.is_path(kernel):
        suffix = split_name(kernel)[0].suffix
    else:
        catalog = naming.catalogue(CatalogOptions(caller.folders.config(Path.cwd())))
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
            for kernel in naming.catalogue(sources).targets()
            if not kernel.family.shipped and str(source) in map(os.path.realpath, kernel.family.included())
        ]
    else:
        declared = naming.targets_in(source, sources)
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
