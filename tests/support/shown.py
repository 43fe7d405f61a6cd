"""What a report shows, as it was looked at once: tests/data/shown, written by ``python -m tests.support.shown``.

A page is written down as its text, a line for each row; what is drawn is beside it: widths of bars, and what is grey.
Sources, instructions and raw metrics are left out, and so is what the rules say: other tests are about them. Some are
written down in whole: on a terminal and in Markdown too, with instruction mix and metrics. Of small sources the lines
and instructions are written down instead, and of many comparisons what is said in a sentence.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from html.parser import HTMLParser

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines import reader
from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import formats, page
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.comparison import JobResult, compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import (
    DURATION,
    EXECUTED,
    IDEAL,
    STALLED,
    WAVEFRONTS,
    KernelId,
    MachineInfo,
    Metric,
    Profile,
    stall_reason,
)
from ncu_swizzle.reports.options import EMULATED
from ncu_swizzle.reports.side_by_side import SHARED_PIPE
from tests.support.pages import VOID
from tests.support.places import DATA, RECORDINGS
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import EMPTY, laid_out, launched, program, reopened, spoiled, without
from tests.support.reports import shown as printed

SHOWN = DATA / "shown"
SKIPPED = {"source", "instructions", "raw", "findings", "banks", "data", "origin"}
WHOLE = {"before and after", "six", "99 samples"}  # none names a folder, which would wrap elsewhere
LARGE = re.compile(r'<section[^>]*id="(source|instructions|raw)".*?</section>', re.DOTALL)
ROWS = {"tr", "p", "li", "h1", "h2", "h3", "figcaption", "section", "summary", "caption"}


class Outline(HTMLParser):
    """The text of a page's sections, row by row."""

    def __init__(self, html: str, skipped: Collection[str] = SKIPPED) -> None:
        super().__init__()
        self.skipped = skipped
        self.rows: list[list[str]] = [[]]
        self.silent = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        if tag in ("script", "style", "svg") or named.get("id") in self.skipped or (self.silent and tag not in VOID):
            self.silent += 1
        if tag in ROWS:
            self.rows.append([])
        if not self.silent:
            grey = ["grey"] if "few" in named.get("class", "").split() else []
            width = [f"[{named['style']}]"] if re.search("width|--[ix]", named.get("style", "")) else []
            self.rows[-1] += [*grey, *width, *([f'"{named["title"]}"'] if "title" in named and width else [])]

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self.silent -= bool(self.silent)

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.rows[-1] += data.split()

    @property
    def lines(self) -> list[str]:
        return [" ".join(row) for row in self.rows if row]


def with_metrics(profile: Profile, values: dict[str, float | str | None]) -> Profile:
    """Return a profile with other metrics; None takes one away."""
    changed = {name: Metric(value) for name, value in values.items() if value is not None}
    kept = {name: metric for name, metric in profile.metrics.items() if name not in values}
    return replace(profile, metrics={**kept, **changed})


def sampled(profile: Profile, **counts: int) -> Profile:
    """Return a profile with these warp samples instead, all at its first shared-memory access."""
    stalls = {name: counts.get(reason, 0) for name in profile.metrics if (reason := stall_reason(name))}
    first = next(i for i in profile.instructions if i.access)
    placed = tuple(replace(i, samples=counts if i is first else {}) for i in profile.instructions)
    return replace(with_metrics(profile, {**stalls}), instructions=placed)


def counted(*rows: tuple[int, int | None, int | None, str], lines: int = 9) -> Profile:
    """Return an emulated profile with accesses on these lines: actual and ideal wavefronts, and the kind."""
    accesses = tuple(
        Instruction(16 * line, f"{kind} R0", kind, kind, (("k.cu", line),), 1, wavefronts, ideal)
        for line, wavefronts, ideal, kind in rows
    )
    text = "\n".join(f"line {number};" for number in range(1, lines + 1))
    return replace(EMPTY, engine=EMULATED, instructions=accesses, sources={"k.cu": text})


