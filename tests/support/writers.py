"""Every kind of value that is shown, and everything that shows it; the values' texts are changed as a test likes."""

import dataclasses
import io
from collections.abc import Callable, Collection, Iterator
from typing import Any

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.commands import doctor as doctor_page
from ncu_swizzle.commands.answers import Comparison as NotebookComparison
from ncu_swizzle.commands.answers import ConflictError, Profiles, explain
from ncu_swizzle.commands.answers import Profile as NotebookProfile
from ncu_swizzle.commands.console import Output
from ncu_swizzle.commands.doctor import Diagnosis, HealthCheck, Status
from ncu_swizzle.explain import banks as model_terminal
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.gate import baseline, reporting
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.kernels.catalog import Catalog, shipped
from ncu_swizzle.render import formats, listing, terminal
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import pack, pairing
from ncu_swizzle.reports.comparison import JobResult, TimedFamily, compare
from ncu_swizzle.reports.model import NEEDED, Finding, LaunchId, Profile
from ncu_swizzle.reports.options import Outputs
from ncu_swizzle.smem import access, mapping
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.plan import Sweep
from tests.support.gate_profiles import verdict_on
from tests.support.hostile import Change, poisoned
from tests.support.recordings import Recorded
from tests.support.sweeps import transposes

SHOWN = 6  # instructions of each profile: what is drawn of one is drawn of all
Writer = tuple[str, Callable[[], str]]  # the kind of output, and what writes it
Made = Callable[[Change, Collection[str]], Iterator[Writer]]  # what writes a value with changed texts, in some fields


class Tty(io.StringIO):
    """A terminal's side of a text stream."""

    def isatty(self) -> bool:
        return True


def printed(show: Callable[[Any, Output], None], value: Any, styled: bool = False) -> str:
    """Return what the commands' console prints of a value, with colours or without."""
    file = Tty() if styled else io.StringIO()
    show(value, Output(file))
    return file.getvalue()


def small(profile: Profile) -> Profile:
    """Return a profile with few instructions and lines, and text in fields that the recordings leave empty."""
    kept = sorted(profile.instructions, key=lambda i: (not i.access, -(i.excessive or 0), i.pc))[:SHOWN]
    lines = {path for i in kept for path, _ in i.stack}
    sources = {path: "\n".join(text.split("\n")[:60]) for path, text in profile.sources.items() if path in lines}
    return dataclasses.replace(
        profile,
        instructions=tuple(kept),
        sources=sources,
        metrics={name: profile.metrics[name] for name in (*[*profile.metrics][::9], *NEEDED)},
        findings=(Finding(rule="Rule", kind="warning", title="a title", message="a message"),),
        notes=("a note",),
        commit="abc",
        launch=LaunchId(index=1, occurrence=0, workload="kernel", grid=(8, 1, 1), block=(32, 1, 1)),
    )


def result_of(profiles: tuple[Profile, ...], engine: str = "ncu") -> JobResult:
    return JobResult(
        comparisons=(compare(profiles, notes=[p.kernel.name for p in profiles]),), engine=engine, reason="a reason"
    )


def many_of(profiles: tuple[Profile, ...]) -> JobResult:
    """Return the profiles as launches of a program, before and after, in files named as their kernels."""
    rows = pairing.rows([profiles, profiles[:1]])
    comparisons, notes = pairing.lay_out(rows, pairing.columns([p.report for p in profiles]))
    return JobResult(comparisons=comparisons, engine="ncu", notes=notes, title=profiles[0].kernel.name)


def poisoned_verdict(verdict: Verdict, change: Change, only: Collection[str] = ()) -> Verdict:
    """Return a verdict with hostile text, but for the criteria and codes, which are names of ours."""
    made = poisoned(verdict, change, only)
    checks = [dataclasses.replace(check, criterion="max-degree", code="SW001") for check in made.checks]
    return dataclasses.replace(made, checks=tuple(checks))


def diagnosis() -> Diagnosis:
    return Diagnosis(
        tuple(HealthCheck(name="check", outcome=status, said="what was found", cure="what to do") for status in Status)
    )


def timing() -> TimedFamily:
    family, _ = shipped().named("transpose-plain")
    names = [kernel.name for kernel in family.kernels]
    facts = {"problem": family.problem(), "machine": {"gpu": "H100", "driver": "5", "cuda": "13"}, "copy_ms": [1.0],
             "errors": {}, "times_ms": {name: [1.0] for name in names}}  # fmt: skip
    return TimedFamily(family, family.kernels, facts)


def poisoned_timing(change: Change, only: Collection[str] = ()) -> TimedFamily:
    """Return times of kernels with hostile names; the facts name the kernels in the same way."""
    made = poisoned(timing(), change, only)
    times = {kernel.name: [1.0] for kernel in made.kernels}
    family = dataclasses.replace(made.family, flops="1", bytes="1")
    facts = {**made.facts, "times_ms": times, "errors": {}, "copy_ms": [1.0], "problem": {"n": 1},
             "machine": {key: change(value) for key, value in timing().facts["machine"].items()}}  # fmt: skip
    return TimedFamily(family, made.kernels, facts)


