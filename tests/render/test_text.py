"""Numbers and highlighted source as text, in bounded time, whatever a report or the cache holds."""

import dataclasses
import marshal
import pickle
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import bc_magic
from rich.console import Console

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import listing, page, source, terminal, text
from ncu_swizzle.render.colours import Coloured, Colours, Token
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.comparison import JobResult, TimedFamily, compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Finding, Metric, Profile
from ncu_swizzle.reports.options import EMULATED
from tests.support import process
from tests.support.pages import shown
from tests.support.places import RECORDINGS
from tests.support.reports import EMPTY

CHANGES = {
    (100, 50): "÷ 2.00", (10, 35): "× 3.50", (100, 112): "+12.0 %", (100, 99): "−1.0 %", (3, 3): "same",
    (0, 1234): "+1,234", (5, 0): "−100.0 %", (None, 5): "unknown", (5, float("nan")): "unknown",
}  # fmt: skip


def test_numbers_and_changes_read_well() -> None:
    assert {pair: text.change(*pair) for pair in CHANGES} == CHANGES
    assert text.count(1886388224) == "1,886,388,224"
    assert text.count(None) == text.degree(float("inf")) == text.percent(float("nan")) == "unknown"
    assert text.fixed(0.000123, 3) == "0.000123"
    assert text.points(86.85, 31.04) == "−55.8 pp"
    assert text.all_digits(9658720.0) == "9,658,720"
    assert text.all_digits(0.125) == "0.125"


def test_counts_are_short_or_lower_bounds_and_times_have_one_unit() -> None:
    assert [text.short(n) for n in (0, 999, 4200, 999_960, 469_762_048)] == ["0", "999", "4.2 k", "1.0 M", "469.8 M"]
    assert (text.counted(None, 5), text.counted(None, 0), text.counted(7, 5)) == ("at least 5", "unknown", "7")
    assert text.percent(-0.01) == "0.0 %"
    assert text.change(100_000, 100_002) == "+0.002 %"
    assert (text.duration_text(80_000), text.duration_text(1.5e6)) == ("80.00 µs", "1.500 ms")
    assert text.duration_text(80_000, text.time_unit([80_000, 2e6, None])) == "0.080 ms"


def test_highlighting_keeps_every_character_on_its_line() -> None:
    source = '\n\n/* one\ntwo */ int x = 1;\r\n#define A "s" \\\n  1\nno end'
    lines = Colours()(source, "a.cu").lines
    assert ["".join(token.text for token in line) for line in lines] == source.split("\n")
    assert Token("com", "/* one") in lines[2]
    assert Colours()("", "a.cu").lines == []
    assert len(Colours()("a\nb\n", "a.cu").lines) == 2


MACHINE = {"gpu": "A GPU", "driver": "1.2", "cuda": "13.0"}


def timing(family: str, times: dict[str, list[float]], copy: list[float]) -> TimedFamily:
    found, _ = catalog.shipped().named(next(iter(times)))
    assert found.name == family
    kernels = tuple(kernel for kernel in found.kernels if kernel.name in times)
    facts: dict[str, Any] = {"machine": MACHINE, "problem": found.problem(), "times_ms": times, "copy_ms": copy}
    return TimedFamily(found, kernels, {**facts, "errors": {"transpose-xor": {"out": 0.0}}})


