"""What a report shows, as it was looked at once: tests/data/shown, written by ``python -m tests.support.shown``.

A page is written down as its text, a line for each row; what is drawn is beside it: widths of bars, and what is grey.
Sources, instructions and raw metrics are left out, and so is what the rules say: other tests are about them. Some are
written down in whole: on a terminal and in Markdown too, with instruction mix and metrics.
"""

import io
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from rich.console import Console

from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import formats, page, terminal
from ncu_swizzle.reports import reader
from ncu_swizzle.reports.comparison import SHARED_PIPE, JobResult, compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, IDEAL, WAVEFRONTS, KernelId, MachineInfo, Metric, Profile, stall_reason
from ncu_swizzle.reports.options import EMULATED, Engine
from tests.support.pages import VOID
from tests.support.places import DATA, RECORDINGS
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import EMPTY

SHOWN = DATA / "shown"
SKIPPED = {"source", "instructions", "raw", "findings", "banks", "data", "origin"}
WHOLE = {"before and after", "six", "99 samples"}  # none names a folder, which would wrap elsewhere
LARGE = re.compile(r'<section[^>]*id="(source|instructions|raw)".*?</section>', re.DOTALL)
ROWS = {"tr", "p", "li", "h1", "h2", "h3", "figcaption", "section", "summary", "caption"}
Scenario = Callable[[Recorded], list[Profile]]


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
            width = [f"[{named['style']}]"] if "width" in named.get("style", "") else []
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


def counted(*rows: tuple[int, int | None, int | None, str]) -> Profile:
    """Return an emulated profile with accesses on these lines: actual and ideal wavefronts, and the kind."""
    accesses = tuple(
        Instruction(16 * line, f"{kind} R0", kind, kind, (("k.cu", line),), 1, wavefronts, ideal)
        for line, wavefronts, ideal, kind in rows
    )
    text = "\n".join(f"line {number};" for number in range(1, 10))
    return replace(EMPTY, engine=EMULATED, instructions=accesses, sources={"k.cu": text})


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
GMMA = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
STORED = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"
SCENARIOS: dict[str, Scenario] = {
    "before and after": lambda recorded: [recorded("kernel1"), recorded("kernel2")],
    "one": lambda recorded: [recorded("kernel1")],
    "one twice": lambda recorded: [recorded("kernel1")] * 2,
    "three": lambda recorded: [recorded(name) for name in KERNELS],
    "six": lambda recorded: [
        recorded(f"gemm-{name}") for name in ("plain", "padded", "half-swizzled", "swizzled", "pipelined", "wide")
    ],
    "eleven": lambda recorded: [recorded("transpose-xor")] * 11,
    "another GPU": lambda recorded: [
        recorded("transpose-plain"),
        replace(recorded("transpose-xor"), machine=MachineInfo(gpu="NVIDIA A100"), engine="ncu"),
    ],
    "99 samples": lambda recorded: [
        recorded("kernel1"), sampled(recorded("kernel2"), wait=96, short_scoreboard=3),
    ],
    "100 samples": lambda recorded: [
        recorded("kernel1"), sampled(recorded("kernel2"), wait=97, short_scoreboard=3),
    ],
    "no samples": lambda recorded: [recorded("kernel1"), unsampled(recorded("kernel2"))],
    "unknown": lambda recorded: [recorded("kernel1"), unknown(recorded("kernel2"))],
    "untimed": lambda recorded: [with_metrics(recorded("kernel1"), {DURATION: None}), recorded("kernel2")],
    "no metrics": lambda recorded: [recorded("kernel1"), replace(recorded("kernel1"), metrics={})],
    "nothing": lambda _: [EMPTY, replace(EMPTY, kernel=KernelId(name="also bare", function=""))],
    "idle": lambda recorded: [with_metrics(recorded("kernel1"), {SHARED: 12.0})],
    "more units": lambda recorded: [
        with_metrics(recorded("kernel2"), {"sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 99.0})
    ],
    "computed": lambda recorded: [
        replace(recorded(name), engine="emulated", metrics={}, beside="") for name in ("kernel1", "kernel2")
    ],
    "computed beside a recording": lambda recorded: [
        replace(recorded("kernel1"), engine="emulated", beside="recorded")
    ],
    "lower bounds": lambda _: [
        counted((3, 1, 1, "LDS"), (5, 8, 1, "STS"), (5, None, None, "LDS")),
        counted((3, None, None, "LDS"), (5, None, None, "LDS")),
    ],
    "TMA": lambda recorded: [recorded(f"tma-{mode}") for mode in ("none", "32", "64", "128")],
    "a library with TMA": lambda recorded: [recorded("gemm-swizzled"), recorded("reference-gemm")],
    "wgmma": lambda recorded: [
        recorded("wgmma-128"), with_metrics(recorded("wgmma-tma-store"), {GMMA: 671088640}), recorded("wgmma-cluster"),
        with_metrics(recorded("wgmma-128"), {STORED: 134217728}),
    ],
}  # fmt: skip


def text_of(name: str, recorded: Recorded) -> str:
    """Return what is shown of a scenario's profiles beside each other."""
    comparison = compare([replace(profile, sources={}) for profile in SCENARIOS[name](recorded)])
    html = LARGE.sub("", page.render(comparison))
    if name not in WHOLE:
        return "\n".join([*Outline(html, {*SKIPPED, "mix", "metrics"}).lines, ""])
    console = Console(file=io.StringIO(), width=80)
    terminal.show(JobResult(comparisons=(comparison,), engine=Engine("recorded")), console)
    assert isinstance(console.file, io.StringIO)
    printed = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join([*Outline(html).lines, "=== Terminal", *printed, "=== Markdown", formats.render(comparison)])


def file_of(name: str) -> Path:
    return SHOWN / f"{name.replace(' ', '-')}.txt"


if __name__ == "__main__":
    catalogue = catalog.shipped()
    for title in SCENARIOS:
        text = text_of(
            title, lambda name: reader.read(RECORDINGS / catalogue.named(name)[0].name / f"{name}.ncu-rep")[0]
        )
        file_of(title).write_text(text, encoding="utf-8")