def edited(profile: Profile, old: str, new: str) -> Profile:
    """Return the profile with another text of its source, at the same lines."""
    return replace(profile, sources={path: text.replace(old, new) for path, text in profile.sources.items()})


def inlined(profile: Profile, *header: Location) -> Profile:
    """Return the profile as if each of its accesses were inlined from a header."""
    accesses = tuple(replace(access, stack=(*header, *access.stack)) for access in profile.instructions)
    return replace(profile, instructions=accesses)


def noted(profile: Profile, message: str, *, aside: bool = False) -> Profile:
    """Return the profile with a warning of ncu's."""
    return replace(profile, findings=(remarks.note(message, aside=aside),))


def unknown(profile: Profile) -> Profile:
    """Return a profile without a duration and counts, and with a utilisation that is no number."""
    none = tuple(replace(i, executed=None, wavefronts=None, ideal=None) for i in profile.instructions)
    lacking = with_metrics(profile, {DURATION: None, WAVEFRONTS: None, IDEAL: None, SHARED_PIPE: float("nan")})
    return replace(lacking, instructions=none, errors={"o": float("nan")})


def unsampled(profile: Profile) -> Profile:
    without = {name: None for name in profile.metrics if "pcsamp" in name}
    return replace(
        with_metrics(profile, without), instructions=tuple(replace(i, samples={}) for i in profile.instructions)
    )


SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"
DRAM = "dram__bytes.sum.pct_of_peak_sustained_elapsed"
GMMA = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
STORED = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"
FMA = "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"
GEMMS = tuple(f"gemm-{name}" for name in ("plain", "padded", "half-swizzled", "swizzled", "pipelined", "wide"))


def scenarios(recorded: Recorded) -> dict[str, Callable[[], list[Profile]]]:
    """Return what gives the profiles that stand beside each other on a page: reading some takes long."""
    first, second = recorded("kernel1"), recorded("kernel2")
    computed = [replace(one, engine="emulated", metrics={}, beside="") for one in (first, second)]
    other = replace(recorded("transpose-xor"), machine=MachineInfo(gpu="NVIDIA A100"), engine="ncu")
    return {
        "before and after": lambda: [first, second],
        "one": lambda: [first],
        "one twice": lambda: [first, first],
        "three": lambda: [recorded(name) for name in KERNELS],
        "six": lambda: [recorded(name) for name in GEMMS],
        "eleven": lambda: [recorded("transpose-xor")] * 11,
        "another GPU": lambda: [recorded("transpose-plain"), other],
        "99 samples": lambda: [first, sampled(second, wait=96, short_scoreboard=3)],
        "100 samples": lambda: [first, sampled(second, wait=97, short_scoreboard=3)],
        "no samples": lambda: [first, unsampled(second)],
        "unknown": lambda: [first, unknown(second)],
        "untimed": lambda: [with_metrics(first, {DURATION: None}), second],
        "no metrics": lambda: [first, replace(first, metrics={})],
        "nothing": lambda: [EMPTY, replace(EMPTY, kernel=KernelId(name="also bare", function=""))],
        "idle": lambda: [with_metrics(first, {SHARED: 12.0})],
        "more units": lambda: [with_metrics(second, {FMA: 99.0})],
        "computed": lambda: computed,
        "computed beside a recording": lambda: [replace(first, engine="emulated", beside="recorded")],
        "lower bounds": lambda: [MIXED_WITH_UNKNOWN, counted((3, None, None, "LDS"), (5, None, None, "LDS"))],
        "TMA": lambda: [recorded(f"tma-{mode}") for mode in ("none", "32", "64", "128")],
        "a library with TMA": lambda: [recorded("gemm-swizzled"), recorded("reference-gemm")],
        "wgmma": lambda: [
            recorded("wgmma-128"), with_metrics(recorded("wgmma-tma-store"), {GMMA: 671088640}),
            recorded("wgmma-cluster"), with_metrics(recorded("wgmma-128"), {STORED: 134217728}),
        ],
    }  # fmt: skip


