"""What ``ncu-swizzle check`` and ``baseline`` do: gather profiles, judge them, write the results everywhere."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncu_swizzle import paths
from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.engines import choice
from ncu_swizzle.engines.context import Progress, Request
from ncu_swizzle.errors import GateFailed, NotComparable, NotWritable
from ncu_swizzle.files import ELSEWHERE, locked, write_atomically
from ncu_swizzle.gate import baseline, config, github, junit, places, policy, sarif
from ncu_swizzle.gate.baseline import Baseline
from ncu_swizzle.gate.config import Settings
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.outputs import Outputs
from ncu_swizzle.gate.policy import LIMITS, Policy
from ncu_swizzle.gate.verdict import Check, Outcome, Verdict
from ncu_swizzle.jobs import entries as entries_
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.texts import in_words, one_line

SCHEMA = 1
NONE = "none"
STYLES = {Outcome.passed: "green", Outcome.failed: "bold red", Outcome.inconclusive: "yellow"}


@dataclass(frozen=True)
class Asked:
    """The command line of ``ncu-swizzle check``, but for how profiles are to be had and what is written."""

    profiles: tuple[str, ...]
    limits: tuple[tuple[str, ...], ...] = ((), (), ())  # of each of LIMITS, as it was typed
    baseline: str = ""  # a file, "none", or empty: what the settings name, or the default file if it is there
    config: str = ""  # a file, "none", or empty: the nearest
    allow_recorded: bool | None = None
    only: str = ""
    catalog: tuple[Path, ...] = ()


def check(asked: Asked, request: Request, on_progress: Progress) -> Verdict:
    """Return the verdict on the profiles; its places are paths below the current folder where they exist there."""
    rules = _policy(asked, Path.cwd())
    policy.check_baseline(rules)
    known = baseline.load(rules.baseline) if rules.baseline else None  # before anything takes long
    profiles, reason = gather(
        asked.profiles, request, on_progress, user_kernels.everything(asked.catalog, asked.config)
    )
    verdict = judge(profiles, rules, known, reason)
    return replace(verdict, checks=tuple(_in_checkout(verdict, Path.cwd())))


def _in_checkout(verdict: Verdict, root: Path) -> list[Check]:
    return [
        replace(one, place=replace(one.place, file=places.in_checkout(one.place.file, root))) if one.place else one
        for one in verdict.checks
    ]


def _policy(asked: Asked, folder: Path) -> Policy:
    """Return what the settings and the command line ask for together; the command line comes last and so wins."""
    settings = _settings(asked.config, folder)
    typed = [policy.parse(name, text) for name, texts in zip(LIMITS, asked.limits, strict=True) for text in texts]
    allow = settings.allow_recorded if asked.allow_recorded is None else asked.allow_recorded
    only = policy.pattern(asked.only.removeprefix("regex:"), "--kernel-name")
    return Policy((*settings.rules, *typed), _baseline(asked.baseline, settings), allow, only)


def _settings(asked: str, folder: Path) -> Settings:
    if asked == NONE:
        return Settings()
    return config.read(Path(asked)) if asked else config.find(folder)


def _baseline(asked: str, settings: Settings) -> Path | None:
    if asked:
        return None if asked == NONE else Path(asked)
    return settings.baseline or (paths.BASELINE if paths.BASELINE.exists() else None)


def gather(
    entries: Sequence[str], request: Request, on_progress: Progress, known: Catalog | None = None
) -> tuple[list[Profile], str]:
    """Return what the entries stand for, and why nothing was measured; a run stands for the kernel it was made for."""
    engine = replace(choice.choose_engine(request), beside=False)  # a gate takes no figure from elsewhere
    return entries_.gather(known or user_kernels.everything(), entries, request, engine, on_progress), engine.reason


def save(profiles: Sequence[Profile], file: Path, fresh: bool) -> Baseline:
    """Add the profiles to the baseline in the file, or replace it all if `fresh`; return what it holds now."""
    unknown = [one.kernel.name for one in profiles if one.accesses and one.total.excessive is None]
    if unknown:
        raise NotComparable(f"{unknown[0]} has no counts to save", "profile it with ncu-swizzle profile")
    with locked(file.parent):  # of two at once, both are kept
        before = Baseline((), file) if fresh or not file.exists() else baseline.load(file)
        merged = before.with_(baseline.entry(launches) for launches in baseline.group(profiles))
        merged.save()
    return merged


# ---------------------------------------------------------------------------------------------- what is shown


def show(verdict: Verdict, outputs: Outputs, console: Console) -> None:
    """Write the files that were asked for, then print: a line per check, workflow commands, or JSON alone."""
    if outputs.junit:
        write_atomically(outputs.junit, junit.render(verdict).encode())
    if outputs.sarif:
        write_atomically(outputs.sarif, sarif.render(verdict).encode())
    if outputs.github and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append(Path(summary), github.summary(verdict))
    if outputs.json == "-":
        console.file.write(to_json(verdict))
    else:
        _print(verdict, console)
        if outputs.json:
            write_atomically(Path(outputs.json), to_json(verdict).encode())
    if outputs.github:
        commands = Console(stderr=outputs.json == "-", soft_wrap=True)
        for command in github.commands(verdict):
            commands.print(command, markup=False, highlight=False, soft_wrap=True)


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise NotWritable(f"cannot write {file}: {error.strerror}", ELSEWHERE) from error


def _print(verdict: Verdict, console: Console) -> None:
    for one in verdict.checks:
        line = Text(f"{one.outcome:<13}", style=STYLES[one.outcome])
        line.append(github.log_line(f"{one}{f' ({one.place})' if one.place else ''}"), style="default")
        console.print(line, soft_wrap=True, highlight=False)
    for note in verdict.notes:
        console.print(Text(github.log_line(note)), soft_wrap=True, highlight=False)
    console.print(
        Text.assemble("\nThe gate: ", (str(verdict.outcome), STYLES[verdict.outcome]), f" ({verdict.summary})")
    )


def to_json(verdict: Verdict) -> str:
    """Return the verdict as one JSON object; ``docs/ci.md`` describes it."""
    checks = [dataclasses.asdict(one) for one in verdict.checks]
    content = {"schema": SCHEMA, "outcome": verdict.outcome, "checks": checks, "notes": list(verdict.notes)}
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def conclude(verdict: Verdict) -> None:
    """Raise GateFailed or NotComparable unless everything passed."""
    if verdict.outcome is Outcome.passed:
        return
    first = next(iter(verdict.deciding), None)
    hint = (first.hint if first else "") or "ncu-swizzle compare shows what the profiles hold; --html writes a page"
    said = github.log_line(str(first)) if first else "nothing was judged: no rule is about what was given"
    more = f" (and {len(verdict.deciding) - 1} more)" if len(verdict.deciding) > 1 else ""
    if verdict.outcome is Outcome.failed:
        raise GateFailed(f"{said}{more}", hint)
    raise NotComparable(f"{said}{more}", hint)


def show_baseline(known: Baseline, console: Console) -> None:
    """Print a baseline: a row per kernel, and where its figures come from."""
    table = Table(title=str(known.file), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("kernel", "conditions"):
        table.add_column(name, overflow="fold")
    for name in ("excessive", "degree", "ms", "launches"):
        table.add_column(name, justify="right")
    for one in known.entries:
        wavefronts = sum(counts.wavefronts or 0 for counts in one.accesses.values())
        ideal = sum(counts.ideal or 0 for counts in one.accesses.values())
        measured = "" if one.engine == "ncu" else f"{one.engine}, not measured; "
        where = f"{measured}{one.machine.gpu or 'unknown GPU'}, clocks {one.machine.clock_control or 'unknown'}"
        size = in_words(one.problem) or f"grid {one.grid}"
        table.add_row(
            Text(one_line(one.kernel)),
            Text(one_line(f"{where}, ncu {one.machine.ncu or 'unknown'}, {size}, {one.when[:10]}")),
            "unknown" if one.excessive is None else f"{one.excessive:,}",
            f"{wavefronts / ideal:.2f}" if ideal else "-",
            "unknown" if one.duration_ns is None else f"{one.duration_ns / 1e6:,.3f}",
            str(len(one.durations_ns)),
        )
    console.print(table)