def printed(one: TimedFamily) -> str:
    console = Console(file=StringIO(), width=120)
    listing.show_times(one, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_family_that_memory_limits_is_held_against_a_copy() -> None:
    one = timing("transpose", {"transpose-plain": [0.3, 0.2, 0.1], "transpose-xor": [0.1]}, [0.05, 0.06, 0.05])
    assert listing.reference_time(one) == ("a plain copy", 0.05)
    text = printed(one)
    assert "of a plain copy" in text
    assert "0.250" in text, "the median of plain, 0.2 ms, is four copies long"
    assert "0.500" in text


def test_a_library_s_kernel_comes_first() -> None:
    one = timing("gemm", {"gemm-plain": [10.0], "reference-gemm": [2.0]}, [])
    assert listing.reference_time(one) == ("reference-gemm", 2.0)
    assert "0.200" in printed(one)


def test_requests_that_are_not_known_make_no_rate() -> None:
    load = Instruction(0, "LDG R2", "LDG", "LDG", executed=None, traffic=Traffic(sectors=1 << 70, ideal=1 << 70))
    console = Console(file=StringIO(), width=120)
    comparison = compare([dataclasses.replace(EMPTY, instructions=(load,))])
    terminal.show(JobResult(comparisons=(comparison,), engine=EMULATED), console)
    assert "Sectors of global and local memory per request" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("copy", [[], None])
def test_without_either_there_is_no_such_column(copy: list[float]) -> None:
    one = timing("gemm", {"gemm-plain": [10.0]}, copy)
    assert listing.reference_time(one) is None
    assert " of " not in printed(one).splitlines()[-2]


def made(text: str | None, lines: int = 1) -> Profile:
    """Return a profile of a source with accesses on its first lines."""
    instructions = tuple(
        Instruction(16 * n, "LDS R0, [R1]", "LDS", "LDS", (("a.cu", n + 1),), 1, 2 + n % 2, 1) for n in range(lines)
    )
    sources = {} if text is None else {"a.cu": text}
    return dataclasses.replace(EMPTY, instructions=instructions, sources=sources)


HOSTILE = {
    "blank lines": "\n" * 50_000,
    "brackets": "(" * 400_000,
    "brackets and lines": "(\n" * 200_000,
    "words": "a " * 200_000,
    "strings": '"' * 400_001,
    "comments": "/*" * 200_000,
    "directives": "#if 0\n" * 80_000,
    "names": "a::" * 150_000,
    "stars": "a*" * 200_000,
    "spaces": " " * 499_999,
    "continued": "#define a \\\n" * 40_000,
}
TELLING = ("blank lines", "directives", "brackets and lines")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in TELLING else pytest.mark.slow) for name in HOSTILE]
)
def test_a_hostile_source_is_shown_without_colours_or_with_them_but_soon(name: str) -> None:
    text = HOSTILE[name]
    for path in ("a.cu", "a.py"):
        coloured = Colours()(text, path)
        assert "\n".join("".join(t.text for t in line) for line in coloured.lines).rstrip("\n") == text.rstrip("\n")
        assert not coloured.note or "without colours" in coloured.note


def test_blank_lines_are_plain_and_the_page_says_so() -> None:
    text = ("(" * 999 + "\n") * 600
    (panel,) = shown(made(text)).panels
    assert "Shown without colours: the file has 600,000 characters" in panel.notes[0]
    assert panel.notes[0].split(":")[0] in page.render(compare([made(text)]))


@pytest.mark.long
def test_in_a_thread_colours_are_the_same_and_bounded() -> None:
    said: list[Coloured] = []
    text = "int a = 1; // in a thread\n"
    for each in (text, "\n" * 50_000 + "// in a thread"):
        thread = threading.Thread(target=lambda each=each: said.append(Colours()(each, "a.cu")), daemon=True)
        thread.start()
        thread.join(60)
    assert said[0] == Colours()(text, "a.cu")
    assert len(said) == 2


@pytest.mark.parametrize("text", ["int a;\n" * 1_000_000, "a" * 5_000_000, "\n" * 3_000_000], ids=len)
def test_a_huge_source_is_cut_with_a_note(text: str) -> None:
    profile = made(text, 3)
    (panel,) = shown(profile).panels
    assert panel.notes
    assert sum(len(block.lines) for block in panel.blocks) <= source.MOST_ROWS
    assert len(page.render(compare([profile]))) < 2_000_000