MIXED, UNKNOWN = counted((3, 1, 1, "LDS"), (5, 8, 1, "STS")), counted((3, None, None, "LDS"))
MIXED_WITH_UNKNOWN = counted((3, 1, 1, "LDS"), (5, 8, 1, "STS"), (5, None, None, "LDS"))
LINES = {
    "two profiles of one source": [counted((3, 6, 1, "LDS"), (5, 8, 1, "STS")), counted((3, 6, 1, "LDS"))],
    "two versions of a source": [MIXED, edited(MIXED, "line 4;", "line 4;\nnew;")],
    "two versions of unknown counts": [UNKNOWN, edited(UNKNOWN, "line 4;", "line 4;\nnew;")],
    "two sources with little in common": [MIXED, edited(MIXED, "line", "other")],
    "six profiles of one source": [MIXED] * 6,
    "a long source": [counted((3, 1, 1, "LDS"), (5, None, None, "STS"), (30, 8, 1, "STS"), lines=40)],
    "a source without its text": [replace(MIXED, sources={})],
    "a header of a library": [inlined(MIXED, ("/usr/local/cuda/include/crt/mma.hpp", 91))],
    "unknown counts": [MIXED_WITH_UNKNOWN],
    "three samples": [
        with_metrics(sampled(MIXED, short_scoreboard=2, wait=1), {f"{STALLED}short_scoreboard": 2, f"{STALLED}wait": 1})
    ],
}


def programs(recorded: Recorded) -> dict[str, JobResult]:
    """Return programs that launch several kernels."""
    whole = program(recorded)
    basic = [without(one, WAVEFRONTS, IDEAL, EXECUTED, STALLED, "l1tex__") for one in whole]
    swizzled = [launched(recorded("transpose-xor"), one.kernel.function, one.launch.index) for one in whole]
    unjudged = [without(one, IDEAL, DURATION) for one in whole]
    return {
        "a program that is swizzled": laid_out(whole, swizzled),
        "a program that cannot be judged": laid_out(whole, unjudged),
        "two launches of which one can be judged": laid_out([unjudged[0], whole[1]]),
        "a report and one of the padded program": reopened("several", "several-pad"),
        **{f"a report with {name}": reopened(name) for name in ("basic", "range", "graph", "source-counters")},
        "a program": laid_out(whole),
        "a program before and after": laid_out(whole, whole[:3]),
        "a program with a basic set": laid_out(basic),
    }


def compared(recorded: Recorded) -> dict[str, list[Profile]]:
    """Return profiles of which a sentence tells."""
    first, second, third, library = (
        recorded(name) for name in ("kernel1", "kernel2", "kernel3", "reference-attention")
    )
    elsewhere = MachineInfo(gpu="H200", clock_control="base", driver="999", ncu="2026.1")
    durations = (float("nan"), float("inf"), 0.0, -7.0)
    return {
        "slower": [second, first],
        "a part of the excess": [recorded("gemm-plain"), recorded("gemm-half-swizzled")],
        "microseconds": [recorded("transpose-plain"), recorded("transpose-xor")],
        "no excess, twice": [second, second],
        "the same excess": [first, first],
        "one without excess": [second],
        "one with excess": [first],
        "four, of which a library's does not compete": [first, second, third, library],
        "three, of which a library's does not compete": [first, second, library],
        "another problem, which does not compete": [first, second, replace(third, problem={"seq": 64})],
        "without times, the least excess": [with_metrics(one, {DURATION: None}) for one in (first, first, second)],
        **{f"a duration of {time}": [first, with_metrics(second, {DURATION: time})] for time in durations},
        "another machine": [first, replace(second, machine=elsewhere)],
        "another problem and engine": [first, replace(second, problem={"seq": 64}, engine="ncu")],
        "a warning of ncu's": [noted(second, "ncu could not read 3 metrics: a, b, c.")],
        "a metric that no figure needs": [noted(second, "ncu wrote NaN for pcie__read_bytes.sum.", aside=True)],
        "a metric that figures need": [noted(second, f"ncu wrote NaN for {DURATION}.")],
        "no lines": [replace(second, instructions=tuple(replace(i, stack=()) for i in second.instructions))],
        "fewer wavefronts than the ideal": [spoiled(first, wavefronts=1)],
        "wavefronts that were never executed": [spoiled(first, executed=0)],
        "counts as large as they can be": [spoiled(first, wavefronts=1 << 63)],
        "a share of 250 %": [with_metrics(first, {SHARED_PIPE: 250.0})],
        "a share that rounds to 0": [with_metrics(first, {DRAM: -0.01})],
        "a share of -1 %": [with_metrics(first, {DRAM: -1.0})],
    }


