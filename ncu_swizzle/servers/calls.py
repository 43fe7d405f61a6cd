"""The calls of agents and editors: `profile`, `compare`, `read_report`; `lint`, `check`; `fix` and `rewrite`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.commands import api
from ncu_swizzle.commands import prove as proving
from ncu_swizzle.commands.answers import Comparison
from ncu_swizzle.explain import own_kernels
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all, written_together
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.judge import line_accesses
from ncu_swizzle.gate.verdict import MAX_DEGREE, Outcome, Verdict, files_in
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import SOURCE, Target, split_name
from ncu_swizzle.render import findings
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import LintOptions
from ncu_swizzle.servers.answer import Answer, Call, Row
from ncu_swizzle.servers.folders import Caller, LaunchGiven, without_empty
from ncu_swizzle.servers.folders import shown as shown_path

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
        for finding in findings.gains(profile):
            message, saving = findings.plain(finding.message), findings.interval(finding)
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
