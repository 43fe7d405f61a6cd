"""Pages of the report, each rendered once per test run."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.render import banks
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import pairing, remarks
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import KernelId, Metric, Profile
from ncu_swizzle.smem import access, mapping
from tests.support.hostile import poisoned
from tests.support.pages import HOSTILE, Page
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import launched

HIDING = "\u202e\u2066\u200b\x1b[2J\u2028"  # reorders or hides what follows, or clears a terminal
LONG = "kernels/attention/attention.cuh"


@pytest.fixture(scope="session")
def profiles(recorded: Recorded) -> list[Profile]:
    return [recorded(name) for name in KERNELS]


@pytest.fixture(scope="session")
def html(profiles: list[Profile]) -> str:
    return report.render(compare(profiles))


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="session")
def written(recorded: Recorded, html: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes a page and returns its file. Pages are called after what is on them:

    three     the attention kernels and the library's
    four      four profiles, whose sources have as many columns
    many      three launches of a program, before and after
    foreign   a library's kernel, with values that no figure needs
    hostile   names, sources and SASS that try to break out of the page, or to hide and to reorder its text
    long      5,000 instructions of a source of 3,000 lines, in two versions
    transpose bank maps of 32 x 32 cells
    map       what `explain --show phases` writes as HTML
    """
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def write(name: str) -> Path:
        file = folder / f"{name}.html"
        file.write_text(html if name == "three" else _rendered(name, recorded), encoding="utf-8")
        return file

    return write


def _rendered(name: str, recorded: Recorded) -> str:
    before, after = (recorded(kernel) for kernel in KERNELS[:2])
    plain, swizzled = recorded("transpose-plain"), recorded("transpose-xor")
    tile = mapping.parse("(64,64):(64,1)", 2, "128B")
    maps = Subject(before=tile.plain, after=tile, access=access.parse("ldmatrix", tile.layout, 2)).maps()
    compared = {
        "four": lambda: [before, after, recorded("kernel3"), before],
        "foreign": lambda: [_foreign(recorded("reference-gemm"))],
        "hostile": lambda: [_hostile(plain), swizzled],
        "long": lambda: [_long(before), _edited(_long(after))],
        "transpose": lambda: [plain, swizzled],
    }
    pictures = {
        "many": lambda: _program(plain, swizzled),
        "map": lambda: report.render_board(banks.phases(maps)[0], "a map"),
    }
    return report.render(compare(compared[name]())) if name in compared else pictures[name]()


def _program(before: Profile, after: Profile) -> str:
    rows = [tuple(launched(one, f"f<{number}>()", number) for one in (before, after)) for number in range(3)]
    comparisons, notes = pairing.lay_out(rows, ("old", "new"))
    return report.render_all(comparisons, notes, "old → new")


def _foreign(profile: Profile) -> Profile:
    note = remarks.note("ncu wrote NaN for pcie__read_bytes.sum.", aside=True)
    below_zero = {"dram__bytes.sum.pct_of_peak_sustained_elapsed": Metric(-0.01, "%")}
    return replace(
        profile,
        engine="ncu",
        kernel=KernelId(name=profile.kernel.function, function=profile.kernel.function),
        metrics={**profile.metrics, **below_zero},
        findings=(*profile.findings, note),
    )


def _hostile(profile: Profile) -> Profile:
    name = HOSTILE + "long" * 50
    sources = {path: f"{HOSTILE}\n{text}" for path, text in profile.sources.items()}
    named = replace(profile, kernel=replace(profile.kernel, name=name, title=name, function=name), sources=sources)
    fields = ("KernelId.name", "Instruction.sass", "Instruction.stack", "Profile.sources")
    return poisoned(named, lambda text: f"{text}{HIDING}", fields)  # type: ignore[no-any-return]


def _edited(profile: Profile) -> Profile:
    """Return the profile as if a line had been added at the start of the kernel's header."""
    stacks = [tuple((file, line + (file == LONG)) for file, line in one.stack) for one in profile.instructions]
    return replace(
        profile,
        sources={**profile.sources, LONG: f"// edited\n{profile.sources[LONG]}"},
        instructions=tuple(replace(one, stack=stack) for one, stack in zip(profile.instructions, stacks, strict=True)),
    )


def _long(profile: Profile) -> Profile:
    """Return a profile of 5,000 instructions, whose sites are spread over 3,000 lines."""
    lines = profile.sources[LONG].splitlines()
    start, own = profile.instructions[0].pc, len(profile.instructions)
    instructions = []
    for number in range(5_000):
        one = profile.instructions[number % own]
        moved = number // own * 2 * len(lines)
        stack = tuple((file, line + moved if file == LONG else line) for file, line in one.stack)
        instructions.append(replace(one, pc=start + 16 * number, stack=stack))
    text = "\n".join((lines * (3_000 // len(lines) + 1))[:3_000])
    return replace(profile, sources={**profile.sources, LONG: text}, instructions=tuple(instructions))