def test_a_line_is_cut_with_a_note_and_an_ordinary_source_is_whole() -> None:
    (panel,) = shown(made("int a; " + "b" * 10_000)).panels
    assert "more characters)" in "".join(t.text for t in panel.blocks[0].lines[0].tokens)
    (panel,) = shown(made("int a;\nint b;\n")).panels
    assert panel.notes == ()


@pytest.mark.long
def test_more_lines_with_counts_than_fit_leave_the_least_out() -> None:
    (panel,) = shown(made(None, source.MOST_ROWS + 10)).panels
    assert "10 more lines with counts are not shown." in panel.notes
    assert sum(len(block.lines) for block in panel.blocks) == source.MOST_ROWS


def test_more_files_than_fit_are_named() -> None:
    files = [Instruction(n, "LDS", "LDS", "LDS", ((f"{n}.cu", 1),), 1, 2, 1) for n in range(2_000)]
    built = shown(dataclasses.replace(EMPTY, instructions=tuple(files)))
    assert len(built.panels) == source.MOST_FILES
    assert built.minor_files[-1] == f"{2_000 - source.MOST_FILES - source.MOST_NAMED:,} more files"


LONG_NAMES = (("f" * 1_000_000, 1),)
DEEP = tuple(("a.cu", number) for number in range(20_000))


@pytest.mark.parametrize(
    ("profile", "limit"),
    [
        (dataclasses.replace(EMPTY, instructions=(Instruction(0, "LDS", "LDS", "LDS", DEEP),) * 1000), "20,000 deep"),
        pytest.param(
            dataclasses.replace(EMPTY, metrics={f"m{n}": Metric(n) for n in range(30_000)}),
            "30,000 metrics",
            marks=pytest.mark.long,
        ),
        (
            dataclasses.replace(EMPTY, findings=(Finding(rule="r", kind="k", title="t", message="m"),) * 6_000),
            "6,000 findings",
        ),
        (dataclasses.replace(EMPTY, kernel=dataclasses.replace(EMPTY.kernel, function="f" * 30_000)), "30,000 char"),
        (dataclasses.replace(EMPTY, notes=("n",) * 2_000), "2,000 notes"),
        (
            dataclasses.replace(EMPTY, instructions=(Instruction(0, "LDS", "LDS", "LDS", LONG_NAMES),) * 1_000),
            "200,000,000 characters",
        ),
    ],
)
def test_what_no_compiler_or_ncu_writes_is_refused_with_the_limit(profile: Profile, limit: str, tmp_path: Path) -> None:
    profile.save(tmp_path / "a.json")
    with pytest.raises(UsageError, match=limit) as error:
        run_folder.load_profile(tmp_path / "a.json")
    assert "limit" in str(error.value)


class Hostile:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.file,))


@pytest.mark.long
def test_a_planted_template_is_not_executed(tmp_path: Path) -> None:
    """Under every name that Jinja would look for, with the checksum it expects: a pickle, then compiled code."""
    ran = tmp_path / "ran"
    folder = tmp_path / "cache" / "ncu-swizzle" / "templates"
    folder.mkdir(parents=True)
    jinja, templates = FileSystemBytecodeCache(str(folder)), page.environment()
    code = compile(f"open({str(ran)!r}, 'w')", "planted", "exec")
    for name in templates.list_templates():
        file = str(paths.reports() / name)
        source = (paths.reports() / name).read_text(encoding="utf-8")
        bucket = jinja.get_bucket(templates, name, file, source)
        planted = Path(folder, f"__jinja2_{bucket.key}.cache")
        harmful = pickle.dumps(Hostile(ran)) if len(name) % 2 else pickle.dumps(bucket.checksum) + marshal.dumps(code)
        planted.write_bytes(bc_magic + harmful)
    done = process.started(
        *("report", str(RECORDINGS / "attention" / "kernel2.ncu-rep"), "-o", "page.html"),
        folder=tmp_path,
        env=process.environment(XDG_CACHE_HOME=str(tmp_path / "cache")),
    )
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    assert "kernel2" in (tmp_path / "page.html").read_text(encoding="utf-8")