def sentences(compared: Mapping[str, Sequence[Profile]]) -> str:
    """Return what is said of the profiles in a sentence, and the warnings."""
    lines = []
    for name, profiles in compared.items():
        comparison = compare(profiles)
        judged = " → ".join(comparison.labels[number] for number in comparison.judged)
        lines += [f"== {name}", f"{judged}: {comparison.verdict}", f"   {comparison.headline}"]
        lines += [f"{'-' if warning in comparison.asides else '!'} {warning}" for warning in comparison.warnings]
    return "\n".join([*lines, ""])


def listed(result: JobResult) -> str:
    """Return how a program's launches are listed, on the page, on a terminal and in Markdown, and which are shown."""
    html = LARGE.sub("", page.render_all(result.comparisons, result.notes, result.title))
    markdown = formats.render_all(result.comparisons, result.notes, result.title)
    lines = []
    for text, first, heads in (
        ("\n".join(Outline(html).lines), "Shared memory has 32 banks", ".* launch [0-9]"),
        (printed(result), "── ", "── ."),
        (markdown, "#### ", "#### (rows|tile|copy)"),
    ):
        head, _, rest = text.partition(f"\n{first}")
        shown = [line for line in f"{first}{rest}".splitlines() if re.match(heads, line)]
        lines += [*head.splitlines(), "…", *shown, "==="]
    return "\n".join([*(line.rstrip() for line in lines), ""])


def in_lines(profiles: Sequence[Profile]) -> str:
    """Return what is shown of the profiles' lines and instructions."""
    sections = [part[0] for part in LARGE.finditer(page.render(compare(profiles))) if part[1] != "raw"]
    return "\n".join([*(line for section in sections for line in Outline(section, ()).lines), ""])


def beside(name: str, profiles: Callable[[], Sequence[Profile]]) -> str:
    """Return what is shown of a scenario's profiles beside each other."""
    comparison = compare([replace(profile, sources={}) for profile in profiles()])
    html = LARGE.sub("", page.render(comparison))
    if name not in WHOLE:
        return "\n".join([*Outline(html, {*SKIPPED, "mix", "metrics"}).lines, ""])
    on_terminal = printed(JobResult(comparisons=(comparison,), engine="recorded")).splitlines()
    terminal = [line.rstrip() for line in on_terminal]
    markdown = formats.render_all([comparison])
    return "\n".join([*Outline(html).lines, "=== Terminal", *terminal, "=== Markdown", markdown])


def texts(recorded: Recorded) -> dict[str, Callable[[], str]]:
    """Return what writes each scenario down, by the name of its file."""
    named = {
        "sentences": lambda: sentences(compared(recorded)),
        **{name: partial(beside, name, profiles) for name, profiles in scenarios(recorded).items()},
        **{name: partial(in_lines, profiles) for name, profiles in LINES.items()},
        **{name: partial(listed, result) for name, result in programs(recorded).items()},
    }
    return {name.replace(" ", "-"): text for name, text in named.items()}


NAMES = sorted(file.stem for file in SHOWN.glob("*.txt"))

if __name__ == "__main__":
    catalogue = catalog.shipped()
    for title, text in texts(
        cache(lambda name: reader.read(RECORDINGS / catalogue.named(name)[0].name / f"{name}.ncu-rep")[0])
    ).items():
        (SHOWN / f"{title}.txt").write_text(text(), encoding="utf-8")
