"""`profile`, `compare` and `read_report`: counts by access and by line, and what the rules say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.commands import api
from ncu_swizzle.commands.answers import Comparison
from ncu_swizzle.explain import own_kernels
from ncu_swizzle.gate.judge import line_accesses
from ncu_swizzle.gate.verdict import files_in
from ncu_swizzle.render import findings
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.servers.answer import Answer, Call, Row
from ncu_swizzle.servers.folders import Caller, LaunchGiven, without_empty

LINES = 12  # those with the most excess


def profile(caller: Caller, kernel: str, launch: LaunchGiven = LaunchGiven(), engine: str = "auto") -> Answer:
    """Answer a kernel's counts beside its baseline's, and which engine they are from."""
    config = caller.sources(kernel, launch).config
    result = api.profile(
        kernel, engine=caller.folders.engine(engine), config=config, timeout=caller.timeout_s,
        on_progress=caller.progress, **launch.keywords(),
    )  # fmt: skip
    facts = {"engine": result.engine, "engine_reason": result.reason}
    return _answer(result.comparison, facts, _after(caller, result.comparison, kernel, launch))


def compare(caller: Caller, entries: Sequence[str], launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer kernels, reports or saved profiles side by side, the first one as the baseline."""
    config = caller.entries(entries, launch).config
    compared = api.compare(
        *entries, engine=caller.folders.engine("auto"), config=config, timeout=caller.timeout_s,
        on_progress=caller.progress, **launch.keywords(),
    )  # fmt: skip
    engines = sorted({each.engine for each in compared.profiles})
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _after(caller: Caller, compared: Comparison, kernel: str, launch: LaunchGiven) -> Call | None:
    if own_kernels.is_saved(kernel):  # which keeps no addresses to be explained
        return None
    last, given = compared.profiles[-1].total, caller.again(kernel, launch)
    if last.excessive is None:
        return Call("lint", {"files": [kernel], **given}, "says why counts are unknown")
    return Call("explain", {"kernel": kernel, **given}) if last.excessive else None