def poisoned_sweep(sweep: Sweep, change: Change, only: Collection[str] = ()) -> Sweep:
    """Return a sweep with hostile text; names that refer to each other still do."""
    made = poisoned(sweep, change, only)
    kernels = tuple(dataclasses.replace(kernel, baseline="") for kernel in made.plan.kernels)
    sizes = list(made.plan.problems[0])
    parameters = tuple(dataclasses.replace(p, name=name)
                       for p, name in zip(made.plan.family.parameters, sizes, strict=True))  # fmt: skip
    names = {old.name: new.name for old, new in zip(sweep.plan.kernels, kernels, strict=True)}
    outcomes = []
    for old, new in zip(sweep.outcomes, made.outcomes, strict=True):
        problem = tuple(zip(sizes, dict(old.point.problem).values(), strict=True))
        point = dataclasses.replace(old.point, kernel=names[old.point.kernel], problem=problem)
        outcomes.append(dataclasses.replace(new, point=point))
    family = dataclasses.replace(made.plan.family, parameters=parameters)
    plan = dataclasses.replace(made.plan, family=family, kernels=kernels)
    return dataclasses.replace(made, plan=plan, outcomes=tuple(outcomes))


def results(result: JobResult, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(terminal.show, result, styled)
    yield "html", lambda: report.render_all(result.comparisons, result.notes, result.title)
    yield "md", lambda: formats.render_all(result.comparisons, result.notes, result.title)
    yield "csv", lambda: formats.to_csv(*result.comparisons)
    yield "json", lambda: formats.to_json(result)
    for comparison in result.comparisons:
        launches = pack.launch_findings(comparison)
        yield "json", lambda shown=launches: pack.to_json(shown)
        yield "terminal", lambda shown=launches: printed(listing.show_findings, shown, styled)
        yield "html", lambda shown=comparison: NotebookComparison.of(shown)._repr_html_()


def profiles(profiles: tuple[Profile, ...], styled: bool = False) -> Iterator[Writer]:
    yield from results(result_of(profiles), styled)
    yield from results(result_of(profiles, "recorded"), styled)
    yield from results(many_of(profiles), styled)
    yield "terminal", lambda: repr(Profiles(profiles))
    for profile in profiles:
        yield "json", profile.to_json
        yield "html", lambda shown=profile: NotebookProfile.of(shown)._repr_html_()
        measured = judge([dataclasses.replace(profile, engine="ncu")], Policy())
        yield "terminal", lambda shown=profile, verdict=measured: failure(shown, verdict)
        yield from verdicts(measured, styled)
    yield from baselines(baseline.Baseline(tuple(baseline.entry_of([profile]) for profile in profiles)), styled)


def failure(profile: Profile, verdict: Verdict) -> str:
    return str(ConflictError(explain(profile, verdict.checks[0]), profile, inconclusive=False))


def verdicts(verdict: Verdict, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(lambda shown, console: reporting.show(shown, Outputs(), console), verdict, styled)
    yield "json", lambda: reporting.to_json(verdict)
    yield "xml", lambda: reporting.render_junit(verdict)
    yield "sarif", lambda: reporting.render_sarif(verdict)
    yield "md", lambda: reporting.github_summary(verdict)


def baselines(saved: baseline.Baseline, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(reporting.show_saved, saved, styled)
    yield "json", saved.to_json


def sweeps(sweep: Sweep, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(table.show, sweep, styled)
    yield "html", lambda: table.to_html(sweep)
    yield "md", lambda: table.to_markdown(sweep)
    yield "csv", lambda: table.to_csv(sweep)
    yield "json", lambda: table.to_json(sweep)


def catalogs(catalog: Catalog, styled: bool = False) -> Iterator[Writer]:
    def show(shown: Catalog, console: Output) -> None:
        for family in shown.families:
            console.print(listing.table(family))

    yield "terminal", lambda: printed(show, catalog, styled)
    yield "md", lambda: listing.markdown(catalog)


def times(shown: TimedFamily, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(listing.show_times, shown, styled)


def diagnoses(shown: Diagnosis, styled: bool = False) -> Iterator[Writer]:
    yield "terminal", lambda: printed(doctor_page.show, shown, styled)
    yield "json", shown.to_json


def maps(name: str) -> tuple[BankMap, ...]:
    """Return bank maps whose access has a name from the command line."""
    layout = mapping.parse("(8,8):(8,1)", 4, None, 0)
    named = dataclasses.replace(access.parse("column", layout.layout, 4), name=name)
    return Subject(before=layout, after=layout, access=named).maps()


def bank_maps(shown: tuple[BankMap, ...], styled: bool = False) -> Iterator[Writer]:
    title = str(shown[0].access and shown[0].access.name)
    yield "terminal", lambda: printed(model_terminal.show_map, shown[0], styled)
    yield "html", lambda: report.render_banks(shown, title)
    yield "svg", lambda: report.render_banks_svg(shown, title)


def pair_of(recorded: Recorded) -> tuple[Profile, ...]:
    return small(recorded("transpose-plain")), small(recorded("transpose-xor"))


def inputs(recorded: Recorded) -> dict[str, tuple[Any, Made]]:
    """Return every kind of value that is shown, with what makes its writers."""
    wrong = {("transpose-xor", 1024): ProgramFailed("it failed", "a hint")}
    swept = transposes(lambda name: small(recorded(name)), (512, 1024), ("plain", "xor"), wrong)
    families = [family for family in shipped().families if family.name in ("attention", "transpose")]
    catalog = Catalog(tuple(families))
    pair, checked, health, timed = pair_of(recorded), verdict_on("x"), diagnosis(), timing()
    return {
        "profiles": (pair, lambda change, only: profiles(poisoned(pair, change, only))),
        "verdict": (checked, lambda change, only: verdicts(poisoned_verdict(checked, change, only))),
        "sweep": (swept, lambda change, only: sweeps(poisoned_sweep(swept, change, only))),
        "catalog": (catalog, lambda change, only: catalogs(poisoned(catalog, change, only))),
        "times": (timed, lambda change, only: times(poisoned_timing(change, only))),
        "diagnosis": (health, lambda change, only: diagnoses(poisoned(health, change, only))),
        "maps": ("x", lambda change, only: bank_maps(maps(change("x")))),
    }
